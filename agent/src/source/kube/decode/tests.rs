#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use super::*;

fn slice(json: &str) -> Result<wire::EndpointSlice<'_>, Undecodable> {
    Format::Json.object(Raw::body(json.as_bytes()))
}

#[test]
fn formats_are_told_by_their_content_type() {
    for (content_type, format) in [
        ("application/json", Some(Format::Json)),
        ("Application/JSON; charset=utf-8", Some(Format::Json)),
        ("application/vnd.kubernetes.protobuf", None),
        ("text/html", None),
        ("", None),
    ] {
        assert_eq!(Format::of(content_type), format, "{content_type}");
    }
}

#[test]
fn an_undecodable_object_is_rejected_with_its_field() {
    for (json, expected) in [
        (
            r#"{"endpoints":[{"addresses":["10.0.0.1"]},{"addresses":"10.0.0.2"}]}"#,
            "EndpointSlice shop/web-1: endpoints[1].addresses=\"\": invalid type: string \
             \"10.0.0.2\", expected a list of strings; the object is not served; correct it",
        ),
        (
            r#"{"ports":[{"name":7}]}"#,
            "EndpointSlice shop/web-1: ports[0].name=\"\": invalid type: integer `7`, expected a \
             string; the object is not served; correct it",
        ),
    ] {
        let name = ObjectName::new("shop", "web-1");
        let rejections = slice(json).unwrap_err().reject("EndpointSlice", &name);
        let lines: Vec<_> = rejections.iter().map(ToString::to_string).collect();
        assert_eq!(lines, [expected]);
    }
}

#[test]
fn an_undecodable_object_can_still_be_named() {
    let json = r#"{"metadata":{"name":"web-1","namespace":"shop","resourceVersion":"7",
        "labels":{"kubernetes.io/service-name":5}},"endpoints":7}"#;
    assert!(slice(json).is_err());
    let identity = Format::Json.identity(Raw::body(json.as_bytes()));
    assert_eq!(identity.object_name(), ObjectName::new("shop", "web-1"));
    assert_eq!(identity.version.as_deref(), Some("7"));
    for nameless in ["7", "{}", "[]", r#"{"metadata":{"name":7}}"#, ""] {
        assert_eq!(Format::Json.identity(Raw::body(nameless.as_bytes())), Identity::default());
    }
}

#[test]
fn frames_end_with_a_line() {
    let bytes = b"first\nsecond\nthi";
    let (first, next) = Format::Json.frame(bytes, 0).unwrap();
    assert_eq!(&bytes[first], b"first");
    let (second, end) = Format::Json.frame(&bytes[next..], 0).unwrap();
    assert_eq!(&bytes[next..][second], b"second");
    assert!(Format::Json.frame(&bytes[next + end..], 0).is_none());
    let (third, _) = Format::Json.frame(b"third\n", 3).unwrap();
    assert_eq!(third, 0..5, "from the beginning, whatever was seen");
}

#[test]
fn what_is_no_event_is_an_error() {
    for frame in ["", "{}", "null", r#"{"type":"ADDED"}"#, r#"{"type":"NEW","object":{}}"#] {
        assert!(Format::Json.change(frame.as_bytes()).is_err(), "{frame}");
    }
}

#[test]
fn the_end_of_a_list_is_marked() {
    let marked = r#"{"metadata":{"resourceVersion":"5","annotations":{"k8s.io/initial-events-end":
        "true","other":"x"}}}"#;
    assert!(Format::Json.identity(Raw::body(marked.as_bytes())).ends_list);
    for unmarked in [
        r#"{"metadata":{"resourceVersion":"5"}}"#,
        r#"{"metadata":{"annotations":{"k8s.io/initial-events-end":"false"}}}"#,
        r#"{"metadata":{"annotations":null}}"#,
    ] {
        assert!(!Format::Json.identity(Raw::body(unmarked.as_bytes())).ends_list, "{unmarked}");
    }
}
