//! From the text of a configuration file to its two parts, with a path in every complaint.
//!
//! kube-proxy's part is read as kube-proxy reads it: a field that it does not know is a warning,
//! because a newer Kubernetes may write it. In our own part it is an error, because there it can
//! only be a mistake.

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value as Json;
use serde_norway::Value as Yaml;

use super::file::{
    ConfigFile, KUBE_PROXY_API, KUBE_PROXY_KIND, KubeProxyConfiguration, SLICE_PROXY_API,
    SLICE_PROXY_KIND, SliceProxyConfiguration,
};
use super::suggest::nearest;

/// Where kubeadm keeps kube-proxy's configuration in its ConfigMap.
const CONFIG_MAP_KEY: &str = "config.conf";

/// Why a configuration file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// Not YAML.
    #[error("not valid YAML: {0}")]
    Syntax(#[from] serde_norway::Error),
    /// No document in it.
    #[error("holds no {KUBE_PROXY_KIND} and no {SLICE_PROXY_KIND}")]
    Empty,
    /// A document of another kind.
    #[error(
        "document {number} is apiVersion {api_version:?}, kind {kind:?}; known are \
         {KUBE_PROXY_API} {KUBE_PROXY_KIND} and {SLICE_PROXY_API} {SLICE_PROXY_KIND}"
    )]
    Kind {
        /// Position in the file, from 1.
        number: usize,
        /// What it says.
        api_version: String,
        /// What it says.
        kind: String,
    },
    /// The same kind twice.
    #[error("holds {0} more than once")]
    Twice(&'static str),
    /// A value of the wrong type or form.
    #[error("{path}: {reason}")]
    Field {
        /// The field.
        path: String,
        /// Value and complaint.
        reason: String,
    },
    /// Fields of our own part that do not exist.
    #[error("{SLICE_PROXY_KIND} has no field {}", .0.join(", no field "))]
    Unknown(Vec<String>),
}

/// What a file says, and which fields of kube-proxy's part nobody knows.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Document {
    /// The settings.
    pub(super) file: ConfigFile,
    /// Unknown fields by path, each with the likely meant one.
    pub(super) unknown: Vec<String>,
}

/// Reads the text of a file: the two kinds in any order, either may be missing. A ConfigMap as
/// `kubectl get configmap kube-proxy -o yaml` prints it is taken for the file inside.
///
/// # Errors
/// See [`FileError`].
pub(super) fn parse(text: &str) -> Result<Document, FileError> {
    let mut kube_proxy: Option<KubeProxyConfiguration> = None;
    let mut slice_proxy: Option<SliceProxyConfiguration> = None;
    let mut unknown = Vec::new();
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    for (index, part) in serde_norway::Deserializer::from_str(text).enumerate() {
        let value = without_nulls(Yaml::deserialize(part)?);
        if value.is_null() {
            continue;
        }
        let field = |name: &str| value.get(name).and_then(Yaml::as_str).unwrap_or_default();
        match (field("apiVersion"), field("kind")) {
            (KUBE_PROXY_API, KUBE_PROXY_KIND) => {
                unknown = unknown_fields::<KubeProxyConfiguration>(&value);
                set_once(&mut kube_proxy, typed(value)?, KUBE_PROXY_KIND)?;
            }
            (SLICE_PROXY_API, SLICE_PROXY_KIND) => {
                let unknown = unknown_fields::<SliceProxyConfiguration>(&value);
                if !unknown.is_empty() {
                    return Err(FileError::Unknown(unknown));
                }
                set_once(&mut slice_proxy, typed(value)?, SLICE_PROXY_KIND)?;
            }
            ("v1", "ConfigMap") => {
                let inner = value.get("data").and_then(|data| data.get(CONFIG_MAP_KEY));
                return parse(inner.and_then(Yaml::as_str).ok_or(FileError::Empty)?);
            }
            (api_version, kind) => {
                return Err(FileError::Kind {
                    number: index + 1,
                    api_version: api_version.to_owned(),
                    kind: kind.to_owned(),
                });
            }
        }
    }
    if kube_proxy.is_none() && slice_proxy.is_none() {
        return Err(FileError::Empty);
    }
    let file = ConfigFile {
        kube_proxy: kube_proxy.unwrap_or_default(),
        slice_proxy: slice_proxy.unwrap_or_default(),
    };
    Ok(Document { file, unknown })
}

fn set_once<T>(slot: &mut Option<T>, value: T, kind: &'static str) -> Result<(), FileError> {
    if slot.replace(value).is_some() { Err(FileError::Twice(kind)) } else { Ok(()) }
}

fn typed<T: DeserializeOwned>(value: Yaml) -> Result<T, FileError> {
    serde_path_to_error::deserialize(value).map_err(|error| FileError::Field {
        path: error.path().to_string(),
        reason: error.into_inner().to_string(),
    })
}

/// An explicit `null` is an absent field, as in Go.
fn without_nulls(value: Yaml) -> Yaml {
    match value {
        Yaml::Mapping(map) => Yaml::Mapping(
            map.into_iter()
                .filter(|(_, value)| !value.is_null())
                .map(|(key, value)| (key, without_nulls(value)))
                .collect(),
        ),
        other => other,
    }
}

/// Fields of `value` that `T` does not have. What `T` has is what its default prints.
fn unknown_fields<T: Default + serde::Serialize>(value: &Yaml) -> Vec<String> {
    let known = serde_json::to_value(T::default()).unwrap_or_default();
    let mut paths = Vec::new();
    collect_paths(&known, "", &mut paths);
    let mut unknown = Vec::new();
    collect_unknown(value, &known, "", &mut unknown);
    let described = unknown.into_iter().map(|path| {
        let suggestion = nearest(&path, paths.iter().map(String::as_str));
        match suggestion {
            Some(near) => format!("{path} (did you mean {near}?)"),
            None => path,
        }
    });
    described.collect()
}

fn collect_paths(known: &Json, prefix: &str, paths: &mut Vec<String>) {
    let Json::Object(map) = known else { return };
    for (name, inner) in map {
        let path = join(prefix, name);
        collect_paths(inner, &path, paths);
        paths.push(path);
    }
}

/// A field whose known form is no map (a scalar, a list, a free map) is not looked into.
fn collect_unknown(value: &Yaml, known: &Json, prefix: &str, unknown: &mut Vec<String>) {
    let (Yaml::Mapping(map), Json::Object(fields)) = (value, known) else { return };
    for (name, inner) in map {
        let name = name.as_str().map_or_else(|| format!("{name:?}"), ToOwned::to_owned);
        let path = join(prefix, &name);
        match fields.get(&name) {
            Some(field) => collect_unknown(inner, field, &path, unknown),
            None => unknown.push(path),
        }
    }
}

fn join(prefix: &str, name: &str) -> String {
    if prefix.is_empty() { name.to_owned() } else { format!("{prefix}.{name}") }
}
