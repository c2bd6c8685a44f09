//! Files that are nothing, too much, or written to harm.

use serde_json::json;
use tempfile::tempdir;

use super::loading::load_text;
use super::*;

#[test]
fn bombs_are_refused() {
    let row = |i: usize| {
        let last = i - 1;
        format!("a{i}: &a{i} [{}]\n", vec![format!("*a{last}"); 10].join(", "))
    };
    let first = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
    let aliases: String = std::iter::once(first).chain((1..10).map(row)).collect();
    let error = load_text("x.yaml", aliases).unwrap_err();
    assert!(error.contains("too many or too deeply nested aliases"), "{error}");
    load_text("x.yaml", "a: ".to_owned() + &"[".repeat(100_000)).unwrap_err();
    load_text("x.yaml", "a: ".to_owned() + &"{b: ".repeat(100_000)).unwrap_err();
    load_text("x.yaml", "- ".repeat(100_000)).unwrap_err();
    load_text("x.json", "[".repeat(100_000)).unwrap_err();
    load_text("x.json", "{\"a\":".repeat(100_000)).unwrap_err();
}

#[test]
fn nothing_to_read_is_said() {
    for (file, text) in [
        ("x.yaml", ""),
        ("x.json", ""),
        ("x.yaml", "# nothing yet\n"),
        ("x.txt", "kind: Service\n"),
        ("x.yaml", "kind: ServiceList\nitems: []\n"),
    ] {
        let world = load_text(file, text).unwrap();
        assert_eq!(world.notes.len(), 1, "{file}: {:?}", world.notes);
        assert!(world.notes[0].contains("no Service, EndpointSlice or Node in it"), "{file}");
    }
    let folder = tempdir().unwrap();
    assert_eq!(load(folder.path()).unwrap().notes.len(), 1);
    assert_eq!(load_text("x.yaml", shop("web", &[])).unwrap().notes, [""; 0]);
}

#[test]
fn what_a_file_holds_cannot_flood_or_colour_a_terminal() {
    let red = "\u{1b}[31m\u{7}\r\n";
    let long = "k".repeat(100_000);
    let hostile = [red.to_owned(), long.clone()].into_iter().flat_map(|text| {
        let (mut fields, annotation) = (json!({}), format!("sliceproxy.io/{text}"));
        fields[&text] = json!(1);
        let ports = json!([{"port": text}, {"port": 1, "name": text}, {"port": 1, "name": [text]},
            {"port": 1, "protocol": text}, text]);
        fields["ports"] = ports.clone();
        fields["clusterIP"] = json!(text);
        let mut annotations = json!({});
        annotations[&annotation] = json!(text);
        let metadata = json!({"name": "s", "annotations": annotations});
        let slice = json!({"name": "s", "labels": {"kubernetes.io/service-name": "s"}});
        [
            json!({"kind": "Service", "metadata": metadata, "spec": fields}),
            json!({"kind": "Service", "metadata": {"name": text, "namespace": text}, "spec": fields}),
            json!({"kind": "Service", "metadata": {"name": [text]}}),
            json!({"kind": "EndpointSlice", "metadata": slice, "addressType": "IPv4",
                "ports": ports, "endpoints": [{"addresses": [text]}, {"addresses": text}, text]}),
            json!({"kind": text, "apiVersion": text, "metadata": {"name": text}}),
            json!({"kind": "Service", "apiVersion": text, "metadata": {"name": text}}),
            json!({"kind": [text], "metadata": {"name": text}}),
        ]
    });
    let objects: Vec<String> = hostile.map(|object| object.to_string()).collect();
    let world = load_text("x.json", objects.join("\n")).unwrap();
    let lines = world.rejections.iter().map(ToString::to_string).chain(world.notes);
    let lines: Vec<String> = lines.collect();
    assert!(lines.len() > 30, "{lines:#?}");
    for line in &lines {
        assert!(!line.contains(char::is_control), "{line:?}");
        assert!(line.chars().count() < 1_000, "{line}");
    }
    for broken in [
        format!("kind: {red}[{long}"),
        format!("{{\"{red}"),
        format!("a: *{long}\n"),
        long.clone(),
        format!("{{{long}: 1, {long}: 1}}"),
    ] {
        let error = load_text("x.yaml", broken).unwrap_err();
        assert!(!error.contains(char::is_control), "{error:?}");
        assert!(error.chars().count() < 1_000, "{error}");
    }
    let error = load_text("x.json", format!("\"{long}\"")).unwrap_err();
    assert!(error.chars().count() < 1_000, "{error}");
    assert!(error.contains("expected a Kubernetes object, which is a map"), "{error}");
}
