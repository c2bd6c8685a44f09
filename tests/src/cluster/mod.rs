//! A real control plane for tests: etcd, kube-apiserver and kube-controller-manager, and
//! kube-proxy to compare with. Not for unit tests; starting it takes about three seconds.
//!
//! Everything runs in the network namespace of the thread that starts it, where the loopback
//! device must be up, and can be used from any thread then. It ends with the value that started it,
//! or with the test process.
//! `tests/cluster/README.md` tells how it is built.

mod api;
mod audit;
mod credentials;
mod kube_proxy;
mod namespace;
mod objects;
mod process;
mod resources;

use std::ffi::OsString;
use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow, bail};
use serde_json::{Value, json};
use tempfile::TempDir;

pub use api::{Api, Refused, status_of};
pub use audit::Request;
pub use credentials::User;
pub use kube_proxy::{KubeProxy, KubeProxyOptions};
pub use objects::{Node, Pod, count_with, endpoints, endpoints_of, service};
pub use process::{Frozen, Process, forget_peak_memory, memory_of};
pub(crate) use resources::path as object_path;

use credentials::Credentials;
use namespace::Namespace;

use crate::wait_for;

/// From start to ready takes 2 seconds on two idle cores; builds run beside the tests.
const START_LIMIT: Duration = Duration::from_secs(120);

/// The last thing that a new API server makes.
const DEFAULT_NAMESPACE: &str = "/api/v1/namespaces/default";

/// What kind of control plane a test wants.
#[derive(Clone, Debug)]
pub struct Options {
    /// Where the API server is reached; the first is in every kubeconfig. They must be addresses
    /// of the namespace, or become so later if there is more than one.
    pub addresses: Vec<IpAddr>,
    /// Who has a token beside the administrator.
    pub users: Vec<User>,
    /// Controllers to run; none: no controller manager.
    pub controllers: Vec<String>,
    /// Writes the audit log that [`Cluster::requests`] reads.
    pub audit: bool,
    /// Service ranges, one or one of each family.
    pub service_cidrs: String,
    /// More flags for the API server, `--feature-gates=…` for example.
    pub api_server_flags: Vec<String>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            addresses: vec![Ipv4Addr::LOCALHOST.into()],
            users: Vec::new(),
            controllers: ["endpointslice-controller", "endpointslice-mirroring-controller"]
                .map(String::from)
                .to_vec(),
            audit: false,
            service_cidrs: "10.96.0.0/12,fd00:10:96::/108".to_owned(),
            api_server_flags: Vec::new(),
        }
    }
}

/// What a client finds changed when the API server is back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Restart {
    /// Nothing but its connections.
    AsItWas,
    /// Its resource versions are gone: watches that go on from one get 410.
    Compacted,
    /// All objects are gone, and resource versions start again below what clients have seen.
    Emptied,
}

/// A running control plane.
#[derive(Debug)]
pub struct Cluster {
    options: Options,
    namespace: Namespace,
    binaries: PathBuf,
    credentials: Credentials,
    etcd_port: u16,
    etcd_peer_port: u16,
    port: u16,
    // In this order they are dropped: clients before their servers, the folder last.
    controllers: Option<Process>,
    api_server: Option<Process>,
    etcd: Option<Process>,
    folder: TempDir,
}

impl Cluster {
    /// Starts everything and waits until the API server is ready. Builds the binaries first if
    /// they are not in the cache, which takes minutes and a network.
    pub fn start(options: Options) -> Result<Self> {
        let binaries = binaries()?;
        let folder = TempDir::with_prefix("sliceproxy-cluster-")?;
        let mut users = options.users.clone();
        users.extend([User::admin(), User::controllers(), User::kube_proxy()]);
        let credentials =
            Credentials::create(&folder.path().join("credentials"), &options.addresses, &users)?;
        fs::write(folder.path().join("audit-policy.json"), audit::POLICY)?;
        let (etcd_port, etcd_peer_port) = (free_port()?, free_port()?);
        let port = free_port()?;
        let mut cluster = Self {
            options,
            namespace: Namespace::current()?,
            binaries,
            credentials,
            etcd_port,
            etcd_peer_port,
            port,
            controllers: None,
            api_server: None,
            etcd: None,
            folder,
        };
        cluster.start_etcd()?;
        cluster.start_api_server()?;
        cluster.start_controllers()?;
        Ok(cluster)
    }

    /// Where clients reach the API server.
    pub fn server(&self) -> String {
        let address = self.options.addresses.first().copied();
        self.server_at(address.unwrap_or(Ipv4Addr::LOCALHOST.into()))
    }

    /// As `server`, at another of its addresses.
    pub fn server_at(&self, address: IpAddr) -> String {
        format!("https://{}", SocketAddr::new(address, self.port))
    }

    /// The API with all rights.
    pub fn api(&self) -> Result<Api> {
        self.api_of(&User::admin())
    }

    /// The API with the rights of `user`, who must be among the options' users.
    pub fn api_of(&self, user: &User) -> Result<Api> {
        self.api_with_token(&user.token())
    }

    /// The API with any bearer token, a service account's for example.
    pub fn api_with_token(&self, token: &str) -> Result<Api> {
        Api::new(self.namespace.clone(), &self.server(), &self.credentials.authority(), token)
    }

    /// Writes a kubeconfig for one of the options' users.
    pub fn kubeconfig(&self, user: &User) -> Result<PathBuf> {
        self.kubeconfig_with(&user.name, &self.server(), &user.token())
    }

    /// Writes a kubeconfig with any server and token: a service account's, another address, or
    /// something that is wrong on purpose. `name` names the file.
    pub fn kubeconfig_with(&self, name: &str, server: &str, token: &str) -> Result<PathBuf> {
        self.credentials.kubeconfig(name, server, token)
    }

    /// The certificate authority's file, for clients that are not given a kubeconfig.
    pub fn authority(&self) -> PathBuf {
        self.credentials.authority()
    }

    /// A folder that goes with the cluster.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// What `user` has asked of the API server so far. Needs [`Options::audit`]. A request is in
    /// it when the client has got its answer, a watch when it has begun.
    pub fn requests(&self, user: &str) -> Result<Vec<Request>> {
        if !self.options.audit {
            bail!("the cluster was started without Options::audit");
        }
        audit::requests(&self.audit_log(), user)
    }

    /// The API server's process: its log, its memory, and [`Process::freeze`].
    pub fn api_server(&self) -> Result<&Process> {
        self.api_server.as_ref().context("the API server is stopped")
    }

    /// Ends the API server at once, as a crash does. Clients find their connections closed.
    pub fn stop_api_server(&mut self) {
        self.api_server = None;
    }

    /// Starts the API server after `stop_api_server`, at the same address.
    pub fn start_api_server(&mut self) -> Result<()> {
        let api = self.api()?;
        let process = self.spawn("kube-apiserver", self.api_server_flags())?;
        let process = self.api_server.insert(process);
        wait_for("the API server to be ready", START_LIMIT, || match process.check_alive() {
            Err(error) => Some(Err(error)),
            // The namespace `default` is made a moment after the server is ready.
            Ok(()) => (api.ready() && matches!(api.find(DEFAULT_NAMESPACE), Ok(Some(_))))
                .then_some(Ok(())),
        })
        .flatten()
        .with_context(|| process.log_tail())
    }

    /// Ends the API server and starts it again.
    pub fn restart_api_server(&mut self, how: Restart) -> Result<()> {
        self.stop_api_server();
        match how {
            Restart::AsItWas => {}
            Restart::Compacted => self.compact()?,
            Restart::Emptied => {
                // Controllers that remember the old objects would act on them.
                self.controllers = None;
                self.etcd = None;
                fs::remove_dir_all(self.folder.path().join("etcd"))?;
                self.start_etcd()?;
            }
        }
        self.start_api_server()?;
        if self.controllers.is_none() { self.start_controllers() } else { Ok(()) }
    }

    /// Moves etcd's revision on and forgets everything before it, so that the API server, which
    /// knows only what it lists at its start, has no event to go on from for anybody.
    fn compact(&self) -> Result<()> {
        let put = json!({"key": "c2xpY2Vwcm94eQ==", "value": "MQ=="});
        let answer = self.ask_etcd("/v3/kv/put", &put)?;
        let revision = &answer["header"]["revision"];
        if revision.is_null() {
            bail!("etcd: no revision in {answer}");
        }
        self.ask_etcd("/v3/kv/compaction", &json!({"revision": revision, "physical": true}))
            .map(drop)
    }

    fn ask_etcd(&self, path: &str, body: &Value) -> Result<Value> {
        let url = format!("{}{path}", self.etcd_url());
        self.namespace
            .run(|| Ok(ureq::post(&url).send_json(body)?.body_mut().read_json()?))
            .with_context(|| url.clone())
    }

    fn etcd_url(&self) -> String {
        format!("http://127.0.0.1:{}", self.etcd_port)
    }

    fn audit_log(&self) -> PathBuf {
        self.folder.path().join("audit.log")
    }

    fn spawn(&self, name: &str, flags: Vec<OsString>) -> Result<Process> {
        let mut command = Command::new(self.binaries.join(name));
        command.args(flags);
        self.namespace.run(|| Process::spawn(name, &mut command, self.folder.path()))
    }

    fn start_etcd(&mut self) -> Result<()> {
        let peer = format!("http://127.0.0.1:{}", self.etcd_peer_port);
        let flags = flags([
            ("data-dir", self.folder.path().join("etcd").into()),
            ("name", "test".into()),
            ("listen-client-urls", self.etcd_url().into()),
            ("advertise-client-urls", self.etcd_url().into()),
            ("listen-peer-urls", peer.clone().into()),
            ("initial-advertise-peer-urls", peer.clone().into()),
            ("initial-cluster", format!("test={peer}").into()),
            ("log-level", "warn".into()),
            // Its data need not outlive the machine.
            ("unsafe-no-fsync", "true".into()),
            ("quota-backend-bytes", "8000000000".into()),
        ]);
        let mut process = self.spawn("etcd", flags)?;
        let health = format!("{}/health", self.etcd_url());
        wait_for("etcd to be healthy", START_LIMIT, || match process.check_alive() {
            Err(error) => Some(Err(error)),
            Ok(()) => self.namespace.run(|| Ok(ureq::get(&health).call()?)).ok().map(|_| Ok(())),
        })
        .flatten()?;
        self.etcd = Some(process);
        Ok(())
    }

    fn api_server_flags(&self) -> Vec<OsString> {
        let bind = match self.options.addresses.as_slice() {
            [only] => *only,
            _ => Ipv6Addr::UNSPECIFIED.into(),
        };
        let credentials = &self.credentials;
        let mut flags = flags([
            ("etcd-servers", self.etcd_url().into()),
            ("bind-address", bind.to_string().into()),
            ("advertise-address", self.options.addresses[0].to_string().into()),
            ("secure-port", self.port.to_string().into()),
            ("tls-cert-file", credentials.server_certificate().into()),
            ("tls-private-key-file", credentials.server_key().into()),
            ("token-auth-file", credentials.tokens().into()),
            ("authorization-mode", "RBAC".into()),
            ("service-cluster-ip-range", self.options.service_cidrs.clone().into()),
            ("service-account-issuer", "https://kubernetes.default.svc".into()),
            ("service-account-key-file", credentials.account_public_key().into()),
            ("service-account-signing-key-file", credentials.account_key().into()),
            // Pods need no ServiceAccount here, since no controller makes the default one.
            ("disable-admission-plugins", "ServiceAccount".into()),
            // The Service `kubernetes` stays without endpoints: a loopback address is none.
            ("endpoint-reconciler-type", "none".into()),
        ]);
        if self.options.audit {
            flags.extend(self::flags([
                ("audit-policy-file", self.folder.path().join("audit-policy.json").into()),
                ("audit-log-path", self.audit_log().into()),
                // What a client has its answer to is in the log.
                ("audit-log-mode", "blocking".into()),
            ]));
        }
        flags.extend(self.options.api_server_flags.iter().map(OsString::from));
        flags
    }

    fn start_controllers(&mut self) -> Result<()> {
        if self.options.controllers.is_empty() {
            return Ok(());
        }
        let flags = flags([
            ("kubeconfig", self.kubeconfig(&User::controllers())?.into()),
            ("controllers", self.options.controllers.join(",").into()),
            ("leader-elect", "false".into()),
            ("secure-port", "0".into()),
            // The defaults are for a server that others use too, and make thousands of slices slow.
            ("kube-api-qps", "1000".into()),
            ("kube-api-burst", "2000".into()),
        ]);
        self.controllers = Some(self.spawn("kube-controller-manager", flags)?);
        Ok(())
    }
}

/// The folder with the binaries, built by `tests/cluster/build` if need be. A build needs a
/// network: call this before the thread moves into a namespace that has none.
pub fn binaries() -> Result<PathBuf> {
    static FOLDER: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    let folder =
        FOLDER.get_or_init(|| printed_path("cluster/build").map_err(|error| format!("{error:#}")));
    folder.clone().map_err(|error| anyhow!(error))
}

/// Runs a script of the tests folder that ends by printing a path.
fn printed_path(script: &str) -> Result<PathBuf> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join(script);
    let output = Command::new(&script)
        .stderr(Stdio::inherit())
        .output()
        .with_context(|| format!("cannot run {}", script.display()))?;
    if !output.status.success() {
        bail!("{} ended with {}; its messages are above", script.display(), output.status);
    }
    Ok(PathBuf::from(String::from_utf8(output.stdout)?.trim_end()))
}

fn flags<const N: usize>(pairs: [(&str, OsString); N]) -> Vec<OsString> {
    let flag = |(name, value): (&str, OsString)| {
        let mut flag = OsString::from(format!("--{name}="));
        flag.push(value);
        flag
    };
    pairs.into_iter().map(flag).collect()
}

/// A port that nothing listens on now. It is free again when this returns, so another process of
/// the same namespace could take it; tests with a namespace of their own have no such neighbour.
fn free_port() -> Result<u16> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
        .context("cannot listen on 127.0.0.1; is the loopback device of this namespace up?")?;
    Ok(listener.local_addr()?.port())
}
