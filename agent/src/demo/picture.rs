//! The picture of the demo's cluster, drawn from its pods.

use super::cluster::{CLIENT, NODE, PLACES, PODS};

/// Columns inside a box.
const WIDTH: usize = 25;
/// Blanks between boxes.
const GAP: &str = "    ";

/// Three zones with their pods, and the node that connects them.
pub(super) fn cluster() -> String {
    let boxes = PLACES.map(|place| {
        let mut pods: Vec<&str> =
            PODS.iter().filter(|pod| pod.place.node == place.node).map(|pod| pod.name).collect();
        if place.node == NODE {
            pods.insert(0, CLIENT);
        }
        let half = pods.len().div_ceil(2);
        let (first, second) = pods.split_at(half);
        [
            format!(" zone {}", place.zone),
            format!("┌{}┐", "─".repeat(WIDTH)),
            format!("│{:^WIDTH$}│", first.join("   ")),
            format!("│{:^WIDTH$}│", second.join("   ")),
            format!("└{}┘", format_args!("{0}┬{0}", "─".repeat(WIDTH / 2))),
        ]
    });
    let mut lines: Vec<String> = (0..5)
        .map(|line| {
            let parts = boxes.iter().map(|lines| format!("{:<1$}", lines[line], WIDTH + 2));
            parts.collect::<Vec<_>>().join(GAP)
        })
        .collect();
    let half = " ".repeat(WIDTH / 2 + 1);
    let span = "─".repeat(WIDTH + 1 + GAP.len());
    lines.push(format!("{half}└{span}┼{span}┘"));
    let indent = " ".repeat(WIDTH + 2 + GAP.len());
    let node = format!("{NODE}: programmed by sliceproxy");
    let width = node.chars().count() + 2;
    let left = (WIDTH + 2).saturating_sub(width + 2) / 2;
    let before = indent.len().saturating_add(left).min(indent.len());
    let pad = " ".repeat(before.saturating_sub((width + 2).saturating_sub(WIDTH + 2) / 2));
    let arm = width / 2;
    lines.push(format!("{pad}┌{}┴{}┐", "─".repeat(arm), "─".repeat(width - arm - 1)));
    lines.push(format!("{pad}│ {node} │"));
    lines.push(format!("{pad}└{}┘", "─".repeat(width)));
    lines.into_iter().map(|line| line.trim_end().to_owned()).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_pod_is_in_the_picture_and_boxes_are_closed() {
        let picture = cluster();
        for pod in PODS {
            assert!(picture.contains(pod.name), "{} is missing in\n{picture}", pod.name);
        }
        let count = |wanted| picture.chars().filter(|c| *c == wanted).count();
        assert_eq!(count('┌'), count('┐'));
        assert_eq!(count('┌'), 4);
    }
}
