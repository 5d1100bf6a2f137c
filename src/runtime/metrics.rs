//! The metrics registry of a process. Labels are closed sets: never names, uids or raw errors.

use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;
use std::sync::{Arc, Mutex, PoisonError};

/// The registry, shared with the admin port. Every name starts with `beckon_`.
#[derive(Clone)]
pub struct Metrics(Arc<Mutex<Registry>>);

impl Default for Metrics {
    fn default() -> Self {
        Self(Arc::new(Mutex::new(Registry::with_prefix("beckon"))))
    }
}

impl Metrics {
    /// Registers metrics.
    pub fn register<R>(&self, add: impl FnOnce(&mut Registry) -> R) -> R {
        add(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The text that Prometheus reads.
    #[must_use]
    pub fn encode(&self) -> String {
        let mut text = String::new();
        let registry = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Err(error) = encode(&mut text, &registry) {
            tracing::error!(%error, "metrics could not be encoded");
        }
        text
    }
}
