//! Feature gates in Kubernetes' form: `A=true,B=false`, with `AllAlpha` and `AllBeta`.

use std::collections::BTreeMap;

use super::suggest::nearest;

/// How settled a feature is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// Off unless asked for; may go away.
    Alpha,
    /// On its way to stay.
    Beta,
    /// Settled.
    Stable,
    /// Settled, and cannot be switched any more.
    Locked,
}

/// A feature that can be switched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Gate {
    /// Nearest endpoints first, and the `sliceproxy.io/topology-*` annotations. Ours.
    TopologyRouting,
    /// Whether `spec.externalIPs` are served. From kube-proxy.
    AllowServiceExternalIPs,
    /// Whether node hints are honoured. From kube-proxy, where it is locked.
    PreferSameTrafficDistribution,
    /// kube-proxy's nftables mode, locked: there is no other mode here.
    NFTablesProxyMode,
    /// ServiceCIDR objects, locked.
    MultiCIDRServiceAllocator,
    /// Whether `/statusz` is served. From kube-proxy.
    ComponentStatusz,
    /// Whether `/flagz` is served. From kube-proxy.
    ComponentFlagz,
}

struct GateSpec {
    gate: Gate,
    name: &'static str,
    stage: Stage,
    default: bool,
}

const SPECS: [GateSpec; 7] = [
    spec(Gate::TopologyRouting, "TopologyRouting", Stage::Alpha, false),
    spec(Gate::AllowServiceExternalIPs, "AllowServiceExternalIPs", Stage::Stable, true),
    spec(Gate::PreferSameTrafficDistribution, "PreferSameTrafficDistribution", Stage::Locked, true),
    spec(Gate::NFTablesProxyMode, "NFTablesProxyMode", Stage::Locked, true),
    spec(Gate::MultiCIDRServiceAllocator, "MultiCIDRServiceAllocator", Stage::Locked, true),
    spec(Gate::ComponentStatusz, "ComponentStatusz", Stage::Beta, true),
    spec(Gate::ComponentFlagz, "ComponentFlagz", Stage::Beta, true),
];

const fn spec(gate: Gate, name: &'static str, stage: Stage, default: bool) -> GateSpec {
    GateSpec { gate, name, stage, default }
}

/// Switches a whole stage, unless a gate is named itself.
const ALL_ALPHA: &str = "AllAlpha";
const ALL_BETA: &str = "AllBeta";

/// Why a gate cannot be set as wished.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum GateError {
    /// No `=` in an element of the list.
    #[error("{0:?} is not NAME=true or NAME=false")]
    NotAPair(String),
    /// Something else than `true` or `false`.
    #[error("{name}: {value:?} is neither true nor false")]
    NotABool {
        /// The gate.
        name: String,
        /// Its value.
        value: String,
    },
    /// No gate of that name.
    #[error("unknown feature gate {name:?}{suggestion}; known are {}", known_names().join(", "))]
    Unknown {
        /// The name.
        name: String,
        /// A likely meant name in words, or nothing.
        suggestion: String,
    },
    /// The feature cannot be switched any more.
    #[error("{name} cannot be set to {wanted}: it is locked to {}", !wanted)]
    Locked {
        /// The gate.
        name: &'static str,
        /// The refused value.
        wanted: bool,
    },
}

/// The names that `--feature-gates` takes.
pub fn known_names() -> Vec<&'static str> {
    [ALL_ALPHA, ALL_BETA].into_iter().chain(SPECS.iter().map(|s| s.name)).collect()
}

/// `A=true,B=false` as pairs; a name given twice has its last value. The names are not checked.
pub fn parse_pairs(text: &str) -> Result<BTreeMap<String, bool>, GateError> {
    let elements = text.split(',').map(str::trim).filter(|element| !element.is_empty());
    elements
        .map(|element| {
            let pair = element.split_once('=').ok_or(GateError::NotAPair(element.to_owned()))?;
            let (name, value) = (pair.0.trim().to_owned(), pair.1.trim());
            // The spellings that Go's strconv.ParseBool takes.
            match value {
                "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok((name, true)),
                "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok((name, false)),
                _ => Err(GateError::NotABool { name, value: value.to_owned() }),
            }
        })
        .collect()
}

/// Which features are on.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FeatureGates {
    /// What was asked for, by name; all of it known.
    wanted: BTreeMap<&'static str, bool>,
}

impl FeatureGates {
    /// From names and values.
    ///
    /// # Errors
    /// The first name that is unknown or locked to the other value.
    pub fn new<'a>(
        wanted: impl IntoIterator<Item = (&'a String, &'a bool)>,
    ) -> Result<Self, GateError> {
        let mut gates = Self::default();
        for (name, value) in wanted {
            let known = known_names().into_iter().find(|known| known == name);
            let Some(known) = known else {
                let suggestion = nearest(name, known_names())
                    .map(|near| format!(" (did you mean {near}?)"))
                    .unwrap_or_default();
                return Err(GateError::Unknown { name: name.clone(), suggestion });
            };
            let locked = SPECS.iter().find(|s| s.name == known && s.stage == Stage::Locked);
            if locked.is_some_and(|s| s.default != *value) {
                return Err(GateError::Locked { name: known, wanted: *value });
            }
            gates.wanted.insert(known, *value);
        }
        Ok(gates)
    }

    /// Whether the feature is on.
    pub fn enabled(&self, gate: Gate) -> bool {
        let Some(spec) = SPECS.iter().find(|spec| spec.gate == gate) else { return false };
        let of_stage = match spec.stage {
            Stage::Alpha => self.wanted.get(ALL_ALPHA),
            Stage::Beta => self.wanted.get(ALL_BETA),
            Stage::Stable | Stage::Locked => None,
        };
        self.wanted.get(spec.name).or(of_stage).copied().unwrap_or(spec.default)
    }

    /// Name, stage and state of every gate, for `/metrics` and `/configz`.
    pub fn all(&self) -> impl Iterator<Item = (&'static str, Stage, bool)> {
        SPECS.iter().map(|spec| (spec.name, spec.stage, self.enabled(spec.gate)))
    }

    /// What was asked for, by name.
    pub fn wanted(&self) -> BTreeMap<String, bool> {
        self.wanted.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;

    fn gates(text: &str) -> Result<FeatureGates, GateError> {
        FeatureGates::new(&parse_pairs(text)?)
    }

    #[test]
    fn a_gate_is_named_or_switched_with_its_stage_or_has_its_default() {
        use Gate::{AllowServiceExternalIPs, ComponentFlagz, TopologyRouting};
        for (text, gate, on) in [
            ("", TopologyRouting, false),
            ("", AllowServiceExternalIPs, true),
            ("TopologyRouting=true", TopologyRouting, true),
            ("AllAlpha=true", TopologyRouting, true),
            ("AllAlpha=true,TopologyRouting=false", TopologyRouting, false),
            ("TopologyRouting=false,AllAlpha=true", TopologyRouting, false),
            ("AllAlpha=true", ComponentFlagz, true),
            ("AllBeta=false", ComponentFlagz, false),
            ("AllBeta=false", AllowServiceExternalIPs, true),
            ("AllowServiceExternalIPs=false", AllowServiceExternalIPs, false),
            (" TopologyRouting = T , ", TopologyRouting, true),
            ("TopologyRouting=false,TopologyRouting=true", TopologyRouting, true),
            ("NFTablesProxyMode=true", Gate::NFTablesProxyMode, true),
        ] {
            assert_eq!(gates(text).unwrap().enabled(gate), on, "{text} {gate:?}");
        }
    }

    #[test]
    fn messages_name_what_is_wrong_and_what_is_known() {
        for (text, message) in [
            ("TopologyRouting", "\"TopologyRouting\" is not NAME=true or NAME=false"),
            ("TopologyRouting=yes", "TopologyRouting: \"yes\" is neither true nor false"),
            (
                "NFTablesProxyMode=false",
                "NFTablesProxyMode cannot be set to false: it is locked to true",
            ),
        ] {
            assert_eq!(gates(text).unwrap_err().to_string(), message);
        }
        let unknown = gates("TopologyRoute=true").unwrap_err().to_string();
        assert!(unknown.starts_with(
            "unknown feature gate \"TopologyRoute\" (did you mean TopologyRouting?); known are \
             AllAlpha, AllBeta, TopologyRouting, AllowServiceExternalIPs"
        ));
    }
}
