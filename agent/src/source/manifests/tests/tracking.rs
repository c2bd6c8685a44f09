//! What a change of files makes of what was known.

use std::collections::{BTreeMap, HashSet};
use std::fs;
use std::os::unix::fs::symlink;
use std::sync::Arc;

use proptest::prelude::*;
use tempfile::{TempDir, tempdir};

use super::super::tracker::{Look, Seen, Tracker};
use super::*;
use crate::model::{ObjectName, Service, Slice};

fn start(files: &[(&str, &str)]) -> (TempDir, Tracker, Seen) {
    let folder = tempdir().unwrap();
    for (name, text) in files {
        write(folder.path(), name, text);
    }
    let mut tracker = Tracker::new(folder.path().to_owned(), node("n1"));
    let seen = tracker.look(Look::Briefly, &HashSet::new());
    (folder, tracker, seen)
}

#[test]
fn first_everything_then_differences() {
    let (folder, mut tracker, seen) = start(&[("a.yaml", &shop("a", &["10.0.0.1"]))]);
    assert_eq!(
        words(&seen.events),
        ["no node", "0 regions", "0 cidrs", "all 1 slices", "all 1 services"]
    );
    assert_eq!(words(&tracker.look(Look::Closely, &HashSet::new()).events), [""; 0]);

    write(folder.path(), "a.yaml", shop("a", &["10.0.0.1", "10.0.0.2"]));
    assert_eq!(
        words(&tracker.look(Look::Closely, &HashSet::new()).events),
        ["slice shop/a-1 of 2"]
    );

    write(folder.path(), "b.yaml", shop("b", &[]));
    let added = ["slice shop/b-1 of 0", "service shop/b"];
    assert_eq!(words(&tracker.look(Look::Briefly, &HashSet::new()).events), added);

    fs::remove_file(folder.path().join("a.yaml")).unwrap();
    let removed = ["no slice shop/a-1", "no service shop/a"];
    assert_eq!(words(&tracker.look(Look::Briefly, &HashSet::new()).events), removed);

    fs::remove_file(folder.path().join("b.yaml")).unwrap();
    let removed = ["no slice shop/b-1", "no service shop/b"];
    assert_eq!(words(&tracker.look(Look::Briefly, &HashSet::new()).events), removed);
}

#[test]
fn the_own_node_and_its_zone() {
    let labelled = |zone: &str| {
        format!(
            "kind: Node\nmetadata: {{name: n1, labels: {{topology.kubernetes.io/zone: {zone}}}}}"
        )
    };
    let other = labelled("a").replace("n1", "n2");
    let (folder, mut tracker, seen) = start(&[("a.yaml", &labelled("a")), ("b.yaml", &other)]);
    assert_eq!(words(&seen.events)[0], "node in Some(\"a\")");
    write(folder.path(), "b.yaml", labelled("c").replace("n1", "n2"));
    assert_eq!(words(&tracker.look(Look::Closely, &HashSet::new()).events), [""; 0]);
    write(folder.path(), "a.yaml", labelled("b"));
    assert_eq!(
        words(&tracker.look(Look::Closely, &HashSet::new()).events),
        ["node in Some(\"b\")"]
    );
    fs::remove_file(folder.path().join("a.yaml")).unwrap();
    assert_eq!(words(&tracker.look(Look::Closely, &HashSet::new()).events), ["no node"]);
}

#[test]
fn a_broken_file_keeps_what_it_said() {
    let good = shop("a", &["10.0.0.1"]);
    let (folder, mut tracker, _) = start(&[("a.yaml", &good), ("b.yaml", &shop("b", &[]))]);
    for half in [
        &good[..good.len() / 3],
        "",
        "# being written\n",
        "{",
        "items:\n",
        "apiVersion: v1\n",
        "kind: Pod\n",
    ] {
        write(folder.path(), "a.yaml", half);
        let seen = tracker.look(Look::Closely, &HashSet::new());
        assert_eq!((words(&seen.events), seen.problems.len()), (vec![], 1), "{half}");
        assert!(seen.problems[0].to_string().contains("a.yaml"), "{}", seen.problems[0]);
        let again = tracker.look(Look::Closely, &HashSet::new());
        assert_eq!((again.events.len(), again.problems.len()), (0, 0), "told once: {half}");
    }
    write(folder.path(), "b.yaml", shop("b", &["10.0.0.9"]));
    assert_eq!(
        words(&tracker.look(Look::Closely, &HashSet::new()).events),
        ["slice shop/b-1 of 1"]
    );
    write(folder.path(), "a.yaml", &good);
    assert_eq!(words(&tracker.look(Look::Closely, &HashSet::new()).events), [""; 0]);
    write(folder.path(), "a.yaml", shop("a", &[]));
    assert_eq!(
        words(&tracker.look(Look::Closely, &HashSet::new()).events),
        ["slice shop/a-1 of 0"]
    );
}

#[test]
fn messages_say_which_objects_stay_in_use() {
    let (folder, mut tracker, seen) = start(&[("a.yaml", "kind: [")]);
    let told = |seen: &Seen| seen.problems.iter().map(ToString::to_string).collect::<String>();
    assert!(told(&seen).contains("nothing of this file is used until"), "{}", told(&seen));
    // Never whole so far: what is good of it counts.
    write(folder.path(), "a.yaml", shop("a", &[]) + "---\nkind: [\n");
    let seen = tracker.look(Look::Closely, &HashSet::new());
    assert_eq!(words(&seen.events)[3..], ["all 1 slices", "all 1 services"]);
    assert!(told(&seen).contains("this document of the file is not used"), "{}", told(&seen));
    write(folder.path(), "a.yaml", shop("a", &[]) + "---\n" + &shop("b", &[]));
    assert_eq!(tracker.look(Look::Closely, &HashSet::new()).events.len(), 2);
    for broken in [shop("a", &[]) + "---\nkind: [\n", "kind: [".to_owned()] {
        write(folder.path(), "a.yaml", broken);
        let seen = tracker.look(Look::Closely, &HashSet::new());
        assert_eq!(words(&seen.events), [""; 0]);
        assert!(told(&seen).contains("what this file said before stays in use"), "{}", told(&seen));
    }
}

#[test]
fn a_broken_or_half_written_json_document_keeps_what_the_file_said() {
    let object = |name: &str, ip: &str| {
        format!(
            r#"{{"kind":"Service","metadata":{{"name":"{name}"}},"spec":{{"clusterIP":"{ip}","ports":[{{"port":80}}]}}}}"#
        )
    };
    let (a, b) = (object("a", "10.96.0.1"), object("b", "10.96.0.2"));
    let whole = format!("{a}\n{b}\n");
    let folder = tempdir().unwrap();
    write(folder.path(), "a.json", &whole);
    let mut tracker = Tracker::new(folder.path().to_owned(), node("n1"));
    assert_eq!(tracker.look(Look::Closely, &HashSet::new()).events.len(), 5);
    for end in 1..whole.len() {
        let half = &whole[..end];
        if half.trim_end() == a {
            continue; // Nobody can see that there was more.
        }
        write(folder.path(), "a.json", half);
        let seen = tracker.look(Look::Closely, &HashSet::new());
        assert_eq!(words(&seen.events), [""; 0], "{half}");
    }
    write(folder.path(), "a.json", format!("{a}\n{{\"kind\":\n{a}\n"));
    let seen = tracker.look(Look::Closely, &HashSet::new());
    assert_eq!((words(&seen.events), seen.problems.len()), (vec![], 1));
    assert!(seen.problems[0].to_string().contains("said before stays"), "{}", seen.problems[0]);
}

#[test]
fn an_unfinished_last_document_keeps_what_the_file_said() {
    let (a, b) = (shop("a", &[]), shop("b", &[]));
    let whole = format!("{a}---\n{b}");
    let (folder, mut tracker, _) = start(&[("a.yaml", &whole)]);
    for tail in ["apiVersion: v1\n", "apiVersion: v1\nkind: Serv", "kind:\n", "kind: E"] {
        write(folder.path(), "a.yaml", format!("{a}---\n{tail}"));
        let seen = tracker.look(Look::Closely, &HashSet::new());
        assert_eq!((words(&seen.events), seen.problems.len()), (vec![], 1), "{tail}");
        assert!(seen.problems[0].to_string().contains("said before stays"), "{tail}");
        write(folder.path(), "a.yaml", &whole);
        assert_eq!(words(&tracker.look(Look::Closely, &HashSet::new()).events), [""; 0]);
    }
    write(folder.path(), "a.yaml", format!("{a}---\nkind: Pod"));
    let removed = ["no slice shop/b-1", "no service shop/b"];
    assert_eq!(words(&tracker.look(Look::Closely, &HashSet::new()).events), removed);
}

#[test]
fn a_file_that_is_being_written_is_left_out_also_behind_a_link() {
    let (folder, mut tracker, _) = start(&[("a.yaml", &shop("a", &[]))]);
    let real = tempdir().unwrap();
    write(real.path(), "b", shop("b", &[]));
    symlink(real.path().join("b"), folder.path().join("b.yaml")).unwrap();
    write(folder.path(), "a.yaml", "kind: Pod\n---\n".to_owned() + &shop("c", &[]));
    let real = fs::canonicalize(real.path().join("b")).unwrap();
    let unfinished = HashSet::from([folder.path().join("a.yaml"), real]);
    let seen = tracker.look(Look::Closely, &unfinished);
    assert_eq!((words(&seen.events), seen.awaited), (vec![], true));
    let seen = tracker.look(Look::Briefly, &HashSet::new());
    assert_eq!((seen.events.len(), seen.awaited), (6, false), "{:?}", words(&seen.events));
}

#[test]
fn at_the_start_broken_files_hold_up_only_themselves() {
    let (folder, mut tracker, seen) = start(&[("a.yaml", "kind: ["), ("b.yaml", "kind: [")]);
    assert_eq!((words(&seen.events), seen.problems.len()), (vec![], 2));
    write(folder.path(), "b.yaml", shop("b", &[]));
    let seen = tracker.look(Look::Closely, &HashSet::new());
    assert_eq!(words(&seen.events)[3..], ["all 1 slices", "all 1 services"]);
    write(folder.path(), "a.yaml", shop("a", &[]));
    let added = ["slice shop/a-1 of 0", "service shop/a"];
    assert_eq!(words(&tracker.look(Look::Closely, &HashSet::new()).events), added);
}

#[test]
fn an_empty_folder_is_an_empty_cluster_but_a_missing_one_is_an_error() {
    let (folder, mut tracker, seen) = start(&[]);
    assert_eq!(words(&seen.events)[3..], ["all 0 slices", "all 0 services"]);
    write(folder.path(), "a.yaml", shop("a", &[]));
    assert_eq!(tracker.look(Look::Closely, &HashSet::new()).events.len(), 2);
    let path = folder.path().to_owned();
    fs::remove_dir_all(&path).unwrap();
    let seen = tracker.look(Look::Closely, &HashSet::new());
    assert_eq!((words(&seen.events), seen.problems.len()), (vec![], 1));
    assert_eq!(tracker.look(Look::Closely, &HashSet::new()).problems.len(), 0, "told once");
    fs::create_dir(&path).unwrap();
    write(&path, "a.yaml", shop("a", &["10.0.0.1"]));
    assert_eq!(
        words(&tracker.look(Look::Closely, &HashSet::new()).events),
        ["slice shop/a-1 of 1"]
    );
}

#[test]
fn remarks_are_news_only_once_and_findings_are_all_there_are() {
    let faulty = shop("a", &["10.0.0.256"]);
    let pod = "kind: Pod\n---\n";
    let (folder, mut tracker, seen) = start(&[("a.yaml", &format!("{pod}{faulty}"))]);
    assert_eq!((seen.remarks.len(), seen.findings.unwrap().len()), (1, 1));
    assert!(seen.remarks[0].contains("Pod (1)"), "{}", seen.remarks[0]);
    assert_eq!(tracker.look(Look::Closely, &HashSet::new()).findings, None);
    write(folder.path(), "a.yaml", format!("# comment\n---\n{pod}{faulty}"));
    let seen = tracker.look(Look::Closely, &HashSet::new());
    assert_eq!((seen.remarks.len(), seen.findings.unwrap().len()), (0, 1));
    write(folder.path(), "a.yaml", format!("{pod}{pod}{}", shop("a", &[])));
    let seen = tracker.look(Look::Closely, &HashSet::new());
    assert_eq!((seen.remarks.len(), seen.findings.unwrap().len()), (1, 0));
}

#[test]
fn a_config_maps_links_are_swapped() {
    let folder = tempdir().unwrap();
    let path = folder.path();
    for (version, endpoints) in [("..1", &["10.0.0.1"][..]), ("..2", &["10.0.0.1", "10.0.0.2"])] {
        fs::create_dir(path.join(version)).unwrap();
        write(&path.join(version), "a.yaml", shop("a", endpoints));
    }
    symlink("..1", path.join("..data")).unwrap();
    symlink("..data/a.yaml", path.join("a.yaml")).unwrap();
    let mut tracker = Tracker::new(path.to_owned(), node("n1"));
    assert_eq!(words(&tracker.look(Look::Briefly, &HashSet::new()).events)[3], "all 1 slices");
    symlink("..2", path.join("..data_tmp")).unwrap();
    fs::rename(path.join("..data_tmp"), path.join("..data")).unwrap();
    assert_eq!(
        words(&tracker.look(Look::Briefly, &HashSet::new()).events),
        ["slice shop/a-1 of 2"]
    );
}

/// What somebody knows who has received all events so far.
#[derive(Default)]
struct Known {
    services: BTreeMap<ObjectName, Arc<Service>>,
    slices: BTreeMap<ObjectName, Arc<Slice>>,
}

impl Known {
    fn apply(&mut self, event: Event) {
        match event {
            Event::AllServices(all) => {
                self.services = all.into_iter().map(|s| (s.name.clone(), s)).collect();
            }
            Event::Service(service) => {
                self.services.insert(service.name.clone(), service);
            }
            Event::ServiceRemoved(name) => {
                assert!(self.services.remove(&name).is_some(), "{name} was known");
            }
            Event::AllSlices(all) => {
                self.slices = all.into_iter().map(|s| (s.name.clone(), s)).collect();
            }
            Event::Slice(slice) => {
                self.slices.insert(slice.name.clone(), slice);
            }
            Event::SliceRemoved(name) => {
                assert!(self.slices.remove(&name).is_some(), "{name} was known");
            }
            _ => {}
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Whatever is written and deleted in whatever order, and whenever somebody looks: the events
    /// add up to what the files say.
    #[test]
    fn events_add_up_to_the_files(
        steps in prop::collection::vec((0..3_usize, 0..4_usize, any::<bool>()), 1..20)
    ) {
        let folder = tempdir().unwrap();
        let mut tracker = Tracker::new(folder.path().to_owned(), node("n1"));
        let mut known = Known::default();
        let last = steps.len() - 1;
        for (i, (file, what, look)) in steps.into_iter().enumerate() {
            let name = ["a.yaml", "b.yaml", "c.json"][file];
            match what {
                0 => drop(fs::remove_file(folder.path().join(name))),
                1 => write(folder.path(), name, shop("x", &["10.0.0.1"]).replace("x-1", name)),
                2 => write(folder.path(), name, shop("x", &["10.0.0.2"])),
                _ => write(folder.path(), name, shop("y", &[]) + "---\n" + &shop("z", &[])),
            }
            // JSON never parses here, and so never says anything.
            if look || i == last {
                tracker.look(Look::Closely, &HashSet::new()).events.into_iter().for_each(|event| known.apply(event));
            }
        }
        fs::remove_file(folder.path().join("c.json")).ok();
        let world = load(folder.path()).unwrap();
        prop_assert_eq!(known.services, world.services);
        prop_assert_eq!(known.slices, world.slices);
    }
}
