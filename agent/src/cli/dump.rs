//! `sliceproxy dump`: what the agent knows, as a table, JSON or YAML.

use std::process::ExitCode;

use anyhow::Result;

use super::args::{DumpArgs, DumpKind};
use super::ask::ask;
use super::{exit, matrix, output, tables};
use crate::view::{Answer, Question};

/// Prints what is asked for.
///
/// # Errors
/// If there is no answer, or it cannot be written.
pub fn run(args: &DumpArgs) -> Result<ExitCode> {
    if args.all_nodes {
        return matrix::run(args);
    }
    let filter = args.filter.clone().unwrap_or_default();
    let question = match args.what {
        DumpKind::Services => Question::Services(filter),
        DumpKind::Slices => Question::Slices(filter),
        DumpKind::Rows => Question::Rows(filter),
        DumpKind::Kernel => Question::Kernel(filter),
        DumpKind::Topology => Question::Topology(filter),
    };
    let answer = ask(&question, &args.offline)?;
    output::print(&answer, args.output, |page| match &answer {
        Answer::Services(services) => tables::services(page, services),
        Answer::Slices(slices) => tables::slices(page, slices),
        Answer::Rows(rows) => tables::rows(page, rows),
        Answer::Kernel(kernel) => tables::kernel(page, kernel),
        Answer::Topology(topology) => tables::topology(page, topology),
        // Not asked for.
        Answer::Diff(_) | Answer::Explain(_) => {}
    })?;
    Ok(exit::OK)
}
