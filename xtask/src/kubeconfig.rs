//! Kubeconfig files, written as JSON, which is YAML too.

use crate::failure::{Context as _, Result};
use crate::files::write_private;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

/// How to reach an API server: the `cluster` of a kubeconfig.
#[derive(Clone, Debug)]
pub struct Server(Value);

impl Server {
    /// At this URL, with the certificate (PEM) of its authority.
    pub fn new(url: &str, authority: &[u8]) -> Self {
        Self(json!({"server": url, "certificate-authority-data": STANDARD.encode(authority)}))
    }

    /// That of the first cluster of a kubeconfig in JSON.
    pub fn of(kubeconfig: &Value) -> Result<Self> {
        kubeconfig.pointer("/clusters/0/cluster").cloned().map(Self).context("the kubeconfig names no cluster")
    }
}

/// How a user of a kubeconfig says who it is.
#[derive(Clone, Debug)]
pub enum Credential {
    /// A bearer token.
    Token(String),
    /// A file that holds the bearer token and may be renewed.
    TokenFile(PathBuf),
    /// The `user` of a kubeconfig as it is.
    Other(Value),
}

/// Writes a kubeconfig with one context per user, named as the user. The first is current.
pub fn write(path: &Path, server: &Server, namespace: &str, users: &[(&str, Credential)]) -> Result<()> {
    let contexts: Vec<Value> = users
        .iter()
        .map(|(user, _)| json!({"name": user, "context": {"cluster": "beckon", "user": user, "namespace": namespace}}))
        .collect();
    let credentials: Vec<Value> = users
        .iter()
        .map(|(user, credential)| match credential {
            Credential::Token(token) => json!({"name": user, "user": {"token": token}}),
            Credential::TokenFile(file) => json!({"name": user, "user": {"tokenFile": file}}),
            Credential::Other(credential) => json!({"name": user, "user": credential}),
        })
        .collect();
    let config = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "beckon", "cluster": server.0}],
        "contexts": contexts,
        "users": credentials,
        "current-context": users.first().map(|(user, _)| *user).unwrap_or_default(),
    });
    write_private(path, serde_json::to_string_pretty(&config).context("kubeconfig")?.as_bytes())
}
