//! Follows manifests as they change.
