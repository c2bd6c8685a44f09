//! What the agent knows, as plain data to show: built from an engine, sent over the local socket,
//! printed as a table, JSON or YAML. Field names are Kubernetes' style and do not change; nothing
//! here decides anything.

mod diff;
mod filter;
mod kernel;
mod question;
mod rows;
mod services;
#[cfg(test)]
pub(crate) mod shop;
mod slices;
mod topology;

pub use diff::{DiffView, DifferenceView, ProgramState, TableDiffView, diff};
pub use filter::{Filter, FilterError};
pub use kernel::{KernelView, StrayView, TableView, kernel};
pub use question::{Answer, NoAnswer, Question};
pub use rows::{RowState, RowView, rows};
pub use services::{FrontendView, ServicePortView, Treatment, services};
pub use slices::{HintsView, SliceEndpointView, SlicePortView, SliceView, slices};
pub use topology::{LocalTopologyView, TopologyView, topology};
