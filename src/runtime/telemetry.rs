//! Logs on standard error: text on a terminal, JSON elsewhere. Never keystrokes, tokens, cookies, page text or answers, however
//! much is asked for.

use std::io::{self, IsTerminal as _};
use tracing_subscriber::filter::{EnvFilter, FilterExt as _, LevelFilter, Targets};
use tracing_subscriber::layer::{Layer as _, SubscriberExt as _};
use tracing_subscriber::util::SubscriberInitExt as _;

/// The variables that are asked what to log, the first that is set.
const VARIABLES: [&str; 2] = ["BECKON_LOG", "RUST_LOG"];
const DEFAULT: &str = "info,kube_runtime=warn,rmcp=warn";

/// Starts logging at `info`, or as `BECKON_LOG` or `RUST_LOG` says. A second call changes nothing.
pub fn init() {
    let asked = VARIABLES.iter().find_map(|name| EnvFilter::try_from_env(name).ok()).unwrap_or_else(|| EnvFilter::new(DEFAULT));
    let filter = asked.and(discreet());
    let layer = tracing_subscriber::fmt::layer().with_writer(io::stderr);
    let done = if io::stderr().is_terminal() {
        tracing_subscriber::registry().with(layer.with_filter(filter)).try_init()
    } else {
        tracing_subscriber::registry().with(layer.json().flatten_event(true).with_filter(filter)).try_init()
    };
    drop(done);
}

/// The most that each crate may say. Ours never says a secret; others print whole messages, objects and frames when they are
/// asked for more.
fn discreet() -> Targets {
    Targets::new()
        .with_default(LevelFilter::INFO)
        .with_targets([("beckon", LevelFilter::TRACE), ("xtask", LevelFilter::TRACE)])
        // Prints messages of agents, with what they type.
        .with_target("rmcp", LevelFilter::WARN)
        // Prints an object that it could not read, a Secret perhaps.
        .with_target("kube_client", LevelFilter::ERROR)
        // Print frames, with what people type.
        .with_targets([("tungstenite", LevelFilter::WARN), ("tokio_tungstenite", LevelFilter::WARN)])
}

#[cfg(test)]
mod tests {
    use super::*;
    use tracing::Level;

    #[test]
    fn others_are_held_to_what_can_be_no_secret() {
        let most = discreet();
        for (target, level, want) in [
            ("beckon::gateway::mcp", Level::TRACE, true),
            ("rmcp::service", Level::WARN, true),
            ("rmcp::service", Level::INFO, false),
            ("kube_client::client", Level::WARN, false),
            ("kube_client::client", Level::ERROR, true),
            ("tungstenite::protocol", Level::INFO, false),
            ("hyper::proto", Level::DEBUG, false),
            ("h2::codec", Level::TRACE, false),
            ("anything", Level::INFO, true),
        ] {
            assert_eq!(most.would_enable(target, &level), want, "{target} {level}");
        }
    }
}
