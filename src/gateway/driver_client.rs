//! The drivers of the sessions' pods, found by the sessions' status and Secrets.

pub use crate::driver::client::{Driver, DriverFailure, LiveSocket, code};

use crate::api::v1alpha1::BrowserSession;
use crate::driver::{SECRET_CERTIFICATE, SECRET_TOKEN};
use k8s_openapi::api::core::v1::Secret;
use kube::{Api, ResourceExt as _};
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

const QUICK: Duration = Duration::from_secs(5);

/// The drivers of all sessions, each kept while its pod is the same.
#[derive(Clone)]
pub struct Drivers {
    client: kube::Client,
    known: Arc<Mutex<HashMap<String, (String, Driver)>>>,
}

impl Drivers {
    /// Knows none yet.
    pub fn new(client: kube::Client) -> Self {
        Self { client, known: Arc::default() }
    }

    /// The driver of a session's present pod.
    pub async fn of(&self, session: &BrowserSession) -> Result<Driver, DriverFailure> {
        let name = session.name_any();
        let not_ready = |why: &str| DriverFailure::NotReady { session: name.clone(), why: why.to_owned() };
        let pod = session.status.as_ref().and_then(|s| s.pod.as_ref()).ok_or_else(|| not_ready("it has no pod"))?;
        let address: IpAddr = pod.ip.as_deref().and_then(|ip| ip.parse().ok()).ok_or_else(|| not_ready("its pod has no address"))?;
        let uid = session.uid().unwrap_or_default();
        let life = format!("{}/{address}/{}", pod.uid.as_deref().unwrap_or_default(), pod.restart_count.unwrap_or_default());
        if let Some(driver) = self.known(&uid, &life) {
            return Ok(driver);
        }
        let secrets: Api<Secret> = Api::namespaced(self.client.clone(), &session.namespace().unwrap_or_default());
        let secret = match tokio::time::timeout(QUICK, secrets.get_opt(&format!("{name}-driver"))).await {
            Ok(Ok(Some(secret))) => secret,
            Ok(Ok(None)) => return Err(not_ready("its Secret is not there")),
            Ok(Err(error)) => return Err(not_ready(&super::brief(&error))),
            Err(_) => return Err(not_ready("the API server did not answer")),
        };
        let entry = |key: &str| secret.data.as_ref().and_then(|data| data.get(key)).map(|value| value.0.clone());
        let pem = entry(SECRET_CERTIFICATE).ok_or_else(|| not_ready("its Secret has no certificate"))?;
        let token = entry(SECRET_TOKEN).ok_or_else(|| not_ready("its Secret has no token"))?;
        let driver = Driver::new(&name, address, &token, &pem).map_err(not_ready)?;
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.insert(uid, (life, driver.clone()));
        Ok(driver)
    }

    /// Forgets sessions that are gone.
    pub fn keep_only(&self, there: &std::collections::HashSet<String>) {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).retain(|uid, _| there.contains(uid));
    }

    fn known(&self, uid: &str, life: &str) -> Option<Driver> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.get(uid).filter(|(of, _)| of == life).map(|(_, driver)| driver.clone())
    }
}
