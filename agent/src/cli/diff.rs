//! `sliceproxy diff`: what the kernel lacks or has too much of. Never writes.

use std::process::ExitCode;

use anyhow::Result;

use super::args::DiffArgs;
use super::ask::ask;
use super::output::{self, Page, Tone, cell};
use super::{exit, mistake, tables};
use crate::view::{Answer, DiffView, ProgramState, Question, RowView};

/// Prints the difference; the exit code says whether there is one, as diff(1) does.
pub fn run(args: &DiffArgs) -> ExitCode {
    match compare(args) {
        Ok(true) => exit::OK,
        Ok(false) => ExitCode::from(exit::DIFFERENT),
        Err(error) => {
            mistake::print(&format!("{error:#}"));
            ExitCode::from(exit::NO_COMPARISON)
        }
    }
}

fn compare(args: &DiffArgs) -> Result<bool> {
    let answer = ask(&Question::Diff, &args.offline)?;
    let Answer::Diff(diff) = &answer else { anyhow::bail!("the agent answered something else") };
    output::print(diff, args.output, |page| show(page, diff))?;
    Ok(diff.equal)
}

fn show(page: &mut Page, diff: &DiffView) {
    for table in &diff.tables {
        let name = format!("table {} sliceproxy", table.family.nft_name());
        let what = match table.program {
            ProgramState::Current | ProgramState::Off => continue,
            ProgramState::Missing => "is missing",
            ProgramState::Other => "holds the program of another version or configuration",
            ProgramState::Damaged => "holds a damaged program",
            ProgramState::Surplus => "should not be there: this family is switched off",
        };
        page.toned_line(&format!("{name} {what}"), Tone::Bad);
        for damage in &table.damage {
            page.line(&format!("  {damage}"));
        }
    }
    if !diff.missing_chains.is_empty() {
        let chains = diff.missing_chains.iter().map(|(f, name)| format!("{} {name}", f.nft_name()));
        let chains: Vec<String> = chains.collect();
        page.toned_line(&format!("missing chains: {}", chains.join(", ")), Tone::Bad);
    }
    row_list(page, "missing in the kernel", &diff.missing);
    row_list(page, "in the kernel, but not wanted", &diff.surplus);
    if !diff.different.is_empty() {
        page.heading(&format!("different values: {}", diff.different.len()));
        page.table(
            &["SET", "KEY", "WANTED", "IN THE KERNEL"],
            diff.different.iter().map(|difference| {
                let mut cells = tables::row_cells(&difference.desired);
                cells.push(cell(&difference.kernel_value));
                cells
            }),
        );
    }
    for stray in &diff.strays {
        let family = stray.family.nft_name();
        page.line(&format!("foreign element in {family} {}: key 0x{}", stray.set, stray.key));
    }
    if diff.equal {
        let rows = diff.desired_rows;
        page.toned_line(&format!("no difference: {rows} rows as they should be"), Tone::Good);
    } else {
        let (wanted, held) = (diff.desired_rows, diff.kernel_rows);
        page.heading(&format!("different: {wanted} rows wanted, {held} in the kernel"));
    }
}

fn row_list(page: &mut Page, title: &str, rows: &[RowView]) {
    if rows.is_empty() {
        return;
    }
    page.heading(&format!("{title}: {}", rows.len()));
    tables::rows(page, rows);
}
