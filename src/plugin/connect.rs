//! The API server, as kubectl would find it, and who we are there.

use super::args::Connection;
use super::error::Error;
use crate::api::v1alpha1::{AttentionRequest, Principal};
use crate::k8s::client::CallError;
use crate::k8s::user;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::core::DynamicObject;
use kube::discovery::ApiResource;
use kube::{Api, Client, Config};
use std::time::Duration;

/// An API server hangs no command for longer than this.
const TIMEOUT: Duration = Duration::from_secs(30);

/// A connection, in a namespace.
pub(super) struct Cluster {
    pub client: Client,
    pub config: Config,
    pub namespace: String,
    pub connection: Connection,
}

impl Cluster {
    /// Reads the kubeconfig. Nothing is asked of the server yet.
    pub(super) async fn connect(connection: &Connection) -> Result<Self, Error> {
        let options = KubeConfigOptions { context: connection.context.clone(), ..KubeConfigOptions::default() };
        let mut config = match (&connection.kubeconfig, &connection.context) {
            (Some(file), _) => {
                let kubeconfig = Kubeconfig::read_from(file).map_err(|error| Error::Config(format!("{}: {error}", file.display())))?;
                Config::from_custom_kubeconfig(kubeconfig, &options).await.map_err(|error| Error::Config(error.to_string()))?
            }
            (None, Some(_)) => Config::from_kubeconfig(&options).await.map_err(|error| Error::Config(error.to_string()))?,
            (None, None) => Config::infer().await.map_err(|error| Error::Config(error.to_string()))?,
        };
        config.read_timeout = Some(TIMEOUT);
        let client = Client::try_from(config.clone()).map_err(Error::from)?;
        let namespace = connection.namespace.clone().unwrap_or_else(|| config.default_namespace.clone());
        Ok(Self { client, config, namespace, connection: connection.clone() })
    }

    /// The requests of a namespace, or of all. Untyped, so that what a newer server says is not lost in `-o json`.
    pub(super) fn requests(&self, namespace: Option<&str>) -> Api<DynamicObject> {
        let resource = ApiResource::erase::<AttentionRequest>(&());
        match namespace {
            Some(namespace) => Api::namespaced_with(self.client.clone(), namespace, &resource),
            None => Api::all_with(self.client.clone(), &resource),
        }
    }

    /// Who we are to the API server.
    pub(super) async fn whoami(&self) -> Result<Principal, Error> {
        let user = user::whoami(&self.client).await.map_err(|error| match error {
            CallError::Kube(error) => error.into(),
            CallError::Timeout | CallError::Endless => Error::Unreachable(error.to_string()),
        })?;
        user::principal(&user).ok_or_else(|| Error::Other("the API server does not know who you are: log in first".into()))
    }
}
