//! Which Services are shown.

use std::fmt;
use std::str::FromStr;

use sliceproxy_dataplane::kernel::Kernel;
use sliceproxy_dataplane::rows::RowKey;

use rustc_hash::FxHashSet;

use super::target::MAX_NAME;
use crate::engine::Engine;
use crate::model::ServiceName;

/// All Services, those of a namespace, or one.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Filter {
    namespace: Option<String>,
    name: Option<String>,
}

/// A text that names no Services.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is neither NAMESPACE nor NAMESPACE/SERVICE, such as shop/web")]
pub struct FilterError(String);

impl Filter {
    /// Whether it lets everything through.
    pub fn is_all(&self) -> bool {
        self.namespace.is_none()
    }

    /// Whether a Service of that name is shown.
    pub fn admits(&self, service: &ServiceName) -> bool {
        let same = |wanted: &Option<String>, is: &str| wanted.as_ref().is_none_or(|w| w == is);
        same(&self.namespace, &service.namespace) && same(&self.name, &service.name)
    }

    /// Whether a row belongs to a Service that is shown: by its frontend, which the Service asks
    /// for, its cluster IP or its endpoint.
    pub(super) fn rows<K: Kernel>(&self, engine: &Engine<K>) -> impl Fn(&RowKey) -> bool + use<K> {
        let mut frontends = FxHashSet::default();
        let mut addresses = FxHashSet::default();
        let mut hairpins = FxHashSet::default();
        let all = self.is_all();
        if !all {
            for port in engine.ports().filter(|port| self.admits(&port.name.service)) {
                frontends.extend(port.claimed.iter().map(|(frontend, _)| *frontend));
                hairpins.extend(port.pool.hairpins().iter().copied());
            }
            let services = engine.cache().services().filter(|service| self.admits(&service.name));
            addresses.extend(services.flat_map(|service| service.cluster_ips.iter().copied()));
        }
        move |key| {
            all || match key {
                RowKey::ClusterIp(address) => addresses.contains(address),
                RowKey::Hairpin(_, endpoint) => hairpins.contains(endpoint),
                _ => key.frontend().is_some_and(|frontend| frontends.contains(&frontend)),
            }
        }
    }
}

impl FromStr for Filter {
    type Err = FilterError;

    fn from_str(text: &str) -> Result<Self, FilterError> {
        let (namespace, name) = match text.split_once('/') {
            Some((namespace, name)) => (namespace, Some(name)),
            None => (text, None),
        };
        let good = |part: &str| {
            let letter = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.');
            (1..=MAX_NAME).contains(&part.len()) && part.chars().all(letter)
        };
        if !good(namespace) || !name.is_none_or(good) {
            return Err(FilterError(text.to_owned()));
        }
        Ok(Self { namespace: Some(namespace.to_owned()), name: name.map(ToOwned::to_owned) })
    }
}

impl fmt::Display for Filter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.namespace.as_deref().unwrap_or_default())?;
        match &self.name {
            Some(name) => write!(f, "/{name}"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;

    #[test]
    fn namespace_or_service() {
        let web = ServiceName::new("shop", "web");
        for (text, admits) in
            [("shop", true), ("shop/web", true), ("shop/api", false), ("other", false)]
        {
            let filter: Filter = text.parse().unwrap();
            assert_eq!(filter.admits(&web), admits, "{text}");
            assert_eq!(filter.to_string(), text);
        }
        assert!(Filter::default().admits(&web));
        for text in ["", "/", "shop/", "/web", "shop/web/x", "shop/w b", "a\u{1b}b"] {
            assert!(text.parse::<Filter>().is_err(), "{text:?}");
        }
    }
}
