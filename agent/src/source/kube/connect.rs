//! From a kubeconfig, an address or the Pod's own credentials to a client.
//!
//! Of `kube` we use configuration, credentials and TLS. The connection below is our own, because
//! a watch that nobody answers any more has to be noticed by TCP: keep-alives, and a limit on
//! data that is not acknowledged.

mod token;

use std::error::Error;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use http::Uri;
use hyper::rt::{Read, Write};
use hyper_util::client::legacy::Client as HttpClient;
use hyper_util::client::legacy::connect::proxy::Tunnel;
use hyper_util::client::legacy::connect::{Connection, HttpConnector};
use hyper_util::rt::TokioExecutor;
use kube::client::{ClientBuilder, ConfigExt};
use kube::config::{KubeConfigOptions, Kubeconfig, KubeconfigError, NamedCluster};
use kube::{Client, Config};
use tower::{BoxError, Service, ServiceExt};

use self::token::TokenFile;
use crate::config::ApiServer;

/// Quiet time after which a connection is probed.
const KEEPALIVE_AFTER: Duration = Duration::from_secs(30);
/// Time between probes.
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(10);
/// Probes without an answer after which a connection is dead.
const KEEPALIVE_PROBES: u32 = 3;
/// Time after which data that is not acknowledged means that a connection is dead.
const UNACKNOWLEDGED: Duration = Duration::from_secs(30);
/// Longest time to establish a TCP connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Unused connections are kept that long.
const POOL_IDLE: Duration = Duration::from_secs(20);

/// Why there is no client. What caused it is part of the message.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConnectError {
    /// The kubeconfig cannot be read, parsed, or lacks something.
    #[error("kubeconfig {}: {reason}; correct it, or give another with --kubeconfig", .path.display())]
    Kubeconfig {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// There are no credentials of a Pod.
    #[error(
        "neither --kubeconfig nor --master is given, and this is no Pod with a service account: {0}"
    )]
    InCluster(String),
    /// Certificates, keys or tokens cannot be used.
    #[error("credentials for the API server at {address}: {reason}")]
    Credentials {
        /// The API server.
        address: Uri,
        /// What is wrong with them.
        reason: String,
    },
    /// Another kind of proxy than we know.
    #[error("kubeconfig {}: proxy-url {proxy}: only http:// proxies are supported", .path.display())]
    Proxy {
        /// The file.
        path: PathBuf,
        /// The proxy.
        proxy: Uri,
    },
}

/// The way to an API server.
#[derive(Clone)]
pub(super) struct Connected {
    pub(super) client: Client,
    pub(super) address: Uri,
    /// What each request proves itself with, unless the client does.
    pub(super) token: Option<TokenFile>,
}

/// A client with the credentials as they are now.
pub(super) async fn connect(server: &ApiServer) -> Result<Connected, ConnectError> {
    let mut config = configuration(server).await?;
    let address = config.cluster_url.clone();
    let wrong = |reason| ConnectError::Credentials { address: address.clone(), reason };
    let token = TokenFile::take_from(&mut config.auth_info).map_err(wrong)?;
    let client = client(&config).map_err(|error| wrong(explain(&error)))?;
    Ok(Connected { client, address, token })
}

/// `--master` wins over the kubeconfig's address; alone, it is used without credentials.
async fn configuration(server: &ApiServer) -> Result<Config, ConnectError> {
    let mut config = match (&server.kubeconfig, &server.master) {
        (Some(path), _) => from_kubeconfig(path).await?,
        (None, Some(master)) => Config::new(master.clone()),
        (None, None) => {
            let nowhere = |error| ConnectError::InCluster(chain(&error));
            Config::incluster().map_err(nowhere)?
        }
    };
    if let Some(master) = &server.master {
        config.cluster_url = master.clone();
    }
    Ok(config)
}

async fn from_kubeconfig(path: &Path) -> Result<Config, ConnectError> {
    let wrong = |error: KubeconfigError| ConnectError::Kubeconfig {
        path: path.to_owned(),
        reason: first_line(&chain(&error)),
    };
    let kubeconfig = Kubeconfig::read_from(path).map_err(wrong)?;
    let has_proxy = |cluster: &NamedCluster| {
        let proxy = cluster.cluster.as_ref().and_then(|cluster| cluster.proxy_url.as_deref());
        proxy.is_some_and(|proxy| !proxy.is_empty())
    };
    let names_proxy = kubeconfig.clusters.iter().any(has_proxy);
    let options = KubeConfigOptions::default();
    let mut config = Config::from_custom_kubeconfig(kubeconfig, &options).await.map_err(wrong)?;
    match config.proxy_url.take_if(|_| names_proxy) {
        Some(proxy) if proxy.scheme_str() == Some("http") => config.proxy_url = Some(proxy),
        Some(proxy) => return Err(ConnectError::Proxy { path: path.to_owned(), proxy }),
        // One from the environment is meant for others: a node reaches its API server without.
        None => config.proxy_url = None,
    }
    Ok(config)
}

fn client(config: &Config) -> Result<Client, kube::Error> {
    let mut tcp = HttpConnector::new();
    tcp.enforce_http(false);
    tcp.set_nodelay(true);
    tcp.set_connect_timeout(Some(CONNECT_TIMEOUT));
    tcp.set_keepalive(Some(KEEPALIVE_AFTER));
    tcp.set_keepalive_interval(Some(KEEPALIVE_INTERVAL));
    tcp.set_keepalive_retries(Some(KEEPALIVE_PROBES));
    tcp.set_tcp_user_timeout(Some(UNACKNOWLEDGED));
    match &config.proxy_url {
        Some(proxy) => client_over(Tunnel::new(proxy.clone(), tcp), config),
        None => client_over(tcp, config),
    }
}

fn client_over<C>(connector: C, config: &Config) -> Result<Client, kube::Error>
where
    C: Service<Uri> + Clone + Send + Sync + 'static,
    C::Response: Connection + Read + Write + Send + Unpin + 'static,
    C::Future: Send + 'static,
    C::Error: Error + Send + Sync + 'static,
{
    let tls = config.rustls_https_connector_with_connector(connector)?;
    let http = HttpClient::builder(TokioExecutor::new()).pool_idle_timeout(POOL_IDLE).build(tls);
    let http = http.map_err(BoxError::from);
    let builder = ClientBuilder::new(http, &*config.default_namespace)
        .with_layer(&config.extra_headers_layer()?);
    Ok(match config.auth_layer()? {
        Some(auth) => builder.with_layer(&auth).with_layer(&config.base_uri_layer()).build(),
        None => builder.with_layer(&config.base_uri_layer()).build(),
    })
}

/// What a request or a client failed of, without the names that `kube` gives to layers.
pub(super) fn explain(error: &kube::Error) -> String {
    let text = match error {
        kube::Error::Service(error) => chain(&**error),
        kube::Error::HyperError(error) => chain(error),
        kube::Error::RustlsTls(error) => chain(error),
        kube::Error::Auth(error) => chain(error),
        other => chain(other),
    };
    // Programmers are told more than operators have use for.
    if let Some((said, _)) = text.split_once(": https://docs.rs/") {
        return said.to_owned();
    }
    if text.contains("UnknownIssuer") {
        return format!("{text}; check certificate-authority in the kubeconfig");
    }
    text
}

/// Parsers add pictures of the text, which holds secrets.
fn first_line(text: &str) -> String {
    text.lines().next().unwrap_or_default().to_owned()
}

/// An error with all that caused it, each part said once.
fn chain(error: &(dyn Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let part = error.to_string();
        if !text.contains(&part) {
            // Writing to a String cannot fail.
            let _ = write!(text, ": {part}");
        }
        cause = error.source();
    }
    text
}

#[cfg(test)]
mod tests;
