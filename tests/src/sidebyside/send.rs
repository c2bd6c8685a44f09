//! Sends the connections of scenarios on both sides, and says what became of them.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::thread;
use std::time::Duration;

use anyhow::{Result, anyhow};
use sliceproxy::lab::probe;
use sliceproxy_dataplane::frontend::{Family, Frontend};

use super::case::Case;
use super::plan::node_address;
use super::probe::{From, Outcome, Probe, Seen};
use super::side::{LIMIT, Side, clients};
use super::stage::Stage;
use crate::wait_for;

/// Connections for each of several endpoints, after which all have been seen but for one time in
/// millions.
const ENOUGH: usize = 16;
/// Connections to what should have one endpoint.
const FEW: usize = 8;
/// Connections at a time.
const AT_ONCE: usize = 240;
/// Connections at a time that may be refused by ICMP, of which a node sends no more than 50 at once.
const REFUSED_AT_ONCE: usize = 40;
/// What a client with session affinity sends, one after the other.
const REPEATED: usize = 3;
/// Longer than a refusal takes: one by ICMPv6 is heard by TCP only after its second packet, after a
/// second.
const PATIENCE: Duration = Duration::from_millis(2500);

/// What became of one kind of connection on both sides.
#[derive(Debug)]
pub struct Verdict<'a> {
    /// The scenario.
    pub case: &'a Case,
    /// Its part.
    pub probe: &'a Probe,
    /// Where they were sent.
    pub targets: Vec<Frontend>,
    /// What kube-proxy made of it, if it was there.
    pub kube_proxy: Option<Outcome>,
    /// What sliceproxy made of it.
    pub sliceproxy: Outcome,
}

impl Verdict<'_> {
    /// Whether both did what the table says.
    pub fn is_as_expected(&self) -> bool {
        let difference = self.probe.difference.as_ref().map(|difference| &difference.kube_proxy);
        let theirs = difference.unwrap_or(&self.probe.expected);
        self.sliceproxy == self.probe.expected
            && self.kube_proxy.as_ref().is_none_or(|outcome| outcome == theirs)
    }
}

impl fmt::Display for Verdict<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let targets: Vec<_> = self.targets.iter().map(ToString::to_string).collect();
        write!(
            f,
            "{}, from {:?} to {:?} ({}): expected {}",
            self.case.name,
            self.probe.from,
            self.probe.to,
            targets.join(", "),
            self.probe.expected
        )?;
        if let Some(difference) = &self.probe.difference {
            write!(f, " (kube-proxy: {})", difference.kube_proxy)?;
        }
        write!(f, "; sliceproxy: {}", self.sliceproxy)?;
        match &self.kube_proxy {
            Some(outcome) => write!(f, "; kube-proxy: {outcome}"),
            None => Ok(()),
        }
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Answered(pods, seen) => write!(f, "answered by {pods:?}, which saw {seen:?}"),
            Self::Sticky(pods) => write!(f, "each client always answered by the same of {pods:?}"),
            Self::Health(status, weight) => write!(f, "status {status}, weight {weight}"),
            Self::Refused => f.write_str("refused"),
            Self::Dropped => f.write_str("no answer"),
            Self::Mixed(what) => f.write_str(what),
        }
    }
}

/// Fails the test unless all went as the table of scenarios says.
///
/// # Panics
/// With everything that went otherwise.
pub fn assert_as_expected(verdicts: &[Verdict<'_>]) {
    assert!(!verdicts.is_empty(), "nothing was sent");
    let failed = verdicts.iter().filter(|verdict| !verdict.is_as_expected());
    let failed: Vec<String> = failed.map(ToString::to_string).collect();
    assert!(failed.is_empty(), "{} of {}:\n{}", failed.len(), verdicts.len(), failed.join("\n"));
}

/// Connections that are judged together.
#[derive(Debug)]
struct Job<'a> {
    case: &'a Case,
    probe: &'a Probe,
    targets: Vec<Frontend>,
}

/// For what a connection waits longest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Wait {
    Answer,
    Nothing,
    Icmp,
}

impl Job<'_> {
    fn expectations(&self) -> impl Iterator<Item = &Outcome> {
        let difference = self.probe.difference.as_ref().map(|difference| &difference.kube_proxy);
        [Some(&self.probe.expected), difference].into_iter().flatten()
    }

    /// What a connection has to wait for.
    fn patience(&self) -> Wait {
        if self.expectations().any(|outcome| *outcome == Outcome::Refused) {
            Wait::Icmp
        } else if self.expectations().any(|outcome| *outcome == Outcome::Dropped) {
            Wait::Nothing
        } else {
            Wait::Answer
        }
    }

    /// How many connections show it.
    fn connections(&self) -> usize {
        let shows = |outcome: &Outcome| match outcome {
            Outcome::Answered(pods, _) if pods.len() > 1 => ENOUGH * pods.len(),
            Outcome::Answered(..) => FEW,
            _ => 2,
        };
        self.expectations().map(shows).max().unwrap_or(FEW)
    }

    fn family(&self) -> Option<Family> {
        self.targets.first().map(|target| Family::of(target.address))
    }
}

/// Sends what `probes` selects of each case, on both sides at the same time.
///
/// # Errors
/// When connections cannot be sent at all.
pub fn send_all<'a>(
    stage: &Stage,
    cases: &'a [Case],
    probes: impl Fn(&'a Case) -> &'a [Probe],
) -> Result<Vec<Verdict<'a>>> {
    let jobs = jobs(cases, probes);
    let (kube_proxy, sliceproxy) = thread::scope(|scope| {
        let other = scope.spawn(|| send(&stage.kube_proxy, &jobs));
        let own = send(&stage.sliceproxy, &jobs);
        (other.join().map_err(|_| anyhow!("sending panicked")), own)
    });
    let kube_proxy = kube_proxy??.into_iter().map(Some);
    Ok(verdicts(jobs, sliceproxy?.into_iter().zip(kube_proxy)))
}

/// The same where there is only sliceproxy.
///
/// # Errors
/// As [`send_all`].
pub fn send_alone<'a>(
    side: &Side,
    cases: &'a [Case],
    probes: impl Fn(&'a Case) -> &'a [Probe],
) -> Result<Vec<Verdict<'a>>> {
    let jobs = jobs(cases, probes);
    let sliceproxy = send(side, &jobs)?;
    Ok(verdicts(jobs, sliceproxy.into_iter().map(|outcome| (outcome, None))))
}

fn jobs<'a>(cases: &'a [Case], probes: impl Fn(&'a Case) -> &'a [Probe]) -> Vec<Job<'a>> {
    let mut jobs = Vec::new();
    for case in cases {
        for probe in probes(case) {
            let targets = case.targets(probe).into_iter();
            jobs.extend(targets.map(|targets| Job { case, probe, targets }));
        }
    }
    jobs
}

fn verdicts<'a>(
    jobs: Vec<Job<'a>>,
    outcomes: impl Iterator<Item = (Outcome, Option<Outcome>)>,
) -> Vec<Verdict<'a>> {
    let verdict = |(job, (sliceproxy, kube_proxy)): (Job<'a>, _)| Verdict {
        case: job.case,
        probe: job.probe,
        targets: job.targets,
        kube_proxy,
        sliceproxy,
    };
    jobs.into_iter().zip(outcomes).map(verdict).collect()
}

fn send(side: &Side, jobs: &[Job<'_>]) -> Result<Vec<Outcome>> {
    side.forget_flows()?;
    let mut outcomes: Vec<Option<Outcome>> = vec![None; jobs.len()];
    let mut by_caller: BTreeMap<From, Vec<usize>> = BTreeMap::new();
    for (n, job) in jobs.iter().enumerate() {
        match job.probe.expected {
            Outcome::Sticky(_) => outcomes[n] = Some(repeat(side, job)?),
            Outcome::Health(..) => outcomes[n] = Some(health(side, job)?),
            _ => by_caller.entry(job.probe.from).or_default().push(n),
        }
    }
    for (from, mut numbers) in by_caller {
        // What keeps connections waiting is sent together, so that it keeps nothing else waiting.
        numbers.sort_by_key(|n| jobs[*n].patience());
        while let Some(first) = numbers.first() {
            let patience = jobs[*first].patience();
            let limit = if patience == Wait::Icmp { REFUSED_AT_ONCE } else { AT_ONCE };
            let mut connections = 0;
            let fits = |n: &&usize| {
                connections += jobs[**n].connections();
                connections <= limit && jobs[**n].patience() == patience
            };
            let count = numbers.iter().take_while(fits).count().max(1);
            let chunk: Vec<usize> = numbers.drain(..count).collect();
            for (n, outcome) in chunk.iter().zip(at_once(side, from, &chunk, jobs)?) {
                outcomes[*n] = Some(outcome);
            }
        }
    }
    outcomes.into_iter().map(|outcome| outcome.ok_or_else(|| anyhow!("nothing was sent"))).collect()
}

fn at_once(side: &Side, from: From, chunk: &[usize], jobs: &[Job<'_>]) -> Result<Vec<Outcome>> {
    let of_job = |n: &usize| {
        let job = &jobs[*n];
        job.targets.iter().copied().cycle().take(job.connections() * job.targets.len())
    };
    let targets: Vec<Frontend> = chunk.iter().flat_map(of_job).collect();
    let mut results = side.vantage(from)?.patience(PATIENCE).connect_all(&targets)?.into_iter();
    let mut outcomes = Vec::new();
    for n in chunk {
        let own: Vec<_> = results.by_ref().take(of_job(n).count()).collect();
        let family = jobs[*n].family().ok_or_else(|| anyhow!("no target"))?;
        outcomes.push(summary(&own, side.address(from, family)?, family));
    }
    Ok(outcomes)
}

/// All the same, or a mixture.
fn summary(results: &[probe::Outcome], caller: IpAddr, family: Family) -> Outcome {
    let (mut pods, mut seen) = (BTreeSet::new(), BTreeSet::new());
    let mut others = BTreeSet::new();
    for result in results {
        match result {
            probe::Outcome::Answered { by, seen_source } => {
                pods.insert(by.clone());
                seen.insert(match *seen_source {
                    address if address == caller => Seen::Itself,
                    address if address == node_address(family) => Seen::Node,
                    address => Seen::Other(address),
                });
            }
            other => {
                others.insert(other.clone());
            }
        }
    }
    let kinds: Vec<_> = others.iter().collect();
    match (pods.is_empty(), kinds.as_slice()) {
        (false, []) => Outcome::Answered(pods, seen),
        (true, [probe::Outcome::Refused]) => Outcome::Refused,
        (true, [probe::Outcome::TimedOut]) => Outcome::Dropped,
        _ => {
            let kinds: Vec<_> = kinds.iter().map(ToString::to_string).collect();
            Outcome::Mixed(format!("pods {pods:?}, and {}", kinds.join(", ")))
        }
    }
}

/// Every client calls each target in turn, again and again.
fn repeat(side: &Side, job: &Job<'_>) -> Result<Outcome> {
    let family = job.family().ok_or_else(|| anyhow!("no target"))?;
    let vantage = side.vantage(job.probe.from)?.patience(PATIENCE);
    let mut used = BTreeSet::new();
    for client in clients(job.probe.from) {
        if Family::of(client) != family {
            continue;
        }
        let mut own = BTreeSet::new();
        for _ in 0..REPEATED {
            for target in &job.targets {
                let outcome = vantage.from(client).connect(*target)?;
                match outcome.pod() {
                    Some(pod) => own.insert(pod.to_owned()),
                    None => return Ok(Outcome::Mixed(format!("{client}: {outcome}"))),
                };
            }
        }
        if own.len() > 1 {
            return Ok(Outcome::Mixed(format!("{client} was sent to {own:?}")));
        }
        used.extend(own);
    }
    Ok(Outcome::Sticky(used))
}

/// Asks a health check, as a load balancer does. Its answers follow the commit that changes the
/// frontend, so one that is not as expected may be about to become so.
fn health(side: &Side, job: &Job<'_>) -> Result<Outcome> {
    let target = job.targets.first().ok_or_else(|| anyhow!("no target"))?;
    let url = format!("http://{}/", SocketAddr::new(target.address, target.port));
    let netns = side.lab.machine("client")?.netns();
    let mut last = Outcome::Mixed("nothing was asked".to_owned());
    // In vain, the last answer is what came of it.
    let _ = wait_for(&url, LIMIT, || {
        last = netns.run(|| ask_health(&url)).unwrap_or_else(|error| mixed(&url, &error));
        job.expectations().any(|outcome| *outcome == last).then_some(())
    });
    Ok(last)
}

fn ask_health(url: &str) -> Outcome {
    let config = ureq::Agent::config_builder().http_status_as_error(false);
    let response = match config.timeout_global(Some(PATIENCE)).build().new_agent().get(url).call() {
        Ok(response) => response,
        Err(error) => return mixed(url, &error),
    };
    let weight = response.headers().get("X-Load-Balancing-Endpoint-Weight");
    match weight.and_then(|weight| weight.to_str().ok()?.parse().ok()) {
        Some(weight) => Outcome::Health(response.status().as_u16(), weight),
        None => Outcome::Mixed("no weight in the answer".to_owned()),
    }
}

fn mixed(url: &str, error: &impl fmt::Display) -> Outcome {
    Outcome::Mixed(format!("{url}: {error}"))
}
