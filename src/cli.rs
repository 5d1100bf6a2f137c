//! The command line of the one binary.

use crate::{api, browser, controller, gateway, plugin};
use clap::{Parser, Subcommand};
use std::ffi::OsString;
use std::io::Write as _;
use std::path::Path;
use std::process::ExitCode;

/// Puts a person into an agent's browser session.
#[derive(Parser, Debug)]
#[command(name = "beckon", version, arg_required_else_help = true)]
struct Beckon {
    #[command(subcommand)]
    role: Role,
}

#[derive(Subcommand, Debug)]
enum Role {
    /// Reconcile attention requests and browser sessions
    Controller(controller::ControllerArgs),
    /// Serve MCP for agents and the dashboard for people
    Gateway(gateway::GatewayArgs),
    /// Run one Chromium: the entry point of a session's pod
    Browser(browser::BrowserArgs),
    /// List, show, resolve and reject attention requests (also as `kubectl attention`)
    Attention(plugin::PluginArgs),
    /// Print the custom resource definitions as YAML
    Crds,
}

/// Parses and runs. As `kubectl-attention` the arguments are the plugin's.
#[must_use]
pub async fn run(args: Vec<OsString>) -> ExitCode {
    let name = args.first().map(Path::new).and_then(Path::file_name);
    if name.is_some_and(|name| name.to_string_lossy().starts_with("kubectl-attention")) {
        return plugin::run(plugin::parse(args)).await;
    }
    match Beckon::parse_from(args).role {
        Role::Controller(args) => controller::run(args).await,
        Role::Gateway(args) => gateway::run(args).await,
        Role::Browser(args) => browser::run(args).await,
        Role::Attention(args) => plugin::run(args).await,
        Role::Crds => print_crds(),
    }
}

fn print_crds() -> ExitCode {
    let mut text = String::new();
    for crd in api::crds() {
        match serde_saphyr::to_string(&crd) {
            Ok(yaml) => text.extend(["---\n", &yaml]),
            Err(error) => {
                tracing::error!(%error, "the definitions could not be written as YAML");
                return ExitCode::FAILURE;
            }
        }
    }
    // A reader that closed early, such as `head`, is no failure.
    drop(std::io::stdout().write_all(text.as_bytes()));
    ExitCode::SUCCESS
}
