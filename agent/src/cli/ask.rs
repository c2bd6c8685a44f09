//! Whom a question goes to: the running agent, or one made of manifests.

use anyhow::{Context, Result, anyhow};

use super::args::OfflineFlags;
use super::client;
use super::offline::Snapshot;
use crate::config::Config;
use crate::view::{Answer, Question};

/// Answers `question`.
///
/// # Errors
/// If nobody can: the message says what to do.
pub(super) fn ask(question: &Question, flags: &OfflineFlags) -> Result<Answer> {
    if flags.is_offline() {
        return Snapshot::open(flags)?.answer(question);
    }
    let config = Config::load(&flags.to_flags())?.config;
    let socket = config.admin_socket.ok_or_else(|| {
        anyhow!("no socket is configured: use --admin-socket PATH, or --manifests PATH for an offline answer")
    })?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start the runtime")?;
    Ok(runtime.block_on(client::ask(&socket, question))?)
}
