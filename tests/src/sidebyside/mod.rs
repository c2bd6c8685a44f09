//! kube-proxy and sliceproxy beside each other: two equal networks, each with one of them, follow
//! the same objects in the same API server, and get the same connections.
//!
//! | module | what it is for |
//! |---|---|
//! | `case` | a Service with its endpoints, and what is sent to it: a scenario as data |
//! | `cases` | all scenarios, and all deliberate differences |
//! | `stage` | the API server, the two networks and the two proxies |
//! | `send` | sends the connections of a scenario, and says what became of them |
//! | `relay` | how the API server is reached from the nodes |

pub mod case;
pub mod cases;
mod relay;
mod send;
mod stage;

pub use send::{Verdict, send_all};
pub use stage::{Side, Stage};
