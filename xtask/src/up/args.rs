//! The command line of `up`, `down` and `status`.

use crate::failure::{Context as _, Failure, Result};
use crate::files::repository;
use crate::settings::{self, Role, Setting};
use clap::Args;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Where an `up` keeps its state.
#[derive(Args, Clone, Debug)]
pub struct DirArgs {
    /// Where it keeps its state; another directory for each `up` that runs at the same time [default: target/up]
    #[arg(long, value_name = "DIR")]
    pub dir: Option<PathBuf>,
}

impl DirArgs {
    /// The directory, absolute.
    pub fn path(&self) -> Result<PathBuf> {
        let dir = self.dir.clone().unwrap_or_else(|| repository().join("target/up"));
        std::path::absolute(&dir).context(dir.display())
    }
}

/// Start the whole product on this machine.
#[derive(Args, Clone, Debug)]
pub struct UpArgs {
    /// Return when it is ready, and leave it running; `cargo xtask down` ends it
    #[arg(long)]
    pub detach: bool,
    /// A setting of the installation, such as attention.minWaitSeconds=0; may be repeated
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub set: Vec<String>,
    /// The port of the MCP and dashboard address [default: a free one]
    #[arg(long, value_name = "PORT")]
    pub port: Option<u16>,
    /// Use the cluster of this kubeconfig's current context instead of starting one
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    /// The image of session pods, for a cluster that exists; the local node needs none
    #[arg(long, value_name = "IMAGE", requires = "kubeconfig")]
    pub browser_image: Option<String>,
    /// The namespace in which MCP creates sessions and requests
    #[arg(long, value_name = "NAME", default_value = "default")]
    pub namespace: String,
    /// Where it keeps its state.
    #[command(flatten)]
    pub dir: DirArgs,
    /// The process behind --detach.
    #[arg(long, hide = true)]
    pub daemon: bool,
}

/// A checked command line.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Where state is kept.
    pub dir: PathBuf,
    /// The port of the forwarder.
    pub port: Option<u16>,
    /// An existing cluster.
    pub kubeconfig: Option<PathBuf>,
    /// The image of session pods.
    pub browser_image: Option<String>,
    /// Where MCP creates objects.
    pub namespace: String,
    set: Vec<(&'static Setting, String)>,
}

impl UpArgs {
    /// Checks everything that can be checked before anything is done.
    pub fn plan(&self) -> Result<Plan> {
        let mut set = Vec::new();
        for pair in &self.set {
            let (key, value) =
                pair.split_once('=').context(format!("--set {pair}: must be KEY=VALUE, such as attention.timeoutSeconds=1h"))?;
            let setting = settings::find(key).context("--set")?;
            let value = settings::check(setting, value).context("--set")?;
            if setting.key == "transport" && value != "http" {
                return Err(Failure::new("--set transport: `up` serves http; for stdio run `beckon gateway --transport stdio`"));
            }
            set.push((setting, value));
        }
        if let Some(file) = self.kubeconfig.as_ref().filter(|file| !file.is_file()) {
            return Err(Failure::new(format!("--kubeconfig {}: no such file", file.display())));
        }
        if let Some(port) = self.port {
            crate::ports::check(port).context("--port")?;
        }
        Ok(Plan {
            dir: self.dir.path()?,
            port: self.port,
            kubeconfig: self.kubeconfig.as_ref().map(std::path::absolute).transpose().context("--kubeconfig")?,
            browser_image: self.browser_image.clone(),
            namespace: self.namespace.clone(),
            set,
        })
    }
}

impl Plan {
    /// Asks each role whether it would take its flags, before anything is started for it.
    pub(super) fn agree(&self, beckon: &Path) -> Result<()> {
        // The gateway first: it reads most of what can contradict itself, and names the keys.
        for (role, of) in [("gateway", Role::Gateway), ("controller", Role::Controller)] {
            let mut command = Command::new(beckon);
            command.arg(role).arg("--check").args(self.flags(of));
            if of == Role::Gateway {
                command.arg(format!("--namespace={}", self.namespace));
            }
            let done = command.output().context(beckon.display())?;
            if !done.status.success() {
                let said = String::from_utf8_lossy(&done.stderr);
                let line = said.lines().find_map(|line| line.strip_prefix(&format!("beckon {role}: ")).or(line.strip_prefix("error: ")));
                return Err(Failure::new(line.unwrap_or(said.trim())));
            }
        }
        Ok(())
    }

    /// The flags of a role for what was set.
    pub fn flags(&self, role: Role) -> Vec<String> {
        self.set.iter().filter(|(setting, _)| setting.roles.contains(&role)).map(|(s, value)| format!("--{}={value}", s.flag)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        up: UpArgs,
    }

    fn plan(args: &[&str]) -> Result<Plan> {
        Command::parse_from([&["up"], args].concat()).up.plan()
    }

    #[test]
    fn a_setting_becomes_the_flag_of_the_roles_that_read_it() {
        let plan =
            plan(&["--set", "attention.timeoutSeconds=90s", "--set", "history.ttlSeconds=60", "--set", "attention.captcha=off"]).unwrap();
        assert_eq!(plan.flags(Role::Controller), ["--attentionTimeout=90s", "--historyTTL=60"]);
        assert_eq!(plan.flags(Role::Gateway), ["--attentionTimeout=90s", "--captcha=off"]);
    }

    #[test]
    fn what_is_wrong_is_said() {
        for (args, says) in [
            (
                ["--set", "attention.timeoutSecond=1"],
                "--set: there is no setting \"attention.timeoutSecond\"; did you mean attention.timeoutSeconds?",
            ),
            (["--set", "attention.maxTotal=none"], "--set: attention.maxTotal: must be a whole number from 1, not \"none\""),
            (["--set", "attention.maxTotal"], "--set attention.maxTotal: must be KEY=VALUE, such as attention.timeoutSeconds=1h"),
            (["--kubeconfig", "/no/such"], "--kubeconfig /no/such: no such file"),
        ] {
            assert_eq!(plan(&args).unwrap_err().to_string(), says);
        }
    }

    #[test]
    fn a_taken_port_is_named() {
        let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let port = listener.local_addr().unwrap().port().to_string();
        let error = plan(&["--port", &port]).unwrap_err().to_string();
        assert!(error.starts_with(&format!("--port: 127.0.0.1:{port} is taken")), "{error}");
    }
}
