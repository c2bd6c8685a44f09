//! The command line: what can be typed, and one file per subcommand.

pub mod args;
mod ask;
pub mod cleanup;
pub mod client;
pub mod diff;
pub mod dump;
mod engine;
pub mod exit;
pub mod explain;
mod lookout;
mod matrix;
mod mistake;
pub mod offline;
mod output;
mod reload;
pub mod render;
pub mod run;
mod tables;

use std::process::ExitCode;

use args::Command;

use crate::{demo, logging};

/// Runs the command that the process was started with.
pub fn main() -> ExitCode {
    let invocation = args::parse();
    let result = match invocation.command {
        Command::Run(args) => run::run(&args, invocation.given),
        // Before anything starts a thread: it may have to enter a user namespace.
        Command::Demo(_) => demo::run().map(|()| exit::OK).map_err(Into::into),
        Command::Dump(args) => dump::run(&args),
        Command::Explain(args) => explain::run(&args),
        Command::Diff(args) => Ok(diff::run(&args)),
        Command::Render(args) => render::run(&args),
        Command::Cleanup(args) => cleanup::run(&args),
        Command::Completions(args) => output::write_out(&args.script()).map(|()| exit::OK),
    };
    let code = result.unwrap_or_else(|error| {
        mistake::print(&sentence(&error));
        exit::of(&error)
    });
    logging::flush();
    code
}

/// An error with its causes, each part said once: some messages contain that of their cause.
fn sentence(error: &anyhow::Error) -> String {
    let mut text = String::new();
    for part in error.chain().map(ToString::to_string) {
        if !text.contains(&part) {
            if !text.is_empty() {
                text.push_str(": ");
            }
            text.push_str(&part);
        }
    }
    text
}
