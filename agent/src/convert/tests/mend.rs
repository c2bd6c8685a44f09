//! Values of wrong types cost the smallest part that makes sense.

use serde_json::{Value, json};

use super::*;

fn service() -> Value {
    json!({
        "metadata": {"namespace": "shop", "name": "web"},
        "spec": {"type": "LoadBalancer", "clusterIP": "10.96.0.7", "clusterIPs": ["10.96.0.7"],
            "externalIPs": ["192.0.2.7"], "loadBalancerSourceRanges": ["10.0.0.0/8"],
            "sessionAffinity": "ClientIP",
            "ports": [{"name": "a", "port": 80}, {"name": "b", "port": 81}]},
        "status": {"loadBalancer": {"ingress": [{"ip": "198.51.100.1"}]}}
    })
}

fn slice() -> Value {
    json!({
        "metadata": {"namespace": "shop", "name": "web-1",
            "labels": {"kubernetes.io/service-name": "web"}},
        "addressType": "IPv4",
        "ports": [{"name": "a", "port": 8080}, {"name": "b", "port": 8081}],
        "endpoints": [{"addresses": ["10.0.0.1"]}, {"addresses": ["10.0.0.2"], "nodeName": "n"}]
    })
}

fn changed(mut object: Value, pointer: &str, value: Value) -> Value {
    let (parent, field) = pointer.rsplit_once('/').unwrap();
    let field = field.replace("~1", "/");
    match object.pointer_mut(parent).unwrap() {
        Value::Array(items) => items[field.parse::<usize>().unwrap()] = value,
        Value::Object(fields) => drop(fields.insert(field, value)),
        other => panic!("{pointer}: {other}"),
    }
    object
}

/// What is served of it, in words, and what is said.
fn read<T: Served>(object: &Value, words: impl Fn(T) -> String) -> (String, Vec<String>) {
    let text = object.to_string();
    assert!(serde_json::from_str::<T::Wire<'_>>(&text).is_err(), "readable as it is: {object}");
    match mend::<T>(&mut object.clone()) {
        Ok(Converted { object, rejections, .. }) => (
            object.map(words).unwrap_or_default(),
            rejections.iter().map(ToString::to_string).collect(),
        ),
        Err(rejections) => (String::new(), rejections.iter().map(ToString::to_string).collect()),
    }
}

#[test]
fn in_a_slice_only_that_endpoint_or_port_goes() {
    let words = |slice: Slice| {
        let ports: String = slice.ports.iter().map(|port| &*port.name).collect();
        let ips: Vec<_> = slice.endpoints.iter().map(|e| e.address.to_string()).collect();
        format!("{ports} {}", ips.join(" "))
    };
    for (pointer, value, served, told) in [
        (
            "/endpoints/0/conditions",
            json!({"ready": "true"}),
            "ab 10.0.0.2",
            "endpoints[0].conditions.ready=\"true\": invalid type: string \"true\", expected true \
             or false; the endpoint is not used; correct it",
        ),
        (
            "/endpoints/1/addresses",
            json!("10.0.0.2"),
            "ab 10.0.0.1",
            "endpoints[1].addresses=\"10.0.0.2\": invalid type: string \"10.0.0.2\", expected a \
             list of strings; the endpoint is not used; correct it",
        ),
        ("/endpoints/1/nodeName", json!(5), "ab 10.0.0.1", "endpoints[1].nodeName=\"5\": "),
        ("/endpoints/1/hints", json!({"forZones": ["a"]}), "ab 10.0.0.1", "forZones[0]=\"a\": "),
        ("/endpoints/0", json!("10.0.0.1"), "ab 10.0.0.2", "endpoints[0]=\"10.0.0.1\": "),
        ("/ports/0/name", json!(5), "b 10.0.0.1 10.0.0.2", "ports[0].name=\"5\": "),
        ("/ports/1", json!(8081), "a 10.0.0.1 10.0.0.2", "ports[1]=\"8081\": "),
        ("/endpoints", json!({}), "", "endpoints=\"{}\": "),
        ("/addressType", json!(4), "", "the object is not served"),
        ("/metadata/labels", json!(4), "", "metadata.labels=\"4\": "),
        ("/metadata/annotations", json!([4]), "ab 10.0.0.1 10.0.0.2", "no annotation is used"),
        ("/metadata/resourceVersion", json!(4), "ab 10.0.0.1 10.0.0.2", "resourceVersion=\"4\""),
    ] {
        let object = changed(slice(), pointer, value);
        let (found, said) = read(&object, words);
        assert_eq!((found.as_str(), said.len()), (served, 1), "{pointer}: {said:?}");
        assert!(said[0].starts_with("EndpointSlice shop/web-1: "), "{}", said[0]);
        assert!(said[0].contains(told), "{}", said[0]);
    }
}

#[test]
fn in_a_service_only_that_port_or_field_goes() {
    let words = |service: Service| {
        format!(
            "{} {} {} {} {}",
            service.ports.iter().map(|port| &*port.name).collect::<String>(),
            texts(&service.cluster_ips).join(","),
            texts(&service.external_ips).join(","),
            texts(&service.load_balancer_ips).join(","),
            service.affinity_timeout.map_or(0, |timeout| timeout),
        )
    };
    let whole = "ab 10.96.0.7 192.0.2.7 198.51.100.1 10800";
    for (pointer, value, served, told) in [
        ("/spec/ports/0", json!("80"), whole.replace("ab", "b"), "spec.ports[0]=\"80\": "),
        ("/spec/ports/1/name", json!(7), whole.replace("ab", "a"), "the port is not served"),
        ("/spec/clusterIPs", json!(5), whole.into(), "spec.clusterIPs=\"5\": "),
        ("/spec/clusterIP", json!(5), whole.into(), "spec.clusterIP=\"5\": "),
        ("/spec/ipFamilies", json!([4]), whole.into(), "spec.ipFamilies[0]=\"4\": "),
        ("/spec/externalIPs", json!("192.0.2.7"), whole.replace("192.0.2.7", ""), "no external IP"),
        ("/spec/externalIPs/0", json!(5), whole.replace("192.0.2.7", ""), "externalIPs[0]=\"5\""),
        ("/spec/sessionAffinityConfig", json!(5), whole.into(), "the default is used"),
        ("/spec/sessionAffinity", json!(5), whole.replace("10800", "0"), "there is none"),
        ("/status", json!(5), whole.replace("198.51.100.1", ""), "no load-balancer IP is served"),
        ("/status/loadBalancer/ingress/0", json!(5), whole.replace("198.51.100.1", ""), "[0]"),
        (
            "/spec/internalTrafficPolicy",
            json!(["Local"]),
            String::new(),
            "the object is not served",
        ),
        ("/spec/externalTrafficPolicy", json!(true), String::new(), "the object is not served"),
        ("/spec/type", json!(5), String::new(), "the object is not served"),
        ("/spec/ports", json!(5), String::new(), "spec.ports=\"5\": "),
        (
            "/metadata/name",
            json!(5),
            String::new(),
            "Service shop/(no name): metadata.name=\"5\": ",
        ),
        (
            "/metadata/annotations",
            json!({"sliceproxy.io/topology-min-endpoints": 3}),
            whole.into(),
            "min-endpoints=\"3\": invalid type: integer `3`, expected a string; it is ignored",
        ),
    ] {
        let (found, said) = read(&changed(service(), pointer, value), words);
        assert_eq!((found, said.len()), (served, 1), "{pointer}: {said:?}");
        assert!(said[0].contains(told), "{}", said[0]);
    }
}

#[test]
fn source_ranges_that_cannot_be_read_never_open_to_everybody() {
    for (pointer, value) in [
        ("/spec/loadBalancerSourceRanges", json!("10.0.0.0/8")),
        ("/spec/loadBalancerSourceRanges", json!({"a": "10.0.0.0/8"})),
        ("/spec/loadBalancerSourceRanges/0", json!(10)),
    ] {
        let object = changed(service(), pointer, value);
        let (served, said) =
            read(&object, |service: Service| texts(&service.load_balancer_ips).join(","));
        assert_eq!((served.as_str(), said.len()), ("", 2), "{pointer}: {said:?}");
        assert!(said[1].contains("rather than to everybody"), "{said:?}");
    }
}

#[test]
fn nothing_in_a_list_is_told_once_whatever_else_is_wrong() {
    let field = |converted: Converted<Slice>| -> Vec<String> {
        converted.rejections.into_iter().map(|rejection| rejection.field).collect()
    };
    let object = changed(slice(), "/endpoints/0", Value::Null);
    let text = object.to_string();
    let alone = super::super::slice(&serde_json::from_str(&text).unwrap());
    assert_eq!(field(alone), ["endpoints[0]"]);
    let mut beside = changed(object, "/endpoints/1/nodeName", json!(5));
    let converted = mend::<Slice>(&mut beside).unwrap();
    assert_eq!(field(converted), ["endpoints[0]", "endpoints[1].nodeName"]);
}

#[test]
fn a_thousand_unreadable_endpoints_are_read_once_each_and_told_in_a_few_lines() {
    let endpoints: Vec<Value> =
        (0..MAX_ENDPOINTS).map(|_| json!({"addresses": "x".repeat(300)})).collect();
    let mut object = changed(slice(), "/endpoints", json!(endpoints));
    let converted = mend::<Slice>(&mut object).unwrap();
    assert_eq!(converted.object.unwrap().endpoints, []);
    assert_eq!(converted.rejections.len(), MAX_REJECTIONS + 1);
    for rejection in &converted.rejections {
        assert!(rejection.to_string().chars().count() < 400, "{rejection}");
    }
}

#[test]
fn annotations_that_look_like_ours_are_named_whatever_they_hold() {
    for (value, shown) in [(json!("x"), "x"), (json!(3), "3"), (Value::Null, "")] {
        let annotations = json!({"sliceproxy.io/topolgy-keys": value, "other/topology-keys": 7});
        let converted = service_object(&json!({"metadata": {"annotations": annotations}}));
        assert!(converted.object.is_some());
        assert_eq!(fields(&converted), ["metadata.annotations[sliceproxy.io/topolgy-keys]"]);
        assert_eq!(converted.rejections[0].value, shown);
        let reason = &converted.rejections[0].reason;
        assert!(reason.contains("did you mean sliceproxy.io/topology-keys?"), "{reason}");
    }
}
