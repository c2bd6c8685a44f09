//! What can be asked of an engine, and the answers: the same for the running agent, which is asked
//! over its socket, and for one made of manifests.

use std::net::IpAddr;

use serde::Serialize;
use sliceproxy_dataplane::kernel::{Kernel, KernelError};
use sliceproxy_dataplane::picture::Picture;

use super::{
    DiffView, ExplainView, Filter, KernelView, Needed, RowView, ServicePortView, Sight, SliceView,
    Target, TopologyView, client, diff, explain, kernel, rows, services, slices, topology,
};
use crate::engine::Engine;
use crate::host::Host;

/// A question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Question {
    /// Services and their frontends.
    Services(Filter),
    /// EndpointSlices and their endpoints.
    Slices(Filter),
    /// Rows as they should be.
    Rows(Filter),
    /// Rows as the kernel has them.
    Kernel(Filter),
    /// Which endpoints each Service port uses, and why.
    Topology(Filter),
    /// What the kernel lacks or has too much.
    Diff,
    /// Where a connection would go, and why.
    Explain {
        /// What it would go to.
        target: Target,
        /// The client, if it matters who that is.
        from: Option<IpAddr>,
    },
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum NoAnswer {
    /// The question makes no sense.
    #[error("{0}")]
    BadQuestion(String),
    /// It is too early.
    #[error(
        "the agent has not received all Services and EndpointSlices yet: ask again in a moment"
    )]
    NotListed,
    /// The kernel could not be read.
    #[error(transparent)]
    Kernel(#[from] KernelError),
}

/// An answer. Its JSON is that of what it holds.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Answer {
    /// To [`Question::Services`].
    Services(Vec<ServicePortView>),
    /// To [`Question::Slices`].
    Slices(Vec<SliceView>),
    /// To [`Question::Rows`].
    Rows(Vec<RowView>),
    /// To [`Question::Kernel`].
    Kernel(KernelView),
    /// To [`Question::Topology`].
    Topology(Vec<TopologyView>),
    /// To [`Question::Diff`].
    Diff(DiffView),
    /// To [`Question::Explain`].
    Explain(ExplainView),
}

/// An answer that may still have to be written out.
pub struct Draft(Box<dyn FnOnce() -> Answer + Send>);

impl std::fmt::Debug for Draft {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Draft").finish_non_exhaustive()
    }
}

impl Draft {
    /// Writes it out. Takes a while where there is much to tell.
    pub fn write_out(self) -> Answer {
        (self.0)()
    }
}

impl Question {
    /// The question of that name, with its parameters, as it comes in a URL.
    ///
    /// # Errors
    /// [`NoAnswer::BadQuestion`].
    pub fn parse<'p>(
        name: &str,
        parameters: impl IntoIterator<Item = (&'p str, &'p str)>,
    ) -> Result<Self, NoAnswer> {
        let mut filter = Filter::default();
        let (mut target, mut from) = (None, None);
        for (parameter, value) in parameters {
            let bad = |error: &dyn std::fmt::Display| {
                NoAnswer::BadQuestion(format!("parameter {parameter:?}: {error}"))
            };
            match parameter {
                "filter" => filter = value.parse().map_err(|error| bad(&error))?,
                "target" => target = Some(value.parse().map_err(|error| bad(&error))?),
                "from" => from = Some(client(value).map_err(|error| bad(&error))?),
                _ => return Err(bad(&"unknown, known are filter, target and from")),
            }
        }
        match name {
            "services" => Ok(Self::Services(filter)),
            "slices" => Ok(Self::Slices(filter)),
            "rows" => Ok(Self::Rows(filter)),
            "kernel" => Ok(Self::Kernel(filter)),
            "topology" => Ok(Self::Topology(filter)),
            "diff" => Ok(Self::Diff),
            "explain" => match target {
                Some(target) => Ok(Self::Explain { target, from }),
                None => Err(NoAnswer::BadQuestion("parameter \"target\" is missing".to_owned())),
            },
            _ => Err(NoAnswer::BadQuestion(format!(
                "{name:?} cannot be asked for: the agent and the command are of different versions"
            ))),
        }
    }

    /// Its name and parameters, as they go into a URL. Values hold nothing that needs escaping.
    pub fn to_query(&self) -> String {
        let (name, filter) = match self {
            Self::Services(filter) => ("services", Some(filter)),
            Self::Slices(filter) => ("slices", Some(filter)),
            Self::Rows(filter) => ("rows", Some(filter)),
            Self::Kernel(filter) => ("kernel", Some(filter)),
            Self::Topology(filter) => ("topology", Some(filter)),
            Self::Diff => ("diff", None),
            Self::Explain { target, from } => {
                let from = from.map(|from| format!("&from={from}")).unwrap_or_default();
                return format!("explain?target={target}{from}");
            }
        };
        match filter.filter(|filter| !filter.is_all()) {
            Some(filter) => format!("{name}?filter={filter}"),
            None => name.to_owned(),
        }
    }

    /// Whether the answer comes from the kernel.
    pub fn needs_kernel(&self) -> bool {
        matches!(self, Self::Kernel(_) | Self::Diff)
    }

    /// Whether it matters what the machine has, and to which client.
    pub fn concerns_host(&self) -> Option<Option<IpAddr>> {
        match self {
            Self::Explain { from, .. } => Some(*from),
            _ => None,
        }
    }

    /// Whether a picture of the kernel is needed, and which clients of it.
    pub fn needs(&self) -> Option<Needed> {
        match self {
            Self::Services(_) | Self::Slices(_) | Self::Rows(_) | Self::Topology(_) => None,
            Self::Kernel(_) | Self::Diff => Some(Needed { client: None }),
            Self::Explain { from, .. } => Some(Needed { client: *from }),
        }
    }

    /// Answers it, from `picture` where it [needs](Question::needs) one, and with what is known of the
    /// machine, if it is the engine's. Does here what it takes the
    /// engine for; a draft is written out anywhere.
    ///
    /// # Errors
    /// See [`NoAnswer`].
    pub fn answer<K: Kernel + 'static>(
        &self,
        engine: &Engine<K>,
        picture: Picture,
        host: Option<&Host>,
    ) -> Result<Draft, NoAnswer> {
        if !engine.is_listed() {
            return Err(NoAnswer::NotListed);
        }
        let answer = match self {
            Self::Services(filter) => Answer::Services(services(engine, filter)),
            Self::Slices(filter) => Answer::Slices(slices(engine, filter)),
            Self::Rows(filter) => Answer::Rows(rows(engine, filter)),
            Self::Kernel(filter) => {
                let view = kernel(engine, picture, filter);
                return Ok(Draft(Box::new(|| Answer::Kernel(view()))));
            }
            Self::Topology(filter) => Answer::Topology(topology(engine, filter)),
            Self::Diff => {
                let view = diff(engine, picture);
                return Ok(Draft(Box::new(|| Answer::Diff(view()))));
            }
            Self::Explain { target, from } => {
                Answer::Explain(explain(engine, &Sight { picture: &picture, host }, target, *from)?)
            }
        };
        Ok(Draft(Box::new(|| answer)))
    }

    /// Answers it from what the engine's own kernel holds, which does nothing else meanwhile.
    ///
    /// # Errors
    /// See [`NoAnswer`].
    pub fn answer_alone<K: Kernel + 'static>(
        &self,
        engine: &mut Engine<K>,
        host: Option<&Host>,
    ) -> Result<Draft, NoAnswer> {
        let picture = match self.needs() {
            Some(needed) => needed.read(engine.kernel_mut())?,
            None => Picture::default(),
        };
        self.answer(engine, picture, host)
    }

    /// Reads an answer to this question from its JSON.
    ///
    /// # Errors
    /// If it is another question's, or another version's.
    pub fn read(&self, json: &[u8]) -> serde_json::Result<Answer> {
        Ok(match self {
            Self::Services(_) => Answer::Services(serde_json::from_slice(json)?),
            Self::Slices(_) => Answer::Slices(serde_json::from_slice(json)?),
            Self::Rows(_) => Answer::Rows(serde_json::from_slice(json)?),
            Self::Kernel(_) => Answer::Kernel(serde_json::from_slice(json)?),
            Self::Topology(_) => Answer::Topology(serde_json::from_slice(json)?),
            Self::Diff => Answer::Diff(serde_json::from_slice(json)?),
            Self::Explain { .. } => Answer::Explain(serde_json::from_slice(json)?),
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;
    use crate::view::shop;

    fn all() -> Vec<Question> {
        let filter: Filter = "shop/web".parse().unwrap();
        vec![
            Question::Services(filter.clone()),
            Question::Slices(filter.clone()),
            Question::Rows(filter.clone()),
            Question::Kernel(filter.clone()),
            Question::Topology(filter),
            Question::Rows(Filter::default()),
            Question::Diff,
            Question::Explain { target: "shop/web:http".parse().unwrap(), from: None },
            Question::Explain {
                target: "[fd00:10:96::d:fa5b]:80/TCP".parse().unwrap(),
                from: Some("fd00:244:1::7".parse().unwrap()),
            },
        ]
    }

    #[test]
    fn questions_and_answers_survive_the_socket() {
        let mut engine = shop::engine("node-a1");
        engine.sync().unwrap();
        for question in all() {
            let query = question.to_query();
            let (name, parameters) = query.split_once('?').unwrap_or((&query, ""));
            let parameters = parameters.split_terminator('&').filter_map(|p| p.split_once('='));
            assert_eq!(Question::parse(name, parameters).unwrap(), question);
            let answer = question.answer_alone(&mut engine, None).unwrap().write_out();
            let json = serde_json::to_vec(&answer).unwrap();
            assert_eq!(question.read(&json).unwrap(), answer, "{query}");
        }
    }

    #[test]
    fn an_engine_that_has_not_been_told_everything_says_so() {
        let config = shop::snapshot("node-a1", "");
        let mut engine =
            Engine::new(config.settings(), sliceproxy_dataplane::fake::FakeKernel::new()).unwrap();
        for question in all() {
            let answer = question.answer_alone(&mut engine, None);
            assert!(matches!(answer, Err(NoAnswer::NotListed)), "{answer:?}");
        }
    }

    #[test]
    fn what_cannot_be_asked() {
        for (name, parameters, message) in [
            ("secrets", vec![], "\"secrets\" cannot be asked for"),
            ("rows", vec![("filter", "a b")], "neither NAMESPACE nor"),
            ("rows", vec![("fitler", "a")], "unknown"),
        ] {
            let error = Question::parse(name, parameters).unwrap_err().to_string();
            assert!(error.contains(message), "{error}");
        }
    }
}
