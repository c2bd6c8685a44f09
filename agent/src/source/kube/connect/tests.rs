#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::fs;

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
        Ok((_, address)) => Ok(address.to_string()),
        Err(error) => Err(error.to_string().replace(path.to_str().unwrap(), "FILE")),
    }
}

#[tokio::test]
async fn the_address_is_the_masters_if_there_is_one() {
    assert_eq!(with(GOOD, None).await.unwrap(), "http://10.9.8.7:6443/");
    assert_eq!(with(GOOD, Some("https://[fd00::1]:443")).await.unwrap(), "https://[fd00::1]:443/");
    let alone =
        ApiServer { kubeconfig: None, master: Some("http://10.0.0.1:8080".parse().unwrap()) };
    assert_eq!(connect(&alone).await.ok().unwrap().1.to_string(), "http://10.0.0.1:8080/");
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
async fn a_proxy_is_refused_rather_than_passed_by() {
    let text = GOOD.replace("server:", "proxy-url: 'http://proxy:3128', server:");
    let error = with(&text, None).await.unwrap_err();
    assert!(error.contains("through the proxy http://proxy:3128"), "{error}");
}
