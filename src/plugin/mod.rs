//! `kubectl attention`: the kubectl plugin. Lists, shows, resolves and rejects attention requests, and opens the dashboard.
//!
//! It talks to the API server as the person who runs it, and to nothing else; `open` alone asks a gateway for a login link.

mod args;
mod connect;
mod decide;
mod duration;
mod error;
mod list;
mod open;
mod output;
mod request;
mod select;
mod show;
mod table;
mod text;

pub use args::{PluginArgs, parse};

use args::Command;
use connect::Cluster;
use error::{Error, Exit};
use output::Output;
use std::process::ExitCode;

/// Runs one command. The exit code says how it ended; see `kubectl attention --help`.
pub async fn run(args: PluginArgs) -> ExitCode {
    let mut out = Output::standard();
    let exit = match dispatch(&args, &mut out).await {
        Ok(exit) => exit,
        Err(error) => {
            out.complain(&error);
            error.exit()
        }
    };
    out.finish(exit).into()
}

async fn dispatch(args: &PluginArgs, out: &mut Output) -> Result<Exit, Error> {
    let cluster = Cluster::connect(&args.connection).await?;
    match &args.command {
        Command::List(list) => list::run(&cluster, list, out).await,
        Command::Show(show) => show::run(&cluster, show, out).await,
        Command::Resolve(decision) => decide::run(&cluster, &decision.resolve(), out).await,
        Command::Reject(decision) => decide::run(&cluster, &decision.reject(), out).await,
        Command::Open(open) => open::run(&cluster, open, out).await,
    }
}
