//! The programs of the control plane: a Go binary and a kubectl that are built once and kept in the user's cache directory, or
//! programs that are there already.

use crate::failure::{Context as _, Failure, Result};
use crate::files::{cache_dir, hex, repository};
use crate::process::{Spec, find_program};
use crate::progress::{Step, say};
use sha2::{Digest as _, Sha256};
use std::ffi::OsString;
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

/// Where the programs of a control plane are.
#[derive(Clone, Debug)]
pub enum Programs {
    /// The binary of `tests/cluster`, which is all of them; beside it is a kubectl of its own, unless it was built elsewhere.
    Built(PathBuf),
    /// A directory with `etcd`, `kube-apiserver` and `kubectl`, and perhaps more, as `KUBEBUILDER_ASSETS` names one.
    Assets {
        /// The directory.
        dir: PathBuf,
        /// A built binary that happens to be there, for what the directory lacks.
        built: Option<PathBuf>,
    },
}

impl Programs {
    /// `$BECKON_CLUSTER_BINARY`, else `$KUBEBUILDER_ASSETS`, else the binary from the cache, built first if need be.
    pub fn find_or_build() -> Result<Self> {
        if let Some(binary) = std::env::var_os("BECKON_CLUSTER_BINARY").filter(|path| !path.is_empty()) {
            let binary = PathBuf::from(binary);
            return if binary.is_file() { Ok(Self::Built(binary)) } else { Err(missing("BECKON_CLUSTER_BINARY", &binary)) };
        }
        if let Some(dir) = std::env::var_os("KUBEBUILDER_ASSETS").filter(|path| !path.is_empty()) {
            let dir = PathBuf::from(dir);
            for program in ["etcd", "kube-apiserver", "kubectl"] {
                if !dir.join(program).is_file() {
                    return Err(missing("KUBEBUILDER_ASSETS", &dir.join(program)));
                }
            }
            return Ok(Self::Assets { dir, built: newest_kept() });
        }
        build().map(Self::Built)
    }

    /// For a cluster that exists, of which only `kubectl` is needed: the one in the `PATH`, else as [`Programs::find_or_build`].
    pub fn for_existing_cluster() -> Result<Self> {
        let in_path = find_program("kubectl").and_then(|file| file.parent().map(Path::to_path_buf));
        match in_path {
            Some(dir) if std::env::var_os("KUBEBUILDER_ASSETS").is_none() => Ok(Self::Assets { dir, built: None }),
            _ => Self::find_or_build(),
        }
    }

    /// Whether this program is there. `node`, `kube-scheduler` and `kube-controller-manager` are seldom among assets.
    pub fn has(&self, program: &str) -> bool {
        self.command(program).is_some()
    }

    /// A process of this program that writes its log into `logs`.
    pub fn spec(&self, program: &str, logs: &Path) -> Result<Spec> {
        let command = self.command(program).context(format!(
            "KUBEBUILDER_ASSETS has no {program}, and no control plane was built; without KUBEBUILDER_ASSETS it is built"
        ))?;
        let mut spec = Spec::new(program, "", logs.join(format!("{program}.log")));
        spec.command = command;
        // Their data is thrown away after them.
        spec.grace = Duration::ZERO;
        // A third of an API server's time is Go's garbage collection; memory is not what is scarce on a contributor's machine.
        Ok(spec.env("GOGC", "300"))
    }

    fn command(&self, program: &str) -> Option<Vec<OsString>> {
        let of = |binary: &PathBuf| vec![binary.clone().into_os_string(), program.into()];
        match self {
            Self::Built(binary) => Some(of(binary)),
            Self::Assets { dir, .. } if dir.join(program).is_file() => Some(vec![dir.join(program).into()]),
            Self::Assets { built, .. } => built.as_ref().map(of),
        }
    }

    /// `kubectl`, without arguments.
    pub fn kubectl(&self) -> Command {
        let file = self.file(KUBECTL.1);
        let mut command = Command::new(&file);
        if matches!(self, Self::Built(binary) if *binary == file) {
            command.arg(KUBECTL.1);
        }
        command
    }

    /// The file that is this program when it is started under that name.
    pub fn file(&self, program: &str) -> PathBuf {
        match self {
            Self::Built(binary) => {
                let own = (program == KUBECTL.1).then(|| binary.with_file_name(KUBECTL.1)).filter(|own| own.is_file());
                own.unwrap_or_else(|| binary.clone())
            }
            Self::Assets { dir, .. } => dir.join(program),
        }
    }
}

fn missing(variable: &str, path: &Path) -> Failure {
    Failure::new(format!("{variable} is set, but {} is not a file", path.display()))
}

/// The binary that was built last, whatever it was built from.
fn newest_kept() -> Option<PathBuf> {
    let entries = fs::read_dir(cache_dir().ok()?.join("cluster")).ok()?;
    let kept = entries.flatten().map(|entry| entry.path().join("beckon-cluster")).filter(|file| file.is_file());
    kept.max_by_key(|file| file.metadata().and_then(|meta| meta.modified()).ok())
}

/// What is built besides the module's own program, and the file that it becomes: alone it starts in half the time, and a run of the
/// suites starts it a thousand times.
const KUBECTL: (&str, &str) = ("k8s.io/kubernetes/cmd/kubectl", "kubectl");

/// What to do without Go.
const NO_GO: &str = "The control plane is built from source and needs Go 1.26 or later, from https://go.dev/dl.
Instead you can
  - set KUBEBUILDER_ASSETS to a directory with etcd, kube-apiserver and kubectl, or
  - give --kubeconfig FILE of a cluster that exists.";

/// The binary for the sources as they are, from the cache or built into it.
pub fn build() -> Result<PathBuf> {
    let module = repository().join("tests/cluster");
    if !module.join("go.mod").is_file() {
        return Err(Failure::new(format!(
            "{} holds no Go module; BECKON_CLUSTER_BINARY may name a binary built elsewhere",
            module.display()
        )));
    }
    let go = go_version(&module)?;
    let digest = digest(&module, &go)?;
    let dir = cache_dir()?.join("cluster");
    let kept = dir.join(&digest).join("beckon-cluster");
    if kept.is_file() {
        return Ok(kept);
    }
    fs::create_dir_all(dir.join(&digest)).context(format!("making {}", dir.display()))?;
    let lock = fs::File::create(dir.join("lock")).context(format!("{}", dir.join("lock").display()))?;
    if lock.try_lock().is_err() {
        say("another build of the control plane is running; waiting for it ...");
        lock.lock().context("waiting for the other build")?;
    }
    // The other build may have been this one.
    if !kept.is_file() {
        compile(&module, &kept)?;
        forget_old(&dir, &digest);
    }
    Ok(kept)
}

fn go_version(module: &Path) -> Result<String> {
    if find_program("go").is_none() {
        return Err(Failure::new(format!("there is no `go` in the PATH. {NO_GO}")));
    }
    // Asked inside the module, so that an older Go that can fetch the demanded version does so, or says why it can't.
    let asked = Command::new("go").current_dir(module).args(["env", "GOVERSION"]).output().context("go env")?;
    if asked.status.success() {
        return Ok(String::from_utf8_lossy(&asked.stdout).trim().to_owned());
    }
    Err(Failure::new(format!("{}\n{NO_GO}", String::from_utf8_lossy(&asked.stderr).trim())))
}

/// A hash of all that goes into the binary.
fn digest(module: &Path, go: &str) -> Result<String> {
    let mut sources = Vec::new();
    collect(module, &mut sources)?;
    sources.sort();
    let mut hash = Sha256::new();
    hash.update(format!("{go} {} {} {}\n", std::env::consts::OS, std::env::consts::ARCH, KUBECTL.0));
    for source in sources {
        let text = fs::read(&source).context(source.display())?;
        hash.update(format!("{} {}\n", source.strip_prefix(module).unwrap_or(&source).display(), text.len()));
        hash.update(&text);
    }
    Ok(hex(&hash.finalize()).chars().take(16).collect())
}

fn collect(dir: &Path, into: &mut Vec<PathBuf>) -> Result<()> {
    let entries = fs::read_dir(dir).context(format!("the sources of the control plane in {}", dir.display()))?;
    for entry in entries {
        let path = entry.context(dir.display())?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if path.is_dir() && name != "testdata" {
            collect(&path, into)?;
        } else if ["go.mod", "go.sum", "ldflags"].contains(&name.as_str())
            || (path.extension().is_some_and(|e| e == "go") && !name.ends_with("_test.go"))
        {
            into.push(path);
        }
    }
    Ok(())
}

fn compile(module: &Path, to: &Path) -> Result<()> {
    say("Building the control plane: about five minutes on two idle cores, once; it is kept in the cache directory.");
    let mut step = Step::start("fetching the Go modules");
    let mut fetch = go(module, &["mod", "download", "-x"]);
    run_with_lines(&mut fetch, |count, _| step.at(|| format!("{count} lines of progress")))?;
    step.done();
    let total = Command::new("go").current_dir(module).args(["list", "-deps", "."]).env("CGO_ENABLED", "0").output().context("go list")?;
    let total = total.stdout.split(|byte| *byte == b'\n').count();
    let flags = fs::read_to_string(module.join("ldflags")).context(module.join("ldflags").display())?;
    let mut step = Step::start("compiling the control plane");
    let build = |package: &str, to: &Path, step: &mut Step| {
        let part = to.with_extension(format!("{}.part", std::process::id()));
        let mut command = go(module, &["build", "-v", "-trimpath", "-ldflags", flags.trim(), "-o"]);
        command.arg(&part).arg(package);
        let built = run_with_lines(&mut command, |count, package| step.at(|| format!("{count} of at most {total} packages: {package}")));
        built.and_then(|()| fs::rename(&part, to).context(to.display())).inspect_err(|_| drop(fs::remove_file(&part)))
    };
    // The file that stands for all of them comes last.
    build(KUBECTL.0, &to.with_file_name(KUBECTL.1), &mut step)?;
    build(".", to, &mut step)?;
    step.done();
    Ok(())
}

fn go(module: &Path, args: &[&str]) -> Command {
    let mut command = Command::new("go");
    command.current_dir(module).env("CGO_ENABLED", "0").args(args);
    command
}

/// Runs a command, shows each line of its standard error to `line` with its number, and tells the last ones if it fails.
fn run_with_lines(command: &mut Command, mut line: impl FnMut(usize, &str)) -> Result<()> {
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().context("go")?;
    let mut last: Vec<String> = Vec::new();
    if let Some(errors) = child.stderr.take() {
        for (count, text) in BufReader::new(errors).lines().map_while(std::io::Result::ok).enumerate() {
            line(count, &text);
            if last.len() == 25 {
                last.remove(0);
            }
            last.push(text);
        }
    }
    let status = child.wait().context("go")?;
    if status.success() {
        return Ok(());
    }
    Err(Failure::new(format!("building the control plane failed ({status}):\n{}", last.join("\n"))))
}

/// Keeps the three builds used last: each is 200 MB.
fn forget_old(dir: &Path, current: &str) {
    let Ok(entries) = fs::read_dir(dir) else { return };
    let mut builds: Vec<_> = entries
        .flatten()
        .filter(|entry| entry.path().is_dir() && entry.file_name() != current)
        .filter_map(|entry| Some((entry.metadata().ok()?.modified().ok()?, entry.path())))
        .collect();
    builds.sort();
    let surplus = builds.len().saturating_sub(2);
    for (_, path) in builds.into_iter().take(surplus) {
        // Failing to delete costs only disk.
        drop(fs::remove_dir_all(path));
    }
}
