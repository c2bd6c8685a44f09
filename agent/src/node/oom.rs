//! How soon the kernel ends this process when memory runs out.

use std::fs;
use std::path::Path;

use tracing::{debug, info};

/// Writes `/proc/self/oom_score_adj` if it differs. Without the right to do so the process runs all
/// the same, and says so.
pub fn apply(score: i16) {
    apply_at(Path::new("/proc/self/oom_score_adj"), score);
}

fn apply_at(path: &Path, score: i16) {
    let wanted = score.to_string();
    if fs::read_to_string(path).is_ok_and(|text| text.trim() == wanted) {
        return;
    }
    match fs::write(path, &wanted) {
        Ok(()) => debug!(score, "OOM score adjusted"),
        // A Pod with priority system-node-critical has nearly as low a score anyway.
        Err(error) => info!(
            %error,
            score,
            path = %path.display(),
            "the OOM score cannot be adjusted: the kernel may end this process early when memory \
             runs out; give CAP_SYS_RESOURCE, or choose another --oom-score-adj"
        ),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn written_if_it_differs_and_no_failure_if_it_cannot_be() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("oom_score_adj");
        fs::write(&path, "0\n").unwrap();
        apply_at(&path, -999);
        assert_eq!(fs::read_to_string(&path).unwrap(), "-999");
        fs::write(&path, "-999\n").unwrap();
        apply_at(&path, -999);
        assert_eq!(fs::read_to_string(&path).unwrap(), "-999\n", "left alone");
        apply_at(&folder.path().join("missing/file"), -999);
    }
}
