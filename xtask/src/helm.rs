//! Helm, built once from the module in `tests/helm`, which pins it.

use crate::failure::{Context as _, Failure, Result};
use crate::files::{cache_dir, hex, repository};
use crate::process::find_program;
use crate::progress::{Step, say};
use sha2::{Digest as _, Sha256};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// `$BECKON_HELM`, else the binary from the cache, built first if need be.
pub fn find_or_build() -> Result<PathBuf> {
    if let Some(binary) = std::env::var_os("BECKON_HELM").filter(|path| !path.is_empty()) {
        return Ok(PathBuf::from(binary));
    }
    let module = repository().join("tests/helm");
    let dir = cache_dir()?.join("helm");
    let kept = dir.join(digest(&module)?).join("helm");
    if kept.is_file() {
        return Ok(kept);
    }
    if find_program("go").is_none() {
        return Err(Failure::new("Helm is built from source and needs Go 1.26 or later, from https://go.dev/dl; or set BECKON_HELM"));
    }
    fs::create_dir_all(kept.parent().unwrap_or(&dir)).context(dir.display())?;
    let lock = fs::File::create(dir.join("lock")).context(dir.join("lock").display())?;
    if lock.try_lock().is_err() {
        say("another build of Helm is running; waiting for it ...");
        lock.lock().context("waiting for the other build")?;
    }
    // The other build may have been this one.
    if !kept.is_file() {
        compile(&module, &kept)?;
    }
    Ok(kept)
}

fn digest(module: &Path) -> Result<String> {
    let mut hash = Sha256::new();
    for name in ["go.mod", "go.sum"] {
        hash.update(fs::read(module.join(name)).context(module.join(name).display())?);
    }
    Ok(hex(&hash.finalize()).chars().take(16).collect())
}

fn compile(module: &Path, to: &Path) -> Result<()> {
    let step = Step::start("building Helm: about a minute, once");
    let part = to.with_extension(format!("{}.part", std::process::id()));
    let built = Command::new("go")
        .current_dir(module)
        .env("CGO_ENABLED", "0")
        .args(["build", "-mod=readonly", "-trimpath", "-ldflags", "-s -w", "-o"])
        .arg(&part)
        .arg("helm.sh/helm/v4/cmd/helm")
        .output()
        .context("go")?;
    if !built.status.success() {
        drop(fs::remove_file(&part));
        return Err(Failure::new(format!("building Helm failed ({}):\n{}", built.status, String::from_utf8_lossy(&built.stderr).trim())));
    }
    fs::rename(&part, to).context(to.display())?;
    step.done();
    Ok(())
}
