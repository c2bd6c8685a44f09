//! Service ports: the level that is used, and every endpoint with the reason why it is or is not.

use std::collections::HashMap;

use sliceproxy_dataplane::frontend::Frontend;
use sliceproxy_dataplane::kernel::Kernel;

use super::{EndpointView, FrontendExplanation, Inquiry, ServicePortExplanation};
use crate::engine::Port;
use crate::model::Service;
use crate::pool::Member;
use crate::topology::words;
use crate::view::Target;
use crate::view::route::shares;
use crate::view::topology::{Uses, of_port};

impl<K: Kernel> Inquiry<'_, K> {
    /// The Service ports behind the frontends; for a Service also those that lost all of them.
    pub(super) fn service_ports(
        &self,
        target: &Target,
        frontends: &[Frontend],
        explained: &[FrontendExplanation],
    ) -> Vec<ServicePortExplanation> {
        let concerned = |port: &&Port| {
            port.claimed.iter().any(|(frontend, _)| {
                frontends.contains(frontend)
                    && (matches!(target, Target::Service(..))
                        || self.engine.claims().owner(frontend) == Some(&port.name))
            })
        };
        let mut ports: Vec<&Port> = match target {
            Target::Service(name, _) => {
                self.engine.ports_of(name).iter().filter(concerned).collect()
            }
            Target::Frontend(_) => self.engine.ports().filter(concerned).collect(),
        };
        ports.sort_unstable_by_key(|port| (&port.name, port.pool.family()));
        let service = |port: &&Port| self.engine.cache().service(&port.name.service);
        ports
            .iter()
            .filter_map(|port| Some(self.service_port(service(port)?, port, explained)))
            .collect()
    }

    fn service_port(
        &self,
        service: &Service,
        port: &Port,
        explained: &[FrontendExplanation],
    ) -> ServicePortExplanation {
        let here = self.engine.here();
        let uses = Uses::of(service, port);
        let name = port.name.to_string();
        let own = explained.iter().filter(|f| f.service_port.as_ref() == Some(&name));
        let shares = shares(own.flat_map(|frontend| &frontend.routes));
        let passed_over = port.pool.choice().passed_over.iter();
        ServicePortExplanation {
            topology: of_port(self.engine, service, port),
            passed_over: passed_over
                .filter(|_| uses.cluster)
                .map(|passed| words::passed_over(passed, here))
                .collect(),
            endpoints: port
                .pool
                .members()
                .iter()
                .map(|member| self.endpoint(port, uses, member, &shares))
                .collect(),
        }
    }

    fn endpoint(
        &self,
        port: &Port,
        uses: Uses,
        member: &Member<'_>,
        shares: &HashMap<&str, f64>,
    ) -> EndpointView {
        let (pool, here) = (&port.pool, self.engine.here());
        let (standing, description) = (member.standing, member.description);
        let (scope, local_scope, tally) = (pool.choice().scope, pool.local_scope(), pool.tally());
        let local = words::local_endpoint(standing, description, local_scope, tally, here);
        let cluster = words::endpoint(standing, description, scope, tally, here);
        let only_local = uses.local && !uses.cluster;
        let mut slices: Vec<String> = member.slices.iter().map(|s| s.name.to_string()).collect();
        slices.dedup();
        let endpoint = member.endpoint.to_string();
        EndpointView {
            slices,
            node: description.node.as_ref().map(ToString::to_string),
            zone: description.zone.as_ref().map(ToString::to_string),
            used: if only_local { local_scope.admits(standing) } else { scope.admits(standing) },
            percent: shares.get(endpoint.as_str()).copied(),
            endpoint,
            from_outside: (uses.local && uses.cluster).then(|| local.clone()),
            reason: if only_local { local } else { cluster },
        }
    }
}
