#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::fs;
use std::path::Path;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use super::super::api::Api;
use super::super::request::Query;
use super::*;

const GOOD: &str = "apiVersion: v1
kind: Config
current-context: here
contexts: [{name: here, context: {cluster: c, user: u}}]
clusters: [{name: c, cluster: {server: 'http://10.9.8.7:6443'}}]
users: [{name: u, user: {token: secret}}]
";

async fn with(text: &str, master: Option<&str>) -> Result<String, String> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("kubeconfig");
    fs::write(&path, text).unwrap();
    let server = ApiServer {
        kubeconfig: Some(path.clone()),
        master: master.map(|master| master.parse().unwrap()),
    };
    match connect(&server).await {
        Ok(connected) => Ok(connected.address.to_string()),
        Err(error) => Err(error.to_string().replace(path.to_str().unwrap(), "FILE")),
    }
}

#[tokio::test]
async fn the_address_is_the_masters_if_there_is_one() {
    assert_eq!(with(GOOD, None).await.unwrap(), "http://10.9.8.7:6443/");
    assert_eq!(with(GOOD, Some("https://[fd00::1]:443")).await.unwrap(), "https://[fd00::1]:443/");
    let alone =
        ApiServer { kubeconfig: None, master: Some("http://10.0.0.1:8080".parse().unwrap()) };
    assert_eq!(connect(&alone).await.ok().unwrap().address.to_string(), "http://10.0.0.1:8080/");
}

#[tokio::test]
async fn what_is_wrong_with_a_kubeconfig_is_said_with_its_name() {
    for (from, to, message) in [
        ("here\n", "there\n", "failed to load current context: there"),
        ("cluster: c,", "cluster: d,", "failed to load the cluster of context: d"),
        ("server: 'http://10.9.8.7:6443'", "", "cluster url is missing on selected cluster"),
        ("http://10.9.8.7:6443", "10.9 8", "failed to parse cluster url"),
        ("clusters: [", "clusters: {", "failed to parse kubeconfig YAML"),
        ("server:", "certificate-authority: missing.crt, server:", "missing.crt"),
        ("current-context: here\n", "", "failed to determine current context"),
    ] {
        let error = with(&GOOD.replace(from, to), None).await.unwrap_err();
        assert!(error.starts_with("kubeconfig FILE: ") && error.contains(message), "{error}");
        assert!(!error.contains('\n') && !error.contains("secret"), "{error}");
    }
}

#[tokio::test]
async fn files_that_are_not_there_are_named() {
    let server = ApiServer { kubeconfig: Some("/nonexistent/kubeconfig".into()), master: None };
    let error = connect(&server).await.err().unwrap().to_string();
    assert!(error.starts_with("kubeconfig /nonexistent/kubeconfig: "), "{error}");
    assert!(error.contains("No such file"), "{error}");

    let error = with(&GOOD.replace("token: secret", "tokenFile: /nonexistent/token"), None).await;
    let error = error.unwrap_err();
    assert!(
        error.contains("http://10.9.8.7:6443/") && error.contains("/nonexistent/token"),
        "{error}"
    );
}

#[tokio::test]
async fn only_http_proxies_are_used() {
    let text = GOOD.replace("server:", "proxy-url: 'socks5://proxy:1080', server:");
    let error = with(&text, None).await.unwrap_err();
    assert!(error.contains("proxy-url socks5://proxy:1080/: only http:// proxies"), "{error}");
}

/// The head of the next request to `listener`, answered by `answer`.
async fn head(listener: &TcpListener, answer: &str) -> String {
    let (mut stream, _) = listener.accept().await.unwrap();
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.unwrap());
    }
    stream.write_all(answer.as_bytes()).await.unwrap();
    String::from_utf8(head).unwrap().to_ascii_lowercase()
}

const UNAUTHORIZED: &str =
    "HTTP/1.1 401 Unauthorized\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";

#[tokio::test]
async fn the_proxy_of_the_kubeconfig_is_asked() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("kubeconfig");
    let proxy = format!("proxy-url: 'http://{}', server:", listener.local_addr().unwrap());
    fs::write(&path, GOOD.replace("server:", &proxy)).unwrap();
    let server = ApiServer { kubeconfig: Some(path), master: None };
    let client = connect(&server).await.ok().unwrap().client;
    let request = http::Request::get("/").body(kube::client::Body::empty()).unwrap();
    let asked = tokio::spawn(async move { client.send(request).await.is_err() });
    let head = head(&listener, "HTTP/1.1 502 Bad Gateway\r\n\r\n").await;
    assert!(head.starts_with("connect 10.9.8.7:6443 http/1.1\r\n"), "{head}");
    assert!(asked.await.unwrap());
}

/// A kubeconfig for `listener`, and the API that is reached by it.
async fn api(listener: &TcpListener, folder: &Path, user: &str) -> Api {
    let path = folder.join("kubeconfig");
    write_kubeconfig(&path, listener, user);
    Api::connect(&ApiServer { kubeconfig: Some(path), master: None }).await.unwrap()
}

fn write_kubeconfig(path: &Path, listener: &TcpListener, user: &str) {
    let here = GOOD.replace("10.9.8.7:6443", &listener.local_addr().unwrap().to_string());
    fs::write(path, here.replace("token: secret", user)).unwrap();
}

/// The tokens with which one request of `api` is tried, all of them refused.
async fn tokens(api: &Api, listener: &TcpListener, tries: usize) -> Vec<String> {
    let request = Query::services().page(1, None);
    let refuse = async {
        let mut tokens = Vec::new();
        for _ in 0..tries {
            let head = head(listener, UNAUTHORIZED).await;
            let line = head.lines().find_map(|line| line.strip_prefix("authorization: bearer "));
            tokens.push(line.unwrap_or_default().to_owned());
        }
        tokens
    };
    let (answer, tokens) = tokio::join!(api.page(&request), refuse);
    assert!(answer.is_err());
    tokens
}

/// Certificates are replaced in the same way.
#[tokio::test]
async fn credentials_that_are_refused_are_read_again_and_tried_at_once() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    let api = api(&listener, folder.path(), "token: old").await;
    write_kubeconfig(&folder.path().join("kubeconfig"), &listener, "token: new");
    assert_eq!(tokens(&api, &listener, 2).await, ["old", "new"]);
    // While a kubeconfig is being written, the last one that could be read counts.
    fs::write(folder.path().join("kubeconfig"), "apiVersion: v").unwrap();
    assert_eq!(tokens(&api, &listener, 1).await, ["new"]);
}

#[tokio::test]
async fn a_token_file_is_read_for_each_request() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("token");
    fs::write(&file, "first\n").unwrap();
    let user = format!("token: unused, tokenFile: {}", file.display());
    let api = api(&listener, folder.path(), &user).await;
    assert_eq!(tokens(&api, &listener, 2).await, ["first", "first"]);
    fs::write(&file, "second").unwrap();
    assert_eq!(tokens(&api, &listener, 2).await, ["second", "second"]);

    // It is about to be written.
    fs::write(&file, "\n").unwrap();
    let error = api.page(&Query::services().page(1, None)).await.unwrap_err().to_string();
    assert!(error.contains("it is empty") && error.contains(file.to_str().unwrap()), "{error}");
    fs::write(&file, "third").unwrap();
    assert_eq!(tokens(&api, &listener, 2).await, ["third", "third"]);
}

/// `kube` would panic.
#[tokio::test]
async fn a_token_that_ends_with_its_line_is_taken_without_it() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    let api = api(&listener, folder.path(), r#"token: "secret\n""#).await;
    assert_eq!(tokens(&api, &listener, 2).await, ["secret", "secret"]);
    let error = with(&GOOD.replace("secret", r#""sec\nret""#), None).await.unwrap_err();
    assert!(error.contains("the token in the kubeconfig") && !error.contains("sec\n"), "{error}");
}

/// Another kubeconfig in the same place: a control plane that moved.
#[tokio::test]
async fn a_server_that_is_not_reached_is_looked_up_again() {
    let gone = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    let api = api(&gone, folder.path(), "token: here").await;
    drop(gone);
    write_kubeconfig(&folder.path().join("kubeconfig"), &listener, "token: there");
    assert!(api.page(&Query::services().page(1, None)).await.is_err());
    assert_eq!(
        api.address().authority().unwrap().port_u16(),
        listener.local_addr().ok().map(|a| a.port())
    );
    assert_eq!(tokens(&api, &listener, 2).await, ["there", "there"]);
}
