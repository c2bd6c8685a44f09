//! `sliceproxy dump topology --all-nodes`: what every node of a snapshot would do.

use std::collections::BTreeMap;
use std::process::ExitCode;

use anyhow::{Result, bail};
use sliceproxy_dataplane::fake::FakeKernel;

use super::args::{DumpArgs, DumpKind};
use super::exit;
use super::offline::Snapshot;
use super::output::{self, Cell, Page, Tone, cell, optional};
use crate::view::{MatrixPortView, MatrixView, matrix, share};

/// Nodes that are named in the head of a column.
const NAMED: usize = 3;

/// Prints the matrix.
///
/// # Errors
/// If the manifests cannot be used, or it cannot be written.
pub(super) fn run(args: &DumpArgs) -> Result<ExitCode> {
    if args.what != DumpKind::Topology || !args.offline.is_offline() {
        const ONLY: &str = "--all-nodes works with `dump topology --manifests PATH` only";
        return Err(exit::UsageError(ONLY).into());
    }
    let snapshot = Snapshot::open_for_any_node(&args.offline)?;
    let nodes = &snapshot.world().nodes;
    if nodes.is_empty() {
        bail!(
            "the manifests hold no Node: add them (kubectl get svc,endpointslices,nodes -A -o yaml)"
        );
    }
    let engine = snapshot.engine(FakeKernel::new())?;
    let nodes = nodes.iter().map(|(name, node)| (name, &**node));
    let filter = args.filter.clone().unwrap_or_default();
    let view = matrix(&engine, nodes, &filter, args.overload_factor);
    output::print(&view, args.output, |page| show(page, &view))?;
    Ok(exit::OK)
}

fn show(page: &mut Page, view: &MatrixView) {
    page.line("Share of each node's traffic that each endpoint gets, and of all, if every node sends the same.");
    for port in &view.service_ports {
        show_port(page, view, port);
    }
}

fn show_port(page: &mut Page, view: &MatrixView, port: &MatrixPortView) {
    page.heading(&format!("{} over {}", port.service_port, port.family));
    if port.endpoints.is_empty() {
        page.line("  no endpoint is ready");
        return;
    }
    if !port.unserved_nodes.is_empty() {
        let nodes = port.unserved_nodes.join(", ");
        page.toned_line(&format!("  nobody serves traffic from {nodes}"), Tone::Bad);
    }
    let columns = columns(port, view.nodes.len());
    let names = columns.iter().map(|nodes| column_name(view, nodes));
    let header: Vec<String> = ["ENDPOINT", "NODE", "ZONE"]
        .into_iter()
        .map(ToOwned::to_owned)
        .chain(names)
        .chain(["ALL", "OF FAIR"].into_iter().map(ToOwned::to_owned))
        .collect();
    let header: Vec<&str> = header.iter().map(String::as_str).collect();
    page.table(
        &header,
        port.endpoints.iter().map(|endpoint| {
            let shares = columns.iter().map(|nodes| {
                let share = nodes.first().and_then(|node| endpoint.percent_by_node.get(*node));
                percent(share.copied().unwrap_or_default())
            });
            let tone = if endpoint.overloaded { Tone::Bad } else { Tone::Plain };
            let mut cells = vec![
                cell(&endpoint.endpoint),
                optional(endpoint.node.as_ref()),
                optional(endpoint.zone.as_ref()),
            ];
            cells.extend(shares.map(cell));
            cells.push(cell(percent(endpoint.percent)));
            cells.push(Cell::toned(format!("{:.2} x", endpoint.times_fair), tone));
            cells
        }),
    );
    for endpoint in port.endpoints.iter().filter(|endpoint| endpoint.overloaded) {
        let warning = format!(
            "warning: {} gets {} of all traffic, {:.2} times its fair share of {} (more than {})",
            endpoint.endpoint,
            percent(endpoint.percent),
            endpoint.times_fair,
            percent(port.fair_percent),
            view.overload_factor
        );
        page.toned_line(&warning, Tone::Bad);
    }
}

/// Nodes that send alike share a column.
fn columns(port: &MatrixPortView, nodes: usize) -> Vec<Vec<usize>> {
    let mut alike: BTreeMap<Vec<String>, Vec<usize>> = BTreeMap::new();
    for node in 0..nodes {
        let shares = port.endpoints.iter().map(|endpoint| {
            endpoint.percent_by_node.get(node).map(ToString::to_string).unwrap_or_default()
        });
        alike.entry(shares.collect()).or_default().push(node);
    }
    let mut columns: Vec<Vec<usize>> = alike.into_values().collect();
    columns.sort_unstable();
    columns
}

fn column_name(view: &MatrixView, nodes: &[usize]) -> String {
    let names = nodes.iter().take(NAMED).filter_map(|node| view.nodes.get(*node));
    let mut lines: Vec<String> = names.map(|node| output::clean(&node.name)).collect();
    if nodes.len() > NAMED {
        lines.push(format!("and {} more", nodes.len() - NAMED));
    }
    lines.join("\n")
}

fn percent(percent: f64) -> String {
    if percent == 0.0 { "-".to_owned() } else { format!("{} %", share(percent)) }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;
    use crate::view::shop;

    #[test]
    fn nodes_that_send_alike_share_a_column_and_overload_is_called_out() {
        let snapshot = shop::snapshot("node-a1", "TopologyRouting");
        let engine = snapshot.engine(FakeKernel::new()).unwrap();
        let nodes = snapshot.world().nodes.iter().map(|(name, node)| (name, &**node));
        let view = matrix(&engine, nodes, &"shop/cart".parse().unwrap(), 1.2);
        let mut page = Page::piped();
        show(&mut page, &view);
        assert_eq!(
            page.text(),
            "\
Share of each node's traffic that each endpoint gets, and of all, if every node sends the same.

shop/cart:grpc/TCP over IPv4
ENDPOINT          NODE     ZONE   node-a1  node-b1  node-c1  node-d1  ALL     OF FAIR
                                  node-a2                    node-d2
10.244.2.11:7070  node-a2  eu-1a  100.0 %  50.0 %   -        -        41.7 %  1.25 x
10.244.4.11:7070  node-c1  eu-1c  -        50.0 %   100.0 %  -        25.0 %  0.75 x
10.244.6.11:7070  node-d2  us-1a  -        -        -        100.0 %  33.3 %  1.00 x
warning: 10.244.2.11:7070 gets 41.7 % of all traffic, 1.25 times its fair share of 33.3 % (more than
  1.2)
"
        );
    }
}
