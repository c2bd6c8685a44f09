//! kube-proxy and sliceproxy beside each other: two equal networks, each with one of them, follow
//! the same objects in the same API server, and get the same connections.
//!
//! | module | what it is for |
//! |---|---|
//! | `case` | a Service, what happens to it, and what is sent to it: a scenario as data |
//! | `probe` | connections and what becomes of them, as data |
//! | `slice` | slices, as data |
//! | `plan` | names and addresses |
//! | `cases` | all scenarios, and all deliberate differences |
//! | `side` | a network: a node, its pods, and clients |
//! | `stage` | both networks, the API server and the two proxies |
//! | `alone` | one network with sliceproxy alone, which follows manifests |
//! | `send` | sends the connections of a scenario, and says what became of them |
//! | `relay` | how the API server is reached from the nodes |

mod alone;
mod case;
pub mod cases;
mod plan;
mod probe;
mod relay;
mod send;
mod side;
mod slice;
mod stage;

pub use alone::Alone;
pub use case::Case;
pub use cases::{direct, masqueraded};
pub use probe::{From, Outcome, Probe, To};
pub use relay::offer;
pub use send::{Verdict, assert_as_expected, send_all, send_alone};
pub use side::{CLUSTER_CIDR, Side, clients};
pub use slice::Endpoint;
pub use stage::Stage;
