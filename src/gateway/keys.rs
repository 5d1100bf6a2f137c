//! The installation's keys: what signs cookies, and what makes the names of requests. One Secret, made by the first gateway.

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use kube::api::{ObjectMeta, PostParams};
use rand::RngExt as _;
use std::collections::BTreeMap;

/// The Secret in Beckon's own namespace.
pub const SECRET: &str = "beckon-gateway-keys";
const COOKIE: &str = "cookie";
const NAMES: &str = "names";

/// The keys. Never printed.
#[derive(Clone)]
pub struct Keys {
    /// Signs and encrypts cookies and one-use links.
    pub cookie: [u8; 64],
    /// Makes the names of requests.
    pub names: [u8; 32],
}

impl std::fmt::Debug for Keys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Keys")
    }
}

/// Why there are no keys.
#[derive(Debug, thiserror::Error)]
pub enum KeysError {
    /// The API server refused or did not answer.
    #[error("the Secret {SECRET} in namespace {namespace} could not be read or created: {why}")]
    Api {
        /// Where.
        namespace: String,
        /// What the API server said.
        why: String,
    },
    /// The Secret is there but is not ours.
    #[error("the Secret {SECRET} in namespace {namespace} has no usable key {key:?}: delete it, and the next gateway makes a new one")]
    Malformed {
        /// Where.
        namespace: String,
        /// Which entry.
        key: &'static str,
    },
}

impl Keys {
    /// Keys that nobody else has, for a process that shares nothing.
    #[must_use]
    pub fn random() -> Self {
        let mut rng = rand::rng();
        let mut keys = Self { cookie: [0; 64], names: [0; 32] };
        rng.fill(&mut keys.cookie);
        rng.fill(&mut keys.names);
        keys
    }

    /// Reads the installation's keys, and makes them when there are none. Two gateways that start together end with the
    /// same ones: the second create conflicts, and the loser reads.
    pub async fn load(client: kube::Client, namespace: &str) -> Result<Self, KeysError> {
        let api: Api<Secret> = Api::namespaced(client, namespace);
        let failed = |error: kube::Error| KeysError::Api { namespace: namespace.to_owned(), why: super::brief(&error) };
        if let Some(secret) = api.get_opt(SECRET).await.map_err(failed)? {
            return Self::read(&secret, namespace);
        }
        let made = Self::random();
        let secret = Secret {
            metadata: ObjectMeta { name: Some(SECRET.to_owned()), ..ObjectMeta::default() },
            data: Some(BTreeMap::from([
                (COOKIE.to_owned(), ByteString(made.cookie.to_vec())),
                (NAMES.to_owned(), ByteString(made.names.to_vec())),
            ])),
            ..Secret::default()
        };
        match api.create(&PostParams::default(), &secret).await {
            Ok(_) => Ok(made),
            Err(kube::Error::Api(status)) if status.code == 409 => Self::read(&api.get(SECRET).await.map_err(failed)?, namespace),
            Err(error) => Err(failed(error)),
        }
    }

    fn read(secret: &Secret, namespace: &str) -> Result<Self, KeysError> {
        fn bytes<const N: usize>(secret: &Secret, key: &'static str, namespace: &str) -> Result<[u8; N], KeysError> {
            let value = secret.data.as_ref().and_then(|data| data.get(key));
            value
                .and_then(|value| <[u8; N]>::try_from(value.0.as_slice()).ok())
                .ok_or_else(|| KeysError::Malformed { namespace: namespace.to_owned(), key })
        }
        Ok(Self { cookie: bytes(secret, COOKIE, namespace)?, names: bytes(secret, NAMES, namespace)? })
    }
}
