//! The table of what kube-proxy does, `tests/parity.md`, names tests that exist.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use sliceproxy_tests::sidebyside::cases;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap()
}

/// Every Rust source, with its path from the root.
fn sources() -> BTreeMap<String, String> {
    let mut folders: Vec<PathBuf> =
        ["agent", "dataplane", "tests"].iter().map(|folder| root().join(folder)).collect();
    let mut sources = BTreeMap::new();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.strip_prefix(root()).unwrap().to_str().unwrap().to_owned();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                sources.insert(name, fs::read_to_string(path).unwrap());
            }
        }
    }
    sources
}

/// The names of the tests in a source: functions below an attribute that makes them one.
fn tests(source: &str) -> BTreeSet<&str> {
    let mut found = BTreeSet::new();
    let mut is_test = false;
    for line in source.lines().map(str::trim) {
        if line.starts_with("#[test]") || line.starts_with("#[tokio::test") {
            is_test = true;
        } else if let Some(rest) = line.trim_start_matches("async ").strip_prefix("fn ") {
            if is_test {
                found.extend(rest.split(['(', '<']).next());
            }
            is_test = false;
        }
    }
    found
}

/// A row of the table: its line, and its cells.
fn rows() -> Vec<(usize, Vec<String>)> {
    let text = fs::read_to_string(root().join("tests/parity.md")).unwrap();
    let cells = |line: &str| {
        let line = line.strip_prefix("| ")?.strip_suffix(" |")?;
        Some(line.split(" | ").map(str::to_owned).collect::<Vec<_>>())
    };
    let numbered = (1..).zip(text.lines());
    let rows = numbered.filter_map(|(number, line)| Some((number, cells(line)?)));
    rows.filter(|(_, cells)| cells.last().is_some_and(|last| last != "shown by")).collect()
}

/// What is in backticks, each with the word before it.
fn quoted(cell: &str) -> Vec<(&str, &str)> {
    let parts: Vec<&str> = cell.split('`').collect();
    let words = parts.chunks(2).filter(|pair| pair.len() == 2);
    words.map(|pair| (pair[0].split_whitespace().next_back().unwrap_or(""), pair[1])).collect()
}

#[test]
fn every_row_names_tests_that_exist() {
    let sources = sources();
    let scenarios: BTreeSet<&str> = cases::all().iter().map(|case| case.name).collect();
    let mut wrong = Vec::new();
    for (line, cells) in rows() {
        let [_, shown] = cells.as_slice() else {
            wrong.push(format!("line {line}: not two cells"));
            continue;
        };
        let mut found_here = 0;
        for (before, name) in quoted(shown) {
            let known = if before == "scenario" {
                scenarios.contains(name)
            } else if let Some((file, test)) = name.split_once("::") {
                let end = format!("/{file}");
                let mut files = sources.iter().filter(|(path, _)| path.ends_with(&end));
                let found = files.next().is_some_and(|(_, source)| tests(source).contains(test));
                found && files.next().is_none()
            } else if name.starts_with("benches/") {
                sources.keys().any(|path| path.ends_with(name))
            } else {
                continue;
            };
            found_here += usize::from(known);
            if !known {
                wrong
                    .push(format!("line {line}: {name}: no such test, or more than one such file"));
            }
        }
        if found_here == 0 {
            wrong.push(format!("line {line}: nothing shows it"));
        }
    }
    assert!(wrong.is_empty(), "tests/parity.md:\n{}", wrong.join("\n"));
}

#[test]
fn no_case_and_no_weak_spot_is_left_out() {
    let rows = rows();
    let named = |letter: char| -> Vec<String> {
        let first = |cells: &[String]| cells[0].split(' ').next().unwrap().to_owned();
        let names = rows.iter().map(|(_, cells)| first(cells));
        let is = |name: &String| {
            name.strip_prefix(letter).is_some_and(|number| number.parse::<u32>().is_ok())
        };
        names.filter(is).collect()
    };
    let cases: Vec<String> = (1..=80).map(|number| format!("C{number:02}")).collect();
    assert_eq!(named('C'), cases);
    let spots: Vec<String> = (1..=14).map(|number| format!("E{number}")).collect();
    assert_eq!(named('E'), spots);
    assert!(rows.len() > 180, "{} rows", rows.len());
}

#[test]
fn each_scenario_has_a_name_of_its_own() {
    let mut seen = BTreeSet::new();
    for case in cases::all() {
        assert!(seen.insert(case.name), "{} is there twice", case.name);
        assert!(case.all_probes().count() > 0, "nothing is sent to {}", case.name);
    }
}
