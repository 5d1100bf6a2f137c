//! The command line. Flags and formats are kubectl's own where kubectl has them.

use super::decide::Decision;
use crate::api::v1alpha1::{Phase, ResolutionOutcome, Verdict};
use clap::{ArgGroup, Args, Parser, Subcommand, ValueEnum};
use std::ffi::OsString;
use std::path::PathBuf;

const EXIT_CODES: &str = "\
Exit codes:
  0  done
  1  something failed, or some of several requests failed
  2  the command line is wrong
  3  there is no such request
  4  you may not do that
  5  the request was already answered by somebody else, or is settled";

const EXAMPLES: &str = "\
Examples:
  kubectl attention list -A
  kubectl attention show a-2b7qk
  kubectl attention resolve a-2b7qk -m 'Done, continue.'
  kubectl attention reject -l beckon.dev/session=s-7k2m9x4p1q --yes -m 'Try again tomorrow.'
  kubectl attention open a-2b7qk";

/// The flags of `kubectl attention`.
#[derive(Args, Debug)]
#[command(after_help = EXIT_CODES, after_long_help = format!("{EXAMPLES}\n\n{EXIT_CODES}"))]
pub struct PluginArgs {
    #[command(flatten)]
    pub(super) connection: Connection,
    #[command(subcommand)]
    pub(super) command: Command,
}

#[derive(Parser, Debug)]
#[command(
    name = "kubectl-attention",
    bin_name = "kubectl attention",
    version,
    about = "Sees and answers the requests of agents that wait for a person",
    arg_required_else_help = true
)]
struct Plugin {
    #[command(flatten)]
    args: PluginArgs,
}

/// Parses the arguments of `kubectl-attention`. A wrong command line ends the process with code 2.
pub fn parse(args: Vec<OsString>) -> PluginArgs {
    Plugin::parse_from(args).args
}

/// How the API server is found, as for kubectl.
#[derive(Args, Debug, Clone, Default)]
pub(super) struct Connection {
    /// The namespace; absent: the context's
    #[arg(short, long, global = true, value_name = "NAMESPACE")]
    pub namespace: Option<String>,
    /// The context of the kubeconfig
    #[arg(long, global = true, value_name = "CONTEXT")]
    pub context: Option<String>,
    /// The kubeconfig file; absent: as kubectl finds it
    #[arg(long, global = true, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
}

#[derive(Subcommand, Debug)]
pub(super) enum Command {
    /// List requests: the open ones, oldest deadline first
    #[command(visible_alias = "ls")]
    List(ListArgs),
    /// Show all that is known of a request, and what to do next
    Show(ShowArgs),
    /// Resolve: done, the agent goes on
    Resolve(Box<DecideArgs>),
    /// Reject: the agent gives up or tries something else
    Reject(Box<DecideArgs>),
    /// Open a request on the dashboard, with a one-time login link
    Open(OpenArgs),
}

/// `-o`.
#[derive(ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    Wide,
    Json,
    Yaml,
    Name,
}

#[derive(Args, Debug)]
pub(super) struct ListArgs {
    /// In every namespace
    #[arg(short = 'A', long, conflicts_with = "namespace")]
    pub all_namespaces: bool,
    /// Only those with these labels, as for kubectl
    #[arg(short = 'l', long, value_name = "SELECTOR")]
    pub selector: Option<String>,
    /// Only those in these phases: Pending, Resolved, Rejected, Timeout, Cancelled
    #[arg(long, value_name = "PHASE", value_delimiter = ',', value_parser = phase)]
    pub phase: Vec<Phase>,
    /// The settled ones too
    #[arg(long, conflicts_with = "phase")]
    pub all: bool,
    /// The format
    #[arg(short, long, value_enum, value_name = "FORMAT")]
    pub output: Option<Format>,
    /// Leave the header line out
    #[arg(long)]
    pub no_headers: bool,
}

#[derive(Args, Debug)]
pub(super) struct ShowArgs {
    /// The requests' names
    #[arg(required = true, value_name = "NAME")]
    pub names: Vec<String>,
    /// The format
    #[arg(short, long, value_enum, value_name = "FORMAT")]
    pub output: Option<Format>,
}

#[derive(Args, Debug)]
#[command(group = ArgGroup::new("which").required(true).args(["names", "selector", "all_open"]))]
pub(super) struct DecideArgs {
    /// The requests' names
    #[arg(value_name = "NAME")]
    pub names: Vec<String>,
    /// Every open request with these labels
    #[arg(short = 'l', long, value_name = "SELECTOR")]
    pub selector: Option<String>,
    /// Every open request of the namespace
    #[arg(long)]
    pub all_open: bool,
    /// In every namespace, with -l or --all-open
    #[arg(short = 'A', long, conflicts_with_all = ["namespace", "names"])]
    pub all_namespaces: bool,
    /// Yes, all of them: needed when -l or --all-open finds more than one
    #[arg(long, short = 'y')]
    pub yes: bool,
    /// What the agent reads
    #[arg(short, long, value_name = "TEXT")]
    pub message: Option<String>,
    /// The answer's kind: Approved, Denied, Provided, Answered, Done, Failed. An approval, a destructive action and a request
    /// for access are granted only when it is given
    #[arg(long, value_name = "VERDICT", value_parser = verdict)]
    pub verdict: Option<Verdict>,
    /// The answer to a question; never a secret
    #[arg(long, value_name = "TEXT")]
    pub answer: Option<String>,
    /// The summary that a clarification or a decision needs
    #[arg(long, value_name = "TEXT")]
    pub summary: Option<String>,
    /// A remark for the record
    #[arg(long, value_name = "TEXT")]
    pub note: Option<String>,
    /// The format
    #[arg(short, long, value_enum, value_name = "FORMAT")]
    pub output: Option<Format>,
}

impl DecideArgs {
    pub(super) fn resolve(&self) -> Decision<'_> {
        Decision { outcome: ResolutionOutcome::Resolved, args: self }
    }

    pub(super) fn reject(&self) -> Decision<'_> {
        Decision { outcome: ResolutionOutcome::Rejected, args: self }
    }
}

#[derive(Args, Debug)]
pub(super) struct OpenArgs {
    /// The request's name; absent: the list of open requests
    #[arg(value_name = "NAME")]
    pub name: Option<String>,
    /// The dashboard's address; absent: a port of this machine is forwarded to the Service. https, or http on this machine
    #[arg(long, value_name = "URL", env = "BECKON_GATEWAY")]
    pub gateway: Option<String>,
    /// The Service of the installation, to forward to: the name of its Helm release, or RELEASE-beckon where the release's name has no
    /// "beckon" in it
    #[arg(long, value_name = "NAME", default_value = "beckon", conflicts_with = "gateway")]
    pub service: String,
    /// The Service's namespace
    #[arg(long, value_name = "NAMESPACE", default_value = "beckon-system", conflicts_with = "gateway")]
    pub service_namespace: String,
    /// The Service's port, by name or number
    #[arg(long, value_name = "PORT", default_value = "http", conflicts_with = "gateway")]
    pub service_port: String,
    /// Only print the address; start no browser
    #[arg(long)]
    pub print: bool,
}

/// One of `all`, whatever the case of its letters.
fn word<T: Copy>(text: &str, all: &[T], name: fn(T) -> &'static str) -> Result<T, String> {
    all.iter()
        .copied()
        .find(|value| name(*value).eq_ignore_ascii_case(text))
        .ok_or_else(|| format!("must be one of {}", all.iter().map(|value| name(*value)).collect::<Vec<_>>().join(", ")))
}

fn phase(text: &str) -> Result<Phase, String> {
    word(text, Phase::ALL, Phase::as_str)
}

fn verdict(text: &str) -> Result<Verdict, String> {
    word(text, Verdict::ALL, Verdict::as_str)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory as _;
    use clap::error::ErrorKind;

    fn try_parse(line: &str) -> Result<PluginArgs, ErrorKind> {
        let words = std::iter::once("kubectl-attention").chain(line.split_whitespace());
        Plugin::try_parse_from(words).map(|plugin| plugin.args).map_err(|error| error.kind())
    }

    #[test]
    fn the_definition_is_sound() {
        Plugin::command().debug_assert();
    }

    #[test]
    fn help_speaks_of_kubectl_and_tells_the_exit_codes() {
        let help = Plugin::command().render_long_help().to_string();
        for want in ["Usage: kubectl attention", "5  the request was already answered", "2  the command line is wrong"] {
            assert!(help.contains(want), "{want} in {help}");
        }
    }

    #[test]
    fn what_a_command_line_may_say() {
        for (line, want) in [
            ("list", None),
            ("ls -A -o json", None),
            ("list -n a --phase pending,TIMEOUT", None),
            ("-n a show x", None),
            ("show x y -n a -o yaml", None),
            ("resolve x y -m done", None),
            ("resolve -l a=b --yes", None),
            ("reject --all-open -A --yes", None),
            ("resolve x --verdict approved", None),
            ("open", None),
            ("open x --gateway https://a", None),
            ("", Some(ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand)),
            ("lost", Some(ErrorKind::InvalidSubcommand)),
            ("list --phase Gone", Some(ErrorKind::ValueValidation)),
            ("list --all --phase Pending", Some(ErrorKind::ArgumentConflict)),
            ("list -n a -A", Some(ErrorKind::ArgumentConflict)),
            ("list -o table", Some(ErrorKind::InvalidValue)),
            ("show", Some(ErrorKind::MissingRequiredArgument)),
            ("resolve", Some(ErrorKind::MissingRequiredArgument)),
            ("resolve x -l a=b", Some(ErrorKind::ArgumentConflict)),
            ("resolve x --all-open", Some(ErrorKind::ArgumentConflict)),
            ("resolve x -A", Some(ErrorKind::ArgumentConflict)),
            ("resolve x --verdict maybe", Some(ErrorKind::ValueValidation)),
            ("open x --gateway https://a --service b", Some(ErrorKind::ArgumentConflict)),
        ] {
            assert_eq!(try_parse(line).err(), want, "{line}");
        }
    }
}
