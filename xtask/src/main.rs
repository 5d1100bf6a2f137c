//! What contributors run.

use clap::{Parser, Subcommand};
use std::process::ExitCode;
use xtask::failure::Result;
use xtask::progress::{print, say};
use xtask::{generate, suites, up};

/// Everything a contributor runs. `up` starts the whole product on this machine, `test` runs every suite.
#[derive(Parser, Debug)]
#[command(name = "cargo xtask", bin_name = "cargo xtask", arg_required_else_help = true)]
struct Xtask {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand, Debug)]
enum Command {
    /// Start the whole product on this machine, against a real API server
    Up(up::UpArgs),
    /// End what `up` has started; nothing is left
    Down(up::DirArgs),
    /// Print `ready`, or what is missing
    Status(up::DirArgs),
    /// Set up, then run every suite, or some tiers of them
    Test(suites::TestArgs),
    /// Measure how long things take, and print it; no number fails
    Bench(suites::BenchArgs),
    /// Write what is generated: crds/ from the types, and the chart's copies
    Generate(generate::GenerateArgs),
    /// Build the control plane into the cache and print where it is
    ClusterBinary,
}

fn main() -> ExitCode {
    match run(Xtask::parse().command) {
        Ok(code) => code,
        Err(error) => {
            say(format!("error: {error}"));
            ExitCode::FAILURE
        }
    }
}

fn run(command: Command) -> Result<ExitCode> {
    match command {
        Command::Up(args) => up::up(&args)?,
        Command::Down(args) => up::down(&args.path()?)?,
        Command::Status(args) => {
            let missing = up::status(&args.path()?)?;
            if !missing.is_empty() {
                print(missing.join("\n"));
                return Ok(ExitCode::FAILURE);
            }
            print("ready");
        }
        Command::Test(args) if suites::test(&args)? => {}
        Command::Bench(args) if suites::bench(&args)? => {}
        Command::Bench(_) | Command::Test(_) => return Ok(ExitCode::FAILURE),
        Command::Generate(args) => generate::run(&args)?,
        Command::ClusterBinary => print(xtask::cluster_binary::build()?.display().to_string()),
    }
    Ok(ExitCode::SUCCESS)
}
