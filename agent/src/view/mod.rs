//! What the agent knows, as plain data to show: built from an engine, sent over the local socket,
//! printed as a table, JSON or YAML. Field names are Kubernetes' style and do not change; nothing
//! here decides anything.

mod diff;
mod explain;
mod filter;
mod kernel;
mod matrix;
mod needed;
mod question;
mod route;
mod rows;
mod services;
#[cfg(test)]
pub(crate) mod shop;
mod slices;
mod target;
mod topology;

pub use diff::{DiffView, DifferenceView, ProgramState, TableDiffView, diff};
pub use explain::{
    EndpointView, ExplainView, FrontendExplanation, ServicePortExplanation, Sight, explain,
};
pub use filter::{Filter, FilterError};
pub use kernel::{KernelView, StrayView, TableView, kernel};
pub use matrix::{MatrixEndpointView, MatrixNodeView, MatrixPortView, MatrixView, matrix};
pub use needed::Needed;
pub use question::{Answer, Draft, NoAnswer, Question};
pub use route::{ChoiceView, OutcomeKind, RouteView, share};
pub use rows::{RowState, RowView, rows};
pub use services::{FrontendView, ServicePortView, Treatment, services};
pub use slices::{HintsView, SliceEndpointView, SlicePortView, SliceView, slices};
pub use target::{Target, client};
pub use topology::{LocalTopologyView, Selected, TopologyView, topology};
