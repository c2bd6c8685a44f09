//! Credentials that are renewed while the agent runs: the token of its Pod, one in a file, and the
//! certificate in a kubeconfig.

use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use serde_json::{Value, json};
use sliceproxy::lab::Lab;
use sliceproxy_dataplane::frontend::Frontend;
use sliceproxy_tests::agent::Agent;
use sliceproxy_tests::cluster::{Api, Cluster, Options, Restart, service, status_of};
use sliceproxy_tests::wait_for;
use tempfile::TempDir;

use crate::scene::{LIMIT, NODE, Scene, cluster_ips, pod, wait_for_answers, web_spec};

const REFUSED: &str = "the API server does not accept our credentials";
const SECRETS: &str = "/api/v1/namespaces/kube-system/secrets";
const SERVICES: &str = "/api/v1/services";

/// A service account as the kubelet mounts it: all files change at once, with one symbolic link.
struct Account {
    folder: TempDir,
    authority: String,
    versions: u32,
}

impl Account {
    fn new(cluster: &Cluster, token: &str) -> Self {
        let authority = fs::read_to_string(cluster.authority()).unwrap();
        let folder = tempfile::tempdir().unwrap();
        for name in ["token", "ca.crt", "namespace"] {
            symlink(Path::new("..data").join(name), folder.path().join(name)).unwrap();
        }
        let mut account = Self { folder, authority, versions: 0 };
        account.renew(token);
        account
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }

    fn renew(&mut self, token: &str) {
        let data = format!("..version-{}", self.versions);
        fs::create_dir(self.path().join(&data)).unwrap();
        for (name, content) in
            [("token", token), ("ca.crt", &self.authority), ("namespace", "kube-system")]
        {
            fs::write(self.path().join(&data).join(name), content).unwrap();
        }
        symlink(&data, self.path().join("..data_tmp")).unwrap();
        fs::rename(self.path().join("..data_tmp"), self.path().join("..data")).unwrap();
        if let Some(before) = self.versions.checked_sub(1) {
            fs::remove_dir_all(self.path().join(format!("..version-{before}"))).unwrap();
        }
        self.versions += 1;
    }

    /// A kubeconfig as in `deploy/base`, beside it.
    fn kubeconfig(&self, cluster: &Cluster) -> PathBuf {
        let user = json!({"tokenFile": self.path().join("token")});
        let path = self.path().join("kubeconfig");
        write_kubeconfig(&path, cluster, &self.path().join("ca.crt"), &user);
        path
    }
}

fn write_kubeconfig(path: &Path, cluster: &Cluster, authority: &Path, user: &Value) {
    let server = json!({"server": cluster.server(), "certificate-authority": authority});
    let kubeconfig = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "test", "cluster": server}],
        "users": [{"name": "test", "user": user}],
        "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
        "current-context": "test",
    });
    fs::write(path, kubeconfig.to_string()).unwrap();
}

/// A token that lives as long as the Secret `name`, which is made for it.
fn bound_token(api: &Api, name: &str) -> String {
    let metadata = json!({"name": name, "namespace": "kube-system"});
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": metadata});
    let uid = api.create(&secret).unwrap()["metadata"]["uid"].clone();
    let request = json!({
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenRequest",
        "spec": {
            "expirationSeconds": 3600,
            "boundObjectRef": {"apiVersion": "v1", "kind": "Secret", "name": name, "uid": uid},
        },
    });
    let path = "/api/v1/namespaces/kube-system/serviceaccounts/sliceproxy/token";
    api.post(path, &request).unwrap()["status"]["token"].as_str().unwrap().to_owned()
}

/// Ends the token that is bound to the Secret `name`, and all watches with it.
fn revoke(cluster: &mut Cluster, name: &str, token: &str) {
    cluster.api().unwrap().delete(&format!("{SECRETS}/{name}")).unwrap();
    cluster.restart_api_server(Restart::AsItWas).unwrap();
    let theirs = cluster.api_with_token(token).unwrap();
    wait_for("the old token to be refused", LIMIT, || {
        let answer = theirs.list(SERVICES);
        answer.is_err_and(|error| status_of(&error) == Some(401)).then_some(())
    })
    .unwrap();
}

/// The frontend of a Service with the pods 1 and 2.
fn add_web(api: &Api) -> Frontend {
    for number in [1, 2] {
        api.add_ready_pod(&pod(number)).unwrap();
    }
    cluster_ips(&api.apply(&service("shop", "web", &web_spec())).unwrap(), 80)[0]
}

/// Takes pod 2 out and in again; connections must follow.
fn expect_changes_to_arrive(lab: &Lab, api: &Api, frontend: Frontend) {
    for (ready, names) in [(false, &["web-1"][..]), (true, &["web-1", "web-2"])] {
        api.set_ready(&pod(2), ready).unwrap();
        wait_for_answers(lab, &format!("pod 2 ready: {ready}"), frontend, names);
    }
}

fn wait_for_refusals(agent: &Agent<'_>, number: usize) {
    let seen = || agent.log().matches(REFUSED).count();
    let waited = wait_for(REFUSED, LIMIT, || (seen() >= number).then_some(()));
    waited.unwrap_or_else(|error| panic!("{error}: {}", agent.log()));
}

#[test]
#[ignore = "a control plane: minutes to build it the first time"]
fn a_token_that_is_renewed_in_its_file_is_used_at_once() {
    let Scene { mut cluster, lab } = Scene::new(Options::default());
    let api = cluster.api().unwrap();
    let frontend = add_web(&api);
    for how in ["pod", "token-file"] {
        let name = |number: u8| format!("{how}-{number}");
        let first = bound_token(&api, &name(1));
        let mut account = Account::new(&cluster, &first);
        let fixed = ["--node-name", NODE, "--cluster-cidr", "10.244.0.0/16,fd00:244::/32"];
        let fixed = fixed.map(str::to_owned);
        let mut agent = if how == "pod" {
            let server: SocketAddr =
                cluster.server().strip_prefix("https://").unwrap().parse().unwrap();
            Agent::start_in_pod(lab.node(), account.path(), server, &fixed).unwrap()
        } else {
            let kubeconfig = account.kubeconfig(&cluster).to_str().unwrap().to_owned();
            let flag = ["--kubeconfig".to_owned(), kubeconfig];
            Agent::start(lab.node(), &[&fixed[..], &flag].concat()).unwrap()
        };
        agent.wait_in_sync().unwrap();
        expect_changes_to_arrive(&lab, &api, frontend);

        // The kubelet renews a token long before the old one ends: nobody is ever refused.
        let second = bound_token(&api, &name(2));
        account.renew(&second);
        revoke(&mut cluster, &name(1), &first);
        expect_changes_to_arrive(&lab, &api, frontend);
        assert!(!agent.log().contains(REFUSED), "{how}: {}", agent.log());

        // A token that ends too early is told, rules stay, and the next one is used when it comes.
        revoke(&mut cluster, &name(2), &second);
        wait_for_refusals(&agent, 1);
        wait_for_answers(&lab, "rules stay", frontend, &["web-1", "web-2"]);
        account.renew(&bound_token(&api, &name(3)));
        expect_changes_to_arrive(&lab, &api, frontend);
        assert!(agent.stop().unwrap().success());
    }
}

/// An authority for clients' certificates, and one of its clients whom RBAC lets do what is needed,
/// with files in `folder`.
fn authority_and_client(folder: &Path, name: &str) -> (String, Value) {
    let mut authority = CertificateParams::default();
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    authority.distinguished_name.push(DnType::CommonName, "authority of clients");
    let authority_key = KeyPair::generate().unwrap();
    let pem = authority.self_signed(&authority_key).unwrap().pem();
    let mut client = CertificateParams::default();
    client.distinguished_name.push(DnType::CommonName, "system:kube-proxy");
    let key = KeyPair::generate().unwrap();
    let certificate = client.signed_by(&key, &Issuer::new(authority, authority_key)).unwrap();
    let [certificate_file, key_file] =
        ["crt", "key"].map(|kind| folder.join(format!("{name}.{kind}")));
    fs::write(&certificate_file, certificate.pem()).unwrap();
    fs::write(&key_file, key.serialize_pem()).unwrap();
    let user = json!({"client-certificate": certificate_file, "client-key": key_file});
    (pem, user)
}

#[test]
#[ignore = "a control plane: minutes to build it the first time"]
fn a_kubeconfig_with_another_certificate_counts_without_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let clients = folder.path().join("clients.crt");
    let (first_authority, first_user) = authority_and_client(folder.path(), "first");
    let (second_authority, second_user) = authority_and_client(folder.path(), "second");
    fs::write(&clients, first_authority).unwrap();
    let flags = vec![format!("--client-ca-file={}", clients.display())];
    let Scene { mut cluster, lab } =
        Scene::new(Options { api_server_flags: flags, ..Options::default() });
    let api = cluster.api().unwrap();
    let frontend = add_web(&api);
    let kubeconfig = folder.path().join("kubeconfig");
    write_kubeconfig(&kubeconfig, &cluster, &cluster.authority(), &first_user);
    let args = Scene::args(&kubeconfig, &["--cluster-cidr", "10.244.0.0/16,fd00:244::/32"]);
    let agent = Agent::start_in_sync(lab.node(), &args).unwrap();
    expect_changes_to_arrive(&lab, &api, frontend);

    // The API server trusts another authority now.
    fs::write(&clients, second_authority).unwrap();
    cluster.restart_api_server(Restart::AsItWas).unwrap();
    wait_for_refusals(&agent, 1);
    wait_for_answers(&lab, "rules stay", frontend, &["web-1", "web-2"]);
    write_kubeconfig(&kubeconfig, &cluster, &cluster.authority(), &second_user);
    expect_changes_to_arrive(&lab, &api, frontend);
    assert!(agent.stop().unwrap().success());
}
