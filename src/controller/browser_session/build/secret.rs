//! The Secret between a session's driver and the gateways: a token and a certificate of its own.

use super::{SESSION, owner, secret_name};
use crate::api::v1alpha1::BrowserSession;
use crate::driver::{SECRET_CERTIFICATE, SECRET_KEY, SECRET_TOKEN, SERVER_NAME};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::ResourceExt as _;
use std::collections::BTreeMap;

/// A fresh one. It can't be changed afterwards.
///
/// # Errors
/// When the certificate can't be made.
pub fn build(session: &BrowserSession) -> Result<Secret, rcgen::Error> {
    let token: [u8; 32] = rand::random();
    let pair = rcgen::generate_simple_self_signed([SERVER_NAME.to_owned()])?;
    let data = [
        (SECRET_TOKEN, URL_SAFE_NO_PAD.encode(token)),
        (SECRET_CERTIFICATE, pair.cert.pem()),
        (SECRET_KEY, pair.signing_key.serialize_pem()),
    ];
    Ok(Secret {
        metadata: ObjectMeta {
            name: Some(secret_name(session)),
            namespace: session.namespace(),
            labels: Some(BTreeMap::from([(SESSION.to_owned(), session.name_any())])),
            owner_references: Some(owner(session)),
            ..ObjectMeta::default()
        },
        immutable: Some(true),
        string_data: Some(data.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()),
        type_: Some("Opaque".into()),
        ..Secret::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::v1alpha1::BrowserSessionSpec;

    #[test]
    fn each_session_has_its_own() {
        let mut session = BrowserSession::new("s-1", BrowserSessionSpec::default());
        session.metadata.uid = Some("u".into());
        let (a, b) = (build(&session).expect("made"), build(&session).expect("made"));
        let data = |secret: &Secret, key: &str| secret.string_data.clone().unwrap_or_default()[key].clone();
        assert_eq!(data(&a, SECRET_TOKEN).len(), 43);
        for key in [SECRET_TOKEN, SECRET_CERTIFICATE, SECRET_KEY] {
            assert_ne!(data(&a, key), data(&b, key));
        }
        assert!(data(&a, SECRET_CERTIFICATE).starts_with("-----BEGIN CERTIFICATE-----"));
        assert_eq!(a.metadata.name.as_deref(), Some("s-1-driver"));
        assert_eq!(a.owner_references().len(), 1);
    }
}
