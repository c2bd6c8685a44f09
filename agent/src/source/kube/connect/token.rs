//! Bearer tokens. One in a file is read for each request: requests are few, and whoever renews the
//! file expects the new one to be used. `kube` would keep it for a minute, stumble over the end of
//! a line, and panic at one in the kubeconfig itself.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use http::HeaderValue;
use kube::config::AuthInfo;
use secrecy::ExposeSecret as _;

/// A file that holds a token, and perhaps another one the next time.
#[derive(Debug, Clone)]
pub(in super::super) struct TokenFile(Arc<PathBuf>);

impl TokenFile {
    /// Takes the file out of `auth`, where it wins over a token; a token is made fit for a header.
    pub(super) fn take_from(auth: &mut AuthInfo) -> Result<Option<Self>, String> {
        if let Some(path) = auth.token_file.take() {
            auth.token = None;
            let file = Self(Arc::new(path.into()));
            return file.authorization().map(|_| Some(file));
        }
        if let Some(token) = &auth.token {
            let token = token.expose_secret().trim().to_owned();
            header(&token)
                .ok_or("the token in the kubeconfig holds a character that none may have")?;
            auth.token = Some(token.into());
        }
        Ok(None)
    }

    /// For the header `Authorization`.
    pub(in super::super) fn authorization(&self) -> Result<HeaderValue, String> {
        let file = self.0.display();
        let token =
            fs::read_to_string(&*self.0).map_err(|error| format!("token file {file}: {error}"))?;
        match token.trim() {
            "" => Err(format!("token file {file}: it is empty")),
            token => header(token).ok_or_else(|| format!("token file {file}: this is no token")),
        }
    }
}

fn header(token: &str) -> Option<HeaderValue> {
    let mut value = HeaderValue::try_from(format!("Bearer {token}")).ok()?;
    value.set_sensitive(true);
    Some(value)
}
