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
//! | `stage` | the API server, the two networks and the two proxies |
//! | `send` | sends the connections of a scenario, and says what became of them |
//! | `relay` | how the API server is reached from the nodes |

mod case;
pub mod cases;
mod plan;
mod probe;
mod relay;
mod send;
mod slice;
mod stage;

pub use case::Case;
pub use probe::Probe;
pub use send::{Verdict, send_all};
pub use stage::{Side, Stage};
