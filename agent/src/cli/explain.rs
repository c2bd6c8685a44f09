//! `sliceproxy explain`: where a connection would go, and why.

use std::process::ExitCode;

use anyhow::Result;

use super::args::ExplainArgs;
use super::ask::ask;
use super::exit;
use super::output::{self, Cell, Page, Tone, cell, optional};
use crate::view::{
    Answer, ExplainView, FrontendExplanation, OutcomeKind, Question, RouteView,
    ServicePortExplanation, share,
};

/// Endpoints that a table shows; JSON and YAML have all.
const MAX_ENDPOINTS: usize = 200;

/// Prints the explanation.
///
/// # Errors
/// If there is no answer, or it cannot be written.
pub fn run(args: &ExplainArgs) -> Result<ExitCode> {
    let question = Question::Explain { target: args.target.clone(), from: args.from };
    let answer = ask(&question, &args.offline)?;
    let Answer::Explain(explanation) = &answer else {
        anyhow::bail!("the agent answered something else")
    };
    output::print(explanation, args.output, |page| show(page, explanation))?;
    Ok(exit::OK)
}

fn show(page: &mut Page, explanation: &ExplainView) {
    let place: Vec<&str> = [&explanation.zone, &explanation.region]
        .into_iter()
        .flatten()
        .map(String::as_str)
        .collect();
    let place = if place.is_empty() { String::new() } else { format!(" ({})", place.join(", ")) };
    page.heading(&format!("{} on node {}{place}", explanation.target, explanation.node));
    for warning in &explanation.warnings {
        page.toned_line(&format!("warning: {warning}"), Tone::Bad);
    }
    for frontend in &explanation.frontends {
        show_frontend(page, frontend);
    }
    for port in &explanation.service_ports {
        show_port(page, port);
    }
    show_way(page, explanation);
}

fn show_frontend(page: &mut Page, frontend: &FrontendExplanation) {
    page.heading(&format!("frontend {}", frontend.frontend));
    if let (Some(port), Some(kind)) = (&frontend.service_port, &frontend.kind) {
        let policy = frontend.traffic_policy.as_deref().unwrap_or_default();
        let sticky = frontend.session_affinity_seconds;
        let sticky = sticky.map(|s| format!(", a client keeps its endpoint for {s} s"));
        let sticky = sticky.unwrap_or_default();
        page.line(&format!("  {kind} of {port}, traffic policy {policy}{sticky}"));
    }
    for loser in &frontend.denied {
        page.toned_line(&format!("  {loser} asks for it too and does not get it"), Tone::Bad);
    }
    if let Some(remark) = &frontend.remark {
        page.line(&format!("  {remark}"));
    }
    for route in &frontend.routes {
        page.toned_line(&format!("  from {}: {}", route.from, route.summary), tone(route));
    }
}

fn tone(route: &RouteView) -> Tone {
    match route.outcome {
        OutcomeKind::Translated => Tone::Good,
        OutcomeKind::Refused | OutcomeKind::Dropped => Tone::Bad,
        OutcomeKind::Passed => Tone::Plain,
    }
}

fn show_port(page: &mut Page, port: &ServicePortExplanation) {
    let topology = &port.topology;
    page.heading(&format!(
        "endpoints of {} over {}: level {}, {} used, {} ready, {} in all",
        topology.service_port,
        topology.family,
        topology.level,
        topology.used,
        topology.ready,
        topology.all
    ));
    page.line(&format!("  {}", topology.reason));
    if let Some(outside) = &topology.from_outside {
        page.line(&format!("  from outside, policy Local: {}", outside.reason));
    }
    if let Some(ignored) = &topology.annotations_ignored {
        page.toned_line(&format!("  annotation ignored: {ignored}"), Tone::Bad);
    }
    page.table(
        &["  ENDPOINT", "NODE", "SHARE", "USED", "REASON"],
        port.endpoints.iter().take(MAX_ENDPOINTS).map(|endpoint| {
            let used = if endpoint.used { Cell::toned("yes", Tone::Good) } else { cell("no") };
            let outside = endpoint.from_outside.as_ref();
            let outside = outside.map(|reason| format!("from outside: {reason}"));
            vec![
                cell(format!("  {}", endpoint.endpoint)),
                optional(endpoint.node.as_ref()),
                optional(endpoint.percent.map(|percent| format!("{} %", share(percent)))),
                used,
                Cell::lines([endpoint.reason.clone()].into_iter().chain(outside)),
            ]
        }),
    );
    if port.endpoints.len() > MAX_ENDPOINTS {
        let more = port.endpoints.len() - MAX_ENDPOINTS;
        page.line(&format!("  and {more} more; -o json shows all"));
    }
}

/// The way of one packet in full: the first one that reaches a rule.
fn show_way(page: &mut Page, explanation: &ExplainView) {
    let routes = explanation
        .frontends
        .iter()
        .flat_map(|frontend| frontend.routes.iter().map(move |route| (&frontend.frontend, route)));
    let mut routes = routes.filter(|(_, route)| !route.steps.is_empty());
    let Some((frontend, route)) = routes.next() else { return };
    page.heading(&format!("way of a packet to {frontend} from {}", route.from));
    for step in &route.steps {
        page.line(&format!("  {step}"));
    }
    for chain in &explanation.not_followed {
        page.line(&format!("  not followed: {chain}"));
    }
    if routes.next().is_some() {
        page.line("  (--from ADDRESS shows that of another client, -o json all of them)");
    }
}

#[cfg(test)]
mod tests;
