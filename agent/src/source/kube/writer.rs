//! The only thing that we ever write to an API server: Events. Apart from the watches, so that a
//! slow answer to one never holds up the other.

use super::api::{Api, RequestError};
use super::connect::ConnectError;
use super::request::new_event;
use crate::config::ApiServer;

/// An API server to write Events to.
#[derive(Debug)]
pub struct Writer {
    api: Api,
}

/// Why an Event was not taken.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct WriteError {
    message: String,
    /// Whether the same Event may be taken later.
    pub is_passing: bool,
}

impl From<RequestError> for WriteError {
    fn from(error: RequestError) -> Self {
        let is_passing = match &error {
            RequestError::Unreachable(_) | RequestError::Silent(_) => true,
            RequestError::Refused(refusal) => matches!(refusal.status.code, 401 | 429 | 500..),
            RequestError::Unintelligible(_) => false,
        };
        Self { message: error.to_string(), is_passing }
    }
}

impl Writer {
    /// With the credentials for `server`.
    ///
    /// # Errors
    /// As for the watches.
    pub async fn connect(server: &ApiServer) -> Result<Self, ConnectError> {
        Ok(Self { api: Api::connect(server).await? })
    }

    /// Through a given client.
    #[cfg(test)]
    pub(crate) fn through(client: kube::Client) -> Self {
        Self { api: Api::through(client, http::Uri::default()) }
    }

    /// Makes an Event in `namespace` of `body`, which is JSON.
    ///
    /// # Errors
    /// If the API server did not take it.
    pub async fn create_event(&self, namespace: &str, body: Vec<u8>) -> Result<(), WriteError> {
        Ok(self.api.create(&new_event(namespace), body).await?)
    }
}
