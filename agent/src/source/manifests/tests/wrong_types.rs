//! Any value of a real cluster's objects replaced by any other: what is wrong costs the smallest
//! part, is told, and means the same in a file as from an API server.

use std::fmt::Debug;
use std::sync::LazyLock;

use proptest::prelude::*;
use proptest::sample::Index;
use serde::Deserialize;
use serde_json::Value;

use super::super::object::{Meaning, Object, Piece};
use crate::convert::{Served, converted, mend};
use crate::model::{Node, Rejection, Service, Slice};

static SHOP: LazyLock<Vec<Value>> = LazyLock::new(|| {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/data/shop.yaml");
    let text = std::fs::read_to_string(path).unwrap();
    let mut list: Value = serde_norway::from_str(&text).unwrap();
    let Value::Array(mut items) = list["items"].take() else { panic!("no list") };
    items.retain(is_served);
    assert!(items.len() > 20, "{}", items.len());
    items
});

fn is_served(object: &Value) -> bool {
    matches!(
        Piece::new(object.clone(), None).meaning,
        Meaning::Known(
            _,
            Object::Service(Some(_)) | Object::Slice(Some(_)) | Object::Node(Some(_))
        )
    )
}

fn any_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        (0..70_000u32).prop_map(Value::from),
        ".{0,8}".prop_map(Value::from),
        prop::sample::select(vec!["None", "10.0.0.9", "80", "true", "Local", "n1", "fd00::9"])
            .prop_map(Value::from),
    ];
    leaf.prop_recursive(2, 8, 3, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
            prop::collection::btree_map("name|ip|ready|[a-z]{1,3}", inner, 0..3)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

/// Pointers to all values of `value`, itself left out.
fn pointers(value: &Value) -> Vec<String> {
    fn collect(value: &Value, at: &str, all: &mut Vec<String>) {
        let children: Vec<(String, &Value)> = match value {
            Value::Array(items) => {
                items.iter().enumerate().map(|(i, item)| (i.to_string(), item)).collect()
            }
            Value::Object(fields) => fields
                .iter()
                .map(|(key, field)| (key.replace('~', "~0").replace('/', "~1"), field))
                .collect(),
            _ => Vec::new(),
        };
        for (step, child) in children {
            let at = format!("{at}/{step}");
            collect(child, &at, all);
            all.push(at);
        }
    }
    let mut all = Vec::new();
    collect(value, "", &mut all);
    all
}

/// As from an API server.
fn read<T: Served>(object: &Value) -> (Option<T>, Vec<Rejection>) {
    let text = object.to_string();
    let mut json = serde_json::Deserializer::from_str(&text);
    let converted = match T::Wire::deserialize(&mut json) {
        Ok(wire) => Ok(converted::<T>(&wire)),
        Err(_) => mend::<T>(&mut object.clone()),
    };
    match converted {
        Ok(converted) => (converted.object, converted.rejections),
        Err(rejections) => (None, rejections),
    }
}

/// The object as it was and as it is, which both sources see alike.
fn both<T: Served + Clone + PartialEq + Debug>(
    before: &Value,
    after: &Value,
    from_file: Option<&T>,
) -> Result<(T, Option<T>, Vec<Rejection>), TestCaseError> {
    let (served, rejections) = read::<T>(after);
    prop_assert_eq!(from_file, served.as_ref(), "in a file");
    let was = read::<T>(before).0.ok_or_else(|| TestCaseError::fail("not served before"))?;
    Ok((was, served, rejections))
}

/// Whether all of `before` but the item at `index` are in `after`.
fn keeps<T: PartialEq>(before: &[T], after: &[T], index: usize) -> bool {
    before.iter().enumerate().all(|(i, item)| i == index || after.contains(item))
}

/// The index in `pointer` if it begins with `list`.
fn item_of(pointer: &str, list: &str) -> Option<usize> {
    pointer.strip_prefix(list)?.split('/').next()?.parse().ok()
}

fn check(before: &Value, after: &Value, pointer: &str) -> Result<(), TestCaseError> {
    let piece = Piece::new(after.clone(), None);
    let told = !piece.faults.is_empty();
    let object = match piece.meaning {
        Meaning::Known(_, object) => Some(object),
        _ => None,
    };
    match before["kind"].as_str() {
        Some("EndpointSlice") if !pointer.starts_with("/kind") && pointer != "/apiVersion" => {
            let object = object.and_then(|object| match object {
                Object::Slice(slice) => slice.map(|slice| (*slice).clone()),
                other => panic!("{other:?}"),
            });
            let (was, is, rejections) = both::<Slice>(before, after, object.as_ref())?;
            if let Some(index) = item_of(pointer, "/endpoints/") {
                let is = is.clone().unwrap_or_else(|| panic!("{rejections:?}"));
                prop_assert!(keeps(&was.endpoints, &is.endpoints, index), "{:?}", is);
                prop_assert_eq!(&was.ports, &is.ports);
            }
            if let Some(index) = item_of(pointer, "/ports/") {
                let is = is.clone().unwrap_or_else(|| panic!("{rejections:?}"));
                prop_assert!(keeps(&was.ports, &is.ports, index) || !rejections.is_empty());
                prop_assert_eq!(&was.endpoints, &is.endpoints);
            }
            prop_assert!(is.is_some() || told || pointer.starts_with("/metadata/labels"));
        }
        Some("Service") if !pointer.starts_with("/kind") && pointer != "/apiVersion" => {
            let object = object.and_then(|object| match object {
                Object::Service(service) => service.map(|service| (*service).clone()),
                other => panic!("{other:?}"),
            });
            let (was, is, rejections) = both::<Service>(before, after, object.as_ref())?;
            if let Some(index) = item_of(pointer, "/spec/ports/") {
                let kept = is.as_ref().is_some_and(|is| keeps(&was.ports, &is.ports, index));
                prop_assert!(kept || !rejections.is_empty(), "{:?}", is);
                let alone = was.ports.len() == 1;
                prop_assert!(is.is_some() || alone, "{pointer} {after:#?} {rejections:?}");
            }
            let ours = ["/spec/clusterIP", "/spec/type", "/metadata/labels"];
            prop_assert!(is.is_some() || told || ours.iter().any(|our| pointer.starts_with(our)));
        }
        Some("Node") if !pointer.starts_with("/kind") && pointer != "/apiVersion" => {
            let object = object.and_then(|object| match object {
                Object::Node(node) => node.map(|node| (*node).clone()),
                other => panic!("{other:?}"),
            });
            let (_, is, _) = both::<Node>(before, after, object.as_ref())?;
            prop_assert!(is.is_some() || told);
        }
        _ => {}
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_000, ..ProptestConfig::default() })]

    #[test]
    fn a_wrong_value_costs_the_smallest_part_and_is_told(
        (object, place, value) in (any::<Index>(), any::<Index>(), any_value())
    ) {
        let before = object.get(&SHOP);
        let pointers = pointers(before);
        let pointer = place.get(&pointers);
        let mut after = before.clone();
        if let Some(at) = after.pointer_mut(pointer) {
            *at = value;
        }
        check(before, &after, pointer)?;
    }
}
