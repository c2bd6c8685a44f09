//! What files say, and what is said about wrong ones.

use std::fs;

use tempfile::tempdir;

use super::*;

pub(super) fn load_text(name: &str, text: impl AsRef<[u8]>) -> Result<World, String> {
    let folder = tempdir().unwrap();
    write(folder.path(), name, text);
    let prefix = format!("{}/", folder.path().display());
    load(folder.path()).map_err(|error| error.to_string().replace(&prefix, ""))
}

pub(super) fn rejections(world: &World) -> Vec<String> {
    world.rejections.iter().map(|finding| finding.rejection.to_string()).collect()
}

#[test]
fn a_real_clusters_objects_load_without_complaint() {
    let shop = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/data/shop.yaml");
    let world = load(&shop).unwrap();
    assert_eq!(rejections(&world), [""; 0]);
    assert_eq!(world.nodes.len(), 6);
    let regions = world.zone_regions();
    assert_eq!(regions.len(), 4);
    let names: Vec<_> = world.services.keys().map(ToString::to_string).collect();
    assert!(names.contains(&"shop/api".to_owned()), "{names:?}");
    assert!(!world.slices.is_empty());
    for slice in world.slices.values() {
        assert!(!slice.endpoints.is_empty() || slice.ports.is_empty(), "{}", slice.name);
    }
}

#[test]
fn documents_lists_and_formats() {
    let service = |name: &str| {
        format!(
            r#"{{"apiVersion":"v1","kind":"Service","metadata":{{"name":"{name}"}},"spec":
            {{"clusterIP":"10.96.0.1","ports":[{{"port":80}}]}}}}"#
        )
    };
    let (a, b) = (service("a"), service("b"));
    let bare = |name: &str| service(name).replace(r#""apiVersion":"v1","kind":"Service","#, "");
    for (file, text, count) in [
        ("x.yaml", format!("{a}\n---\n{b}\n"), 2),
        ("x.yaml", format!("---\n# nothing\n---\n---\n{a}\n...\n"), 1),
        ("x.yml", shop("web", &["10.0.0.1"]).replace('\n', "\r\n"), 1),
        ("x.yaml", format!("\u{feff}{}", shop("web", &["10.0.0.1"])), 1),
        ("x.json", format!("\u{feff}{a} {b}"), 2),
        ("x.json", format!(r#"{{"kind":"List","apiVersion":"v1","items":[{a},{b}]}}"#), 2),
        ("x.json", format!(r#"{{"items":[{},{}],"kind":"ServiceList"}}"#, bare("a"), bare("b")), 2),
        ("x.yaml", "kind: ServiceList\nitems:\n".to_owned(), 0),
        ("x.yaml", String::new(), 0),
        ("x.json", String::new(), 0),
        ("x.yaml", "# only a comment\n".to_owned(), 0),
        ("x.txt", "not: [a manifest".to_owned(), 0),
        (".x.yaml", "not: [a manifest".to_owned(), 0),
        ("x.yaml~", "not: [a manifest".to_owned(), 0),
    ] {
        let world = load_text(file, &text).expect(&text);
        assert_eq!(world.services.len(), count, "{text}");
        assert_eq!(rejections(&world), [""; 0], "{text}");
    }
}

#[test]
fn files_that_do_not_parse_name_the_place() {
    for (file, text, place) in [
        ("x.yaml", "kind: Service\nspec: [\n", "x.yaml:"),
        ("x.yaml", "kind: Service\nspec:\n\tports: []\n", "x.yaml:3:"),
        ("x.yaml", "kind: Service\nkind: Service\n", "x.yaml:2:1: "),
        ("x.yaml", "kind: Service\nmetadata: {name: a, name: b}\n", "x.yaml:2:21: "),
        ("x.yaml", "just text\n", "x.yaml:1:1: "),
        ("x.yaml", "apiVersion: v1\nitems:\n- kind: Service\n", "cut short"),
        ("x.json", "{\"kind\": \"Service\",\n \"spec\": }", "x.json:2:10: "),
        ("x.json", "{\"kind\": \"Serv", "x.json:1:14: "),
    ] {
        let error = load_text(file, text).unwrap_err();
        assert!(error.contains(place), "{text}: {error}");
        assert_eq!(error.matches(" line ").count(), 0, "the place is given twice: {error}");
    }
    let error = load_text("x.yaml", b"kind: Service\nname: \xff\n").unwrap_err();
    assert!(error.contains("x.yaml:2:7: not valid text: not UTF-8"), "{error}");
}

#[test]
fn offline_one_broken_file_does_not_hide_the_others() {
    let folder = tempdir().unwrap();
    write(folder.path(), "a.yaml", "kind: [");
    let error = load(folder.path()).unwrap_err().to_string();
    assert!(error.ends_with("nothing of this file is used until it is corrected"), "{error}");
    write(folder.path(), "b.yaml", shop("web", &["10.0.0.1"]));
    let world = load(folder.path()).unwrap();
    assert_eq!((world.services.len(), world.unread), (1, vec![error]));
}

#[test]
fn a_broken_document_costs_only_itself() {
    for bad in ["just text\n", "kind: [\n", "kind: Service\nkind: Service\n", "a: 'open\n"] {
        let text = format!(
            "{}---\n{bad}---\n{}",
            shop("a", &["10.0.0.1"]),
            shop("b", &["10.0.0.256"]).replace("10.96.0.7", "10.96.0.8")
        );
        let world = load_text("x.yaml", text).unwrap();
        assert_eq!((world.services.len(), world.slices.len()), (2, 2), "{bad}");
        assert_eq!(world.unread.len(), 1, "{bad}");
        let lines = 17..=20;
        let named = |line: u64| world.unread[0].contains(&format!("x.yaml:{line}:"));
        assert!(lines.clone().any(named), "{bad}: {}", world.unread[0]);
        assert!(world.unread[0].contains("this document of the file is not used"), "{bad}");
        let place = world.rejections[0].place.position.unwrap();
        assert!(place.0 > 30, "{bad}: the fault is in the last document: {place:?}");
    }
}

#[test]
fn a_broken_json_document_in_the_middle_costs_only_itself() {
    let service = |name: &str, ip: &str| {
        format!(
            r#"{{"kind":"Service","metadata":{{"name":"{name}"}},"spec":{{"clusterIP":"{ip}","ports":[{{"port":80}}]}}}}"#
        )
    };
    let (a, b) = (service("a", "10.96.0.1"), service("b", "10.96.0.256"));
    let pretty = |text: &str| text.replace(",\"", ",\n  \"");
    for file in ["x.json", "x.yaml", "any-name.json"] {
        for bad in ["{\"kind\": }", "{\"kind\": \"Service\"", "{\n  \"a\": {", "{}}", "{'a': 1}"] {
            for (a, b) in [(a.clone(), b.clone()), (pretty(&a), pretty(&b))] {
                let world = load_text(file, format!("{a}\n{bad}\n{b}\n")).expect(bad);
                assert_eq!((world.services.len(), world.unread.len()), (1, 1), "{file} {bad}");
                let told = &world.unread[0];
                assert!(told.contains("this document of the file is not used"), "{bad}: {told}");
                assert!(told.contains("not valid JSON"), "{bad}: {told}");
                let first = 1 + a.lines().count();
                let lines = first..=first + bad.lines().count();
                let named = |line: usize| told.contains(&format!("{file}:{line}:"));
                assert!(lines.clone().any(named), "{bad}: {told}");
                // The fault in the last document is found where it is.
                let place = world.rejections[0].place.position.unwrap();
                assert!(place.0 > u64::try_from(first).unwrap(), "{place:?}");
            }
        }
    }
    // As if it were half-written.
    for end in ["{\"kind\": \"Serv", "{\"kind\":", "{"] {
        let error = load_text("x.json", format!("{a}\n{{]\n{end}")).unwrap_err();
        assert!(error.contains("nothing of this file is used"), "{error}");
    }
}

#[test]
fn wrong_objects_cost_only_themselves() {
    let good = shop("good", &["10.0.0.1"]);
    for (bad, complaint) in [
        (
            "kind: Service\nmetadata: {name: s, namespace: ns}\nspec: {ports: [{port: '80'}]}",
            "Service ns/s: spec.ports[0].port=",
        ),
        ("kind: Service\nmetadata: {name: s}\nspec: 7", "Service default/s: spec="),
        // A boolean, as Kubernetes reads YAML.
        (
            "kind: Service\nmetadata: {name: n}",
            "Service default/(no name): metadata.name=\"false\"",
        ),
        ("metadata: {name: s}", "object s: kind="),
        ("kind: [Service]", "object (no name): kind="),
        ("kind: EndpointSlice\nmetadata: {name: s}\naddressType: IPv4", "service-name"),
        (
            "kind: EndpointSlice\nmetadata: {name: s}\nendpoints: [{addresses: 10.0.0.1}]",
            "EndpointSlice default/s: endpoints[0].addresses=",
        ),
    ] {
        let world = load_text("x.yaml", format!("{bad}\n---\n{good}")).expect(bad);
        assert_eq!(world.services.len(), 1, "{bad}");
        assert!(rejections(&world).join("\n").contains(complaint), "{:?}", world.rejections);
    }
}

#[test]
fn a_port_of_the_wrong_type_costs_only_itself() {
    for (written, value, remedy) in [
        ("'81'", "81", "remove the quotes"),
        ("eighty", "eighty", "correct it"),
        // Rounded, as numbers of that size are when YAML is read.
        ("99999999999999999999999999", "100000000000000000000000000", "correct it"),
        ("80.5", "80.5", "correct it"),
        ("true", "true", "correct it"),
        ("[80]", "a list", "correct it"),
        ("{}", "a map", "correct it"),
        ("0", "0", "correct it"),
        ("null", "", "set it"),
    ] {
        let text = shop("web", &["10.0.0.1"])
            .replace("port: 80}]", &format!("port: 80}}, {{name: bad, port: {written}}}]"))
            .replace("port: 8080}]", &format!("port: 8080}}, {{name: bad, port: {written}}}]"));
        let world = load_text("x.yaml", text).expect(written);
        let ports: Vec<_> = world.services.values().flat_map(|s| &s.ports).collect();
        let slice_ports: Vec<_> = world.slices.values().flat_map(|s| &s.ports).collect();
        assert_eq!((ports.len(), slice_ports.len()), (1, 1), "{written}");
        let told: Vec<_> = world.rejections.iter().map(|f| &f.rejection).collect();
        let fields: Vec<_> = told.iter().map(|r| (&*r.field, &*r.value)).collect();
        assert_eq!(fields, [("spec.ports[1].port", value), ("ports[1].port", value)], "{told:?}");
        assert!(told.iter().all(|r| r.reason.contains(remedy)), "{told:?}");
    }
}

#[test]
fn what_looks_like_ours_and_is_not_is_named_with_a_remedy() {
    let slice = shop("web", &[]).split("---\n").nth(1).unwrap().to_owned();
    let annotated = |name: &str| {
        let metadata = format!("{{name: web, annotations: {{sliceproxy.io/{name}: x}},");
        shop("web", &[]).replace("{name: web,", &metadata)
    };
    for (text, parts) in [
        (
            slice.replace("io/v1", "io/v1beta1"),
            ["apiVersion=\"discovery.k8s.io/v1beta1\"", "discovery.k8s.io/v1"],
        ),
        (
            "kind: List\nitems: [{kind: List, apiVersion: v1, items: [{}, {}]}]\n".to_owned(),
            ["items=\"2 items\"", "move them to the outer list"],
        ),
        (
            annotated("topolgy-keys"),
            ["[sliceproxy.io/topolgy-keys]=\"x\"", "did you mean sliceproxy.io/topology-keys?"],
        ),
        (annotated("colour"), ["[sliceproxy.io/colour]", "known are sliceproxy.io/topology-keys"]),
        (
            annotated("topology-min-endpoints"),
            ["[sliceproxy.io/topology-min-endpoints]", "write such a number in quotes"],
        ),
    ] {
        let world = load_text("x.yaml", &text).expect(&text);
        let told = rejections(&world);
        assert_eq!(told.len(), 1, "{told:?}");
        assert!(parts.iter().all(|part| told[0].contains(part)), "{told:?}");
        assert!(world.rejections[0].place.position.is_some(), "{told:?}");
    }
}

#[test]
fn unknown_fields_are_named_one_by_one() {
    let text = shop("web", &["10.0.0.1"])
        .replace(
            "  ports: [{name: http, port: 80}]",
            "  ports: [{name: http, port: 80, prot: TCP}]\n  prots: [1]",
        )
        .replace("- addresses:", "- adresses: x\n  addresses:");
    let world = load_text("x.yaml", text).unwrap();
    let found: Vec<_> = world.rejections.iter().map(|f| f.rejection.field.as_str()).collect();
    assert_eq!(found, ["spec.ports[0].prot", "spec.prots", "endpoints[0].adresses"]);
    assert_eq!(world.rejections[0].rejection.value, "TCP");
    assert_eq!(world.services.len(), 1, "the rest of the Service is served");
    let place = world.rejections[2].to_string();
    assert!(place.contains("x.yaml:18:13: EndpointSlice shop/web-1: "), "{place}");
}

#[test]
fn faults_are_located() {
    let yaml = "kind: List
items:
- kind: Service
  metadata:
    name: s
    annotations: {sliceproxy.io/topology-keys: rack}
  spec:
    clusterIP: 10.96.0.1
    ports:
    - port: 80
    - port: 70000
- kind: EndpointSlice
  metadata: {name: s}
  addressType: IPv4
";
    let json = r#"{"kind": "ServiceList", "items": [
  {"metadata": {"name": "s"}, "spec": {"clusterIP": "10.0.0.256",
    "ports": [{"port": 80}]}}]}"#;
    for (file, text, places) in [
        ("x.yaml", yaml, vec![Some((11, 13)), Some((6, 48)), Some((13, 13))]),
        ("x.json", json, vec![Some((2, 53))]),
        // Not YAML.
        ("x.json", r#"{"kind": "Pod"} {"kind": ""}"#, vec![None]),
    ] {
        let world = load_text(file, text).unwrap();
        let found: Vec<_> = world.rejections.iter().map(|f| f.place.position).collect();
        assert_eq!(found, places, "{:#?}", world.rejections);
    }
}

#[test]
fn a_million_faults_are_not_a_million_lines() {
    let numbers = vec!["7"; 20_000].join(",");
    let world = load_text("x.json", format!(r#"{{"kind":"List","items":[{numbers}]}}"#)).unwrap();
    assert_eq!(world.rejections.len(), 1_000);
    assert!(world.notes[0].ends_with("x.json: 19000 more faults"), "{:?}", world.notes);
    let kinds: Vec<String> = (0..500).map(|i| format!("kind: K{i}\n")).collect();
    let world = load_text("x.yaml", kinds.join("---\n")).unwrap();
    assert!(world.notes[0].len() < 300, "{}", world.notes[0]);
}

#[test]
fn other_kinds_are_counted_in_one_line() {
    let other = "kind: Pod\n---\napiVersion: v1\nkind: Pod\n---\n\
        apiVersion: serving.knative.dev/v1\nkind: Service\n";
    let world = load_text("x.yaml", other).unwrap();
    assert_eq!(world.services.len(), 0);
    assert_eq!(
        world.notes,
        ["ignored 3 objects of kinds that are not used: Pod (1), serving.knative.dev/v1 Service \
          (1), v1 Pod (1)"]
    );
}

#[test]
fn of_an_object_in_two_files_the_last_counts() {
    let folder = tempdir().unwrap();
    write(folder.path(), "b.yaml", shop("web", &["10.0.0.2", "10.0.0.3"]));
    write(folder.path(), "a.yaml", shop("web", &["10.0.0.1"]));
    let world = load(folder.path()).unwrap();
    assert_eq!(world.slices.values().next().unwrap().endpoints.len(), 2);
    assert_eq!(world.notes.len(), 2);
    assert!(world.notes.iter().all(|note| note.contains("b.yaml") && note.contains("a.yaml")));
    // An object that is not served hides an earlier one as well.
    write(
        folder.path(),
        "c.yaml",
        "kind: Service\nmetadata: {name: web, namespace: shop}\n\
        spec: {type: ExternalName}\n",
    );
    assert_eq!(load(folder.path()).unwrap().services.len(), 0);
}

#[test]
fn nodes_and_service_cidrs() {
    let world = load_text(
        "x.yaml",
        "kind: Node\nmetadata: {name: N1, labels: {topology.kubernetes.io/zone: a, \
         topology.kubernetes.io/region: r}}\n---\nkind: Node\nmetadata: {name: n2, labels: \
         {topology.kubernetes.io/zone: a, topology.kubernetes.io/region: s}}\n---\n\
         kind: ServiceCIDR\nmetadata: {name: kubernetes}\nspec: {cidrs: [10.96.0.0/12, x]}\n",
    )
    .unwrap();
    assert_eq!(world.nodes.keys().map(ToString::to_string).collect::<Vec<_>>(), ["n1", "n2"]);
    assert_eq!(world.service_cidrs.len(), 1);
    assert_eq!(rejections(&world).len(), 1);
    assert_eq!(world.zone_regions().values().next().unwrap().to_string(), "r");
    assert!(world.notes[0].contains("several regions"), "{:?}", world.notes);
    assert_eq!(
        words(&world.events(&node("n1"))),
        ["node in Some(\"a\")", "1 regions", "1 cidrs", "all 0 slices", "all 0 services"]
    );
}

#[test]
fn paths_that_are_no_manifests() {
    let folder = tempdir().unwrap();
    let missing = load(&folder.path().join("missing")).unwrap_err().to_string();
    assert!(missing.contains("missing: cannot be read"), "{missing}");
    let error = files::list(Path::new("/dev/null")).unwrap_err().to_string();
    assert!(error.contains("neither a file nor a folder, which `run` can follow"), "{error}");
    // A single file may have any name.
    fs::write(folder.path().join("any-name"), shop("web", &["10.0.0.1"])).unwrap();
    assert_eq!(load(&folder.path().join("any-name")).unwrap().services.len(), 1);
}

#[test]
fn a_pipe_can_be_loaded_though_not_followed() {
    let folder = tempdir().unwrap();
    let pipe = folder.path().join("pipe");
    nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
    let writer = pipe.clone();
    let writer = std::thread::spawn(move || fs::write(writer, shop("web", &["10.0.0.1"])).unwrap());
    assert_eq!(load(&pipe).unwrap().services.len(), 1);
    writer.join().unwrap();
}

proptest::proptest! {
    #[test]
    fn no_file_makes_it_panic(text in "[a-z{}\\[\\]:,&*!|>\"'#\\- \n\t]{0,200}") {
        let _ = load_text("x.yaml", &text);
        let _ = load_text("x.json", &text);
    }
}
