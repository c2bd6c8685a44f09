//! Answers laid out for people. What they say is decided in [`crate::view`].

use super::output::{Cell, Page, Tone, cell, optional};
use crate::view::{
    FrontendView, KernelView, RowState, RowView, ServicePortView, SliceEndpointView, SliceView,
    TableView, TopologyView, Treatment,
};

const NOTHING: &str = "nothing to show";

fn or_nothing<T>(page: &mut Page, items: &[T]) {
    if items.is_empty() {
        page.line(NOTHING);
    }
}

pub(super) fn services(page: &mut Page, services: &[ServicePortView]) {
    or_nothing(page, services);
    page.table(
        &["SERVICE", "PORT", "FRONTENDS", "INSIDE", "OUTSIDE", "NOTES"],
        services.iter().map(|port| {
            let name = if port.port_name.is_empty() { "" } else { &port.port_name };
            vec![
                cell(&port.service),
                Cell::lines([format!("{}/{}", port.port, port.protocol), name.to_owned()]),
                Cell::rigid_lines(port.frontends.iter().map(frontend)),
                Cell::rigid_lines(port.frontends.iter().map(|f| treatment(f.from_inside))),
                Cell::rigid_lines(port.frontends.iter().map(|f| treatment(f.from_outside))),
                Cell::lines(notes(port)),
            ]
        }),
    );
}

fn frontend(frontend: &FrontendView) -> String {
    let socket = std::net::SocketAddr::new(frontend.address, frontend.port);
    format!("{socket} {}", frontend.kind)
}

fn treatment(treatment: Option<Treatment>) -> String {
    match treatment {
        Some(Treatment::Balanced { endpoints }) => format!("{endpoints} used"),
        Some(Treatment::Refused) => "refused".to_owned(),
        Some(Treatment::Dropped) => "dropped".to_owned(),
        None => "-".to_owned(),
    }
}

/// What is out of the ordinary about a Service port.
fn notes(port: &ServicePortView) -> Vec<String> {
    let mut notes = Vec::new();
    for (name, policy) in
        [("internal", &port.internal_traffic_policy), ("external", &port.external_traffic_policy)]
    {
        if policy == "Local" {
            notes.push(format!("{name} Local"));
        }
    }
    notes.extend(port.session_affinity_seconds.map(|seconds| format!("sticky {seconds}s")));
    let is_balanced = port.frontends.iter().any(|frontend| frontend.kind == "LoadBalancerIP");
    if is_balanced && !port.source_ranges.is_empty() {
        notes.push(format!("load balancer only from {}", port.source_ranges.join(", ")));
    }
    for frontend in &port.frontends {
        notes.extend(
            frontend.owner.iter().map(|owner| format!("{}: {owner} has it", frontend.address)),
        );
        if !frontend.owned && frontend.owner.is_none() {
            notes.push(format!("{}: another Service's cluster IP", frontend.address));
        }
        if !frontend.denied.is_empty() {
            notes.push(format!("{}: denied to {}", frontend.address, frontend.denied.join(", ")));
        }
    }
    notes.extend(port.topology.annotations_ignored.iter().cloned());
    notes
}

pub(super) fn slices(page: &mut Page, slices: &[SliceView]) {
    or_nothing(page, slices);
    let rows = slices.iter().flat_map(|slice| {
        let ports: Vec<String> =
            slice.ports.iter().map(|port| format!("{}/{}", port.port, port.protocol)).collect();
        let first = vec![cell(&slice.slice), cell(&slice.service), cell(ports.join(" "))];
        let later = vec![cell(""), cell(""), cell("")];
        let leads = std::iter::once(first).chain(std::iter::repeat(later));
        let mut rows: Vec<Vec<Cell>> = leads
            .zip(&slice.endpoints)
            .map(|(mut row, endpoint)| {
                row.extend(endpoint_cells(endpoint));
                row
            })
            .collect();
        if rows.is_empty() {
            let none = [cell(&slice.slice), cell(&slice.service), cell(ports.join(" "))];
            rows.push(none.into_iter().chain(std::iter::repeat_n(cell("-"), 5)).collect());
        }
        rows
    });
    page.table(
        &["SLICE", "SERVICE", "PORTS", "ENDPOINT", "CONDITION", "NODE", "ZONE", "HINTS"],
        rows,
    );
}

fn endpoint_cells(endpoint: &SliceEndpointView) -> [Cell; 5] {
    let (condition, tone) = match (endpoint.ready, endpoint.terminating, endpoint.serving) {
        (true, ..) => ("ready", Tone::Good),
        (false, true, true) => ("terminating, serving", Tone::Plain),
        (false, true, false) => ("terminating", Tone::Bad),
        (false, false, _) => ("not ready", Tone::Bad),
    };
    let hints = endpoint.hints.as_ref().map(|hints| {
        let all: Vec<&str> =
            hints.for_zones.iter().chain(&hints.for_nodes).map(String::as_str).collect();
        all.join(" ")
    });
    [
        cell(endpoint.address),
        Cell::toned(condition, tone),
        optional(endpoint.node.as_ref()),
        optional(endpoint.zone.as_ref()),
        optional(hints),
    ]
}

pub(super) fn rows(page: &mut Page, rows: &[RowView]) {
    or_nothing(page, rows);
    let with_state = rows.iter().any(|row| row.state.is_some());
    if with_state {
        page.table(
            &["SET", "KEY", "VALUE", "STATE"],
            rows.iter().map(|row| {
                let mut cells = row_cells(row);
                cells.push(state(row));
                cells
            }),
        );
    } else {
        page.table(&["SET", "KEY", "VALUE"], rows.iter().map(row_cells));
    }
}

pub(super) fn row_cells(row: &RowView) -> Vec<Cell> {
    let set = format!("{} {}", family(row), row.set);
    vec![cell(set), cell(&row.key), cell(row.value.as_deref().unwrap_or_default())]
}

fn family(row: &RowView) -> &'static str {
    row.family.nft_name()
}

fn state(row: &RowView) -> Cell {
    let reason = row.reason.as_ref().map(|reason| format!(": {reason}")).unwrap_or_default();
    match row.state {
        Some(RowState::Applied) => Cell::toned("in the kernel", Tone::Good),
        Some(RowState::Pending) => cell("pending"),
        Some(RowState::Leaving) => cell("leaving"),
        Some(RowState::SetAside) => Cell::toned(format!("set aside{reason}"), Tone::Bad),
        None => cell(""),
    }
}

pub(super) fn kernel(page: &mut Page, kernel: &KernelView) {
    for table in &kernel.tables {
        kernel_table(page, table);
    }
}

fn kernel_table(page: &mut Page, table: &TableView) {
    page.heading(&format!("table {} sliceproxy", table.family.nft_name()));
    if !table.present {
        page.line("  there is no such table");
        return;
    }
    let program = match (&table.program, &table.expected_program) {
        (None, _) => "a program that does not say which it is".to_owned(),
        (Some(program), Some(expected)) if program != expected => {
            format!("program {program}, another one than expected: {expected}")
        }
        (Some(program), None) => format!("program {program}; this family is switched off"),
        (Some(program), _) => format!("program {program}"),
    };
    page.line(&format!("  {program}"));
    for damage in &table.damage {
        page.toned_line(&format!("  damaged: {damage}"), Tone::Bad);
    }
    if !table.chains.is_empty() {
        page.line(&format!("  chains for rows: {}", table.chains.join(", ")));
    }
    for stray in &table.strays {
        let stray = format!("  foreign element in {}: key 0x{}", stray.set, stray.key);
        page.toned_line(&stray, Tone::Bad);
    }
    page.table(&["SET", "KEY", "VALUE"], table.rows.iter().map(row_cells));
}

pub(super) fn topology(page: &mut Page, topology: &[TopologyView]) {
    or_nothing(page, topology);
    page.table(
        &["SERVICE PORT", "FAMILY", "LEVEL", "USED", "READY", "ALL", "REASON"],
        topology.iter().map(|port| {
            let outside = port
                .from_outside
                .as_ref()
                .map(|outside| format!("from outside {}: {}", outside.used, outside.reason));
            let ignored = port.annotations_ignored.clone();
            let reasons = [Some(port.reason.clone()), outside, ignored].into_iter().flatten();
            vec![
                cell(&port.service_port),
                cell(port.family),
                Cell::toned(&port.level, level_tone(&port.level)),
                cell(port.used),
                cell(port.ready),
                cell(port.all),
                Cell::lines(reasons),
            ]
        }),
    );
}

fn level_tone(level: &str) -> Tone {
    match level {
        "none" | "refused" => Tone::Bad,
        "anywhere" | "terminating" | "local-terminating" => Tone::Plain,
        _ => Tone::Good,
    }
}

#[cfg(test)]
mod tests;
