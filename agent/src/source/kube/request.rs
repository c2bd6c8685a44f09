//! What is asked of the API server: resources, selectors, and the paths that express them. Pure.

use std::fmt;
use std::time::Duration;

use form_urlencoded::Serializer;

use crate::config::LabelSelector;
use crate::model::NodeName;

/// Objects per page where the server has no streaming lists: 4 MB of slices of 10 endpoints.
pub(super) const PAGE_SIZE: u32 = 500;

/// A resource as RBAC knows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Resource {
    /// API group; empty for the core group.
    pub(super) group: &'static str,
    /// Plural, lower case.
    pub(super) plural: &'static str,
}

impl Resource {
    pub(super) const SERVICES: Self = Self { group: "", plural: "services" };
    pub(super) const SLICES: Self = Self { group: "discovery.k8s.io", plural: "endpointslices" };
    pub(super) const NODES: Self = Self { group: "", plural: "nodes" };
    pub(super) const SERVICE_CIDRS: Self =
        Self { group: "networking.k8s.io", plural: "servicecidrs" };
    pub(super) const EVENTS: Self = Self { group: "events.k8s.io", plural: "events" };

    /// All that we use are at v1.
    fn path(self) -> String {
        let Self { group, plural } = self;
        if group.is_empty() {
            return format!("/api/v1/{plural}");
        }
        format!("/apis/{group}/v1/{plural}")
    }
}

impl fmt::Display for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.plural)?;
        if self.group.is_empty() { Ok(()) } else { write!(f, ".{}", self.group) }
    }
}

/// What a user must be allowed to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verb {
    /// A page of a list.
    List,
    /// A watch, also one that begins with a list.
    Watch,
    /// A new object.
    Create,
}

impl Verb {
    /// What RBAC has to allow for it to be of use.
    pub(super) fn rights(self) -> &'static str {
        match self {
            Self::List | Self::Watch => r#""list", "watch""#,
            Self::Create => r#""create""#,
        }
    }
}

impl fmt::Display for Verb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::List => "list",
            Self::Watch => "watch",
            Self::Create => "create",
        })
    }
}

/// A request without its body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Request {
    pub(super) resource: Resource,
    pub(super) verb: Verb,
    /// Path and query.
    pub(super) target: String,
}

/// A new Event. `namespace` must be a name.
pub(super) fn new_event(namespace: &str) -> Request {
    let Resource { group, plural } = Resource::EVENTS;
    Request {
        resource: Resource::EVENTS,
        verb: Verb::Create,
        target: format!("/apis/{group}/v1/namespaces/{namespace}/{plural}"),
    }
}

/// The objects that are followed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Query {
    pub(super) resource: Resource,
    label_selector: Option<String>,
    field_selector: Option<String>,
}

impl Query {
    /// Services with a cluster IP that no other proxy serves.
    pub(super) fn services() -> Self {
        Self {
            resource: Resource::SERVICES,
            label_selector: Some("!service.kubernetes.io/service-proxy-name".to_owned()),
            field_selector: Some("spec.clusterIP!=None".to_owned()),
        }
    }

    /// Slices of Services with a cluster IP, narrowed further by `--slice-selector`.
    pub(super) fn slices(selector: Option<&LabelSelector>) -> Self {
        let mut terms = "!service.kubernetes.io/headless".to_owned();
        if let Some(selector) = selector {
            terms.push(',');
            terms.push_str(selector.as_str());
        }
        Self { resource: Resource::SLICES, label_selector: Some(terms), field_selector: None }
    }

    /// One Node, by name.
    pub(super) fn node(name: &NodeName) -> Self {
        Self {
            resource: Resource::NODES,
            label_selector: None,
            field_selector: Some(format!("metadata.name={name}")),
        }
    }

    /// Nodes in a zone, to look one of them up. `zone` must be a label value.
    pub(super) fn nodes_in(zone: &str) -> Self {
        Self {
            resource: Resource::NODES,
            label_selector: Some(format!("topology.kubernetes.io/zone={zone}")),
            field_selector: None,
        }
    }

    /// All ServiceCIDRs.
    pub(super) fn service_cidrs() -> Self {
        Self { resource: Resource::SERVICE_CIDRS, label_selector: None, field_selector: None }
    }

    /// The page that `token` points to, or the first.
    ///
    /// Without a resource version the list is as new as the store: one served from a cache could be
    /// older than what we had before, and revive what is gone.
    pub(super) fn page(&self, limit: u32, token: Option<&str>) -> Request {
        let mut query = self.selectors();
        query.append_pair("limit", &limit.to_string());
        if let Some(token) = token {
            query.append_pair("continue", token);
        }
        self.get(Verb::List, query)
    }

    /// A watch that begins with all objects there are.
    pub(super) fn streaming_list(&self, timeout: Duration) -> Request {
        let mut query = self.watching(timeout);
        query.append_pair("sendInitialEvents", "true");
        query.append_pair("resourceVersionMatch", "NotOlderThan");
        self.get(Verb::Watch, query)
    }

    /// A watch for what happens after `version`.
    pub(super) fn watch(&self, version: &str, timeout: Duration) -> Request {
        let mut query = self.watching(timeout);
        query.append_pair("resourceVersion", version);
        self.get(Verb::Watch, query)
    }

    fn watching(&self, timeout: Duration) -> Serializer<'static, String> {
        let mut query = self.selectors();
        query.append_pair("watch", "true");
        query.append_pair("allowWatchBookmarks", "true");
        query.append_pair("timeoutSeconds", &timeout.as_secs().to_string());
        query
    }

    fn selectors(&self) -> Serializer<'static, String> {
        let mut query = Serializer::new(String::new());
        if let Some(selector) = &self.label_selector {
            query.append_pair("labelSelector", selector);
        }
        if let Some(selector) = &self.field_selector {
            query.append_pair("fieldSelector", selector);
        }
        query
    }

    fn get(&self, verb: Verb, mut query: Serializer<'static, String>) -> Request {
        let target = format!("{}?{}", self.resource.path(), query.finish());
        Request { resource: self.resource, verb, target }
    }
}
