//! Whether the configuration file says something else than the process that runs. Nothing is
//! changed in place: a process ends and is started again, which costs no connection, since the rules
//! stay in the kernel. A file that cannot be used never ends it.

use super::{Config, ConfigError, Flags};

/// Compares the file with the configuration of this process.
#[derive(Debug)]
pub struct Changes {
    flags: Flags,
    current: Config,
    /// The text that was judged last, and the one seen last.
    judged: Option<Vec<u8>>,
    seen: Option<Vec<u8>>,
}

/// What became of the file.
#[derive(Debug)]
pub enum Verdict {
    /// Nothing, since the last look.
    Same,
    /// It was written to, but means the same.
    Effectless,
    /// It means something else, and can be used.
    Changed,
    /// It cannot be used.
    Unusable(ConfigError),
}

/// How much a file is trusted to be complete.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Look {
    /// Somebody may be writing it: it counts once two looks have seen the same.
    Patient,
    /// Somebody says that it is complete.
    Now,
}

impl Changes {
    /// Of the file that `flags` name; `current` was made of both.
    pub fn new(flags: Flags, current: Config) -> Self {
        Self { flags, current, judged: None, seen: None }
    }

    /// Whether there is a file at all.
    pub fn has_file(&self) -> bool {
        self.flags.config_file().is_some()
    }

    /// Looks at the file.
    pub fn look(&mut self, look: Look) -> Verdict {
        let Some(path) = self.flags.config_file() else { return Verdict::Same };
        // One that cannot be read is judged like an empty one: by reading it again.
        let text = std::fs::read(path).unwrap_or_default();
        let stable = self.seen.as_ref() == Some(&text);
        self.seen = Some(text.clone());
        let judged = self.judged.as_ref() == Some(&text);
        if look == Look::Patient && (judged || !stable) {
            return Verdict::Same;
        }
        let verdict = match Config::load(&self.flags) {
            Ok(loaded) if loaded.config == self.current => Verdict::Effectless,
            Ok(_) => Verdict::Changed,
            Err(error) => Verdict::Unusable(error),
        };
        self.judged = Some(text);
        verdict
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use std::path::Path;

    use super::*;

    fn write(file: &Path, masquerade_all: &str) {
        let text = format!(
            "apiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: KubeProxyConfiguration\n\
             nftables:\n  masqueradeAll: {masquerade_all}\n"
        );
        std::fs::write(file, text).unwrap();
    }

    #[test]
    fn a_file_counts_when_it_is_complete_usable_and_means_something_else() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("config.yaml");
        write(&file, "false");
        let mut flags = Flags::default();
        flags.source.config = Some(file.clone());
        flags.source.node_name = Some("n1".to_owned());
        let current = Config::load(&flags).unwrap().config;
        let mut changes = Changes::new(flags, current);
        assert!(changes.has_file());

        assert!(matches!(changes.look(Look::Patient), Verdict::Same), "seen for the first time");
        assert!(matches!(changes.look(Look::Patient), Verdict::Effectless));
        assert!(matches!(changes.look(Look::Patient), Verdict::Same), "judged already");
        write(&file, "nonsense");
        assert!(matches!(changes.look(Look::Patient), Verdict::Same), "may be half a file");
        match changes.look(Look::Patient) {
            Verdict::Unusable(error) => assert!(error.to_string().contains("masqueradeAll")),
            other => panic!("{other:?}"),
        }
        assert!(matches!(changes.look(Look::Patient), Verdict::Same), "said once");
        std::fs::remove_file(&file).unwrap();
        assert!(matches!(changes.look(Look::Now), Verdict::Unusable(_)));
        write(&file, "false # as before");
        assert!(matches!(changes.look(Look::Now), Verdict::Effectless));
        write(&file, "true");
        assert!(matches!(changes.look(Look::Patient), Verdict::Same));
        assert!(matches!(changes.look(Look::Patient), Verdict::Changed));
    }

    #[test]
    fn without_a_file_nothing_changes() {
        let mut flags = Flags::default();
        flags.source.config = Some("".into());
        flags.source.node_name = Some("n1".to_owned());
        let current = Config::load(&flags).unwrap().config;
        let mut changes = Changes::new(flags, current);
        assert!(!changes.has_file());
        assert!(matches!(changes.look(Look::Now), Verdict::Same));
    }
}
