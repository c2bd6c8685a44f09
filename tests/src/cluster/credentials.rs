//! What the API server and its clients prove themselves with: a certificate authority made for
//! one cluster, a serving certificate, the key for service-account tokens, and bearer tokens.

use std::fs;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, SanType};

/// Somebody the API server knows by a bearer token, with the rights that RBAC gives them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    /// As in RBAC subjects and in the audit log.
    pub name: String,
    /// Groups beside `system:authenticated`.
    pub groups: Vec<String>,
}

impl User {
    /// A user in no group of its own.
    pub fn new(name: &str) -> Self {
        Self { name: name.to_owned(), groups: Vec::new() }
    }

    /// Who may do everything: [`super::Cluster::api`] is theirs.
    pub fn admin() -> Self {
        Self { name: "admin".to_owned(), groups: vec!["system:masters".to_owned()] }
    }

    /// The controllers, apart from the administrator so that logs tell them apart.
    pub(super) fn controllers() -> Self {
        Self { name: "controllers".to_owned(), groups: vec!["system:masters".to_owned()] }
    }

    /// The user whom the API server's own policy lets do what kube-proxy needs.
    pub fn kube_proxy() -> Self {
        Self::new("system:kube-proxy")
    }

    /// The bearer token. Derived, as nothing here is secret.
    pub fn token(&self) -> String {
        format!("token-of-{}", self.name.replace(':', "-"))
    }

    fn line(&self) -> String {
        format!("{},{},{},\"{}\"\n", self.token(), self.name, self.name, self.groups.join(","))
    }
}

/// The files, in one folder.
#[derive(Debug)]
pub(super) struct Credentials {
    folder: PathBuf,
}

impl Credentials {
    /// Makes everything for a server at `addresses` that knows `users`.
    pub(super) fn create(folder: &Path, addresses: &[IpAddr], users: &[User]) -> Result<Self> {
        fs::create_dir(folder).with_context(|| format!("cannot create {}", folder.display()))?;
        let credentials = Self { folder: folder.to_owned() };

        let mut authority = CertificateParams::default();
        authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        authority.distinguished_name.push(DnType::CommonName, "sliceproxy test authority");
        let authority_key = KeyPair::generate()?;
        fs::write(credentials.authority(), authority.self_signed(&authority_key)?.pem())?;

        let mut server = CertificateParams::new(vec!["localhost".to_owned()])?;
        server.distinguished_name.push(DnType::CommonName, "kube-apiserver");
        server
            .subject_alt_names
            .extend(addresses.iter().map(|address| SanType::IpAddress(*address)));
        let server_key = KeyPair::generate()?;
        let certificate = server.signed_by(&server_key, &Issuer::new(authority, authority_key))?;
        fs::write(credentials.server_certificate(), certificate.pem())?;
        fs::write(credentials.server_key(), server_key.serialize_pem())?;

        let accounts = KeyPair::generate()?;
        fs::write(credentials.account_key(), accounts.serialize_pem())?;
        fs::write(credentials.account_public_key(), accounts.public_key_pem())?;

        fs::write(credentials.tokens(), users.iter().map(User::line).collect::<String>())?;
        Ok(credentials)
    }

    pub(super) fn authority(&self) -> PathBuf {
        self.folder.join("authority.crt")
    }

    pub(super) fn server_certificate(&self) -> PathBuf {
        self.folder.join("server.crt")
    }

    pub(super) fn server_key(&self) -> PathBuf {
        self.folder.join("server.key")
    }

    pub(super) fn account_key(&self) -> PathBuf {
        self.folder.join("service-accounts.key")
    }

    pub(super) fn account_public_key(&self) -> PathBuf {
        self.folder.join("service-accounts.pub")
    }

    pub(super) fn tokens(&self) -> PathBuf {
        self.folder.join("tokens.csv")
    }

    /// Writes a kubeconfig named `name` for `server` with `token`.
    pub(super) fn kubeconfig(&self, name: &str, server: &str, token: &str) -> Result<PathBuf> {
        let path = self.folder.join(format!("{}.kubeconfig", name.replace([':', '/'], "-")));
        // JSON is YAML, and needs no quoting rules of our own.
        let content = serde_json::json!({
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "test", "cluster": {"server": server, "certificate-authority": self.authority()}}],
            "users": [{"name": name, "user": {"token": token}}],
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": name}}],
            "current-context": "test",
        });
        fs::write(&path, serde_json::to_string_pretty(&content)?)
            .with_context(|| format!("cannot write {}", path.display()))?;
        Ok(path)
    }
}
