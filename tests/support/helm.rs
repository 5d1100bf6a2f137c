//! Helm, as the suites use it.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

/// Runs Helm in the repository, with a home of its own and no cluster but the one that `args` name.
pub fn helm(args: &[&str]) -> Output {
    static HELM: OnceLock<PathBuf> = OnceLock::new();
    let helm = HELM.get_or_init(|| xtask::helm::find_or_build().expect("Helm"));
    let repository = Path::new(env!("CARGO_MANIFEST_DIR"));
    let home = repository.join("target/helm");
    let dirs = ["HELM_CACHE_HOME", "HELM_CONFIG_HOME", "HELM_DATA_HOME"].map(|name| (name, &home));
    Command::new(helm).args(args).envs(dirs).env_remove("KUBECONFIG").current_dir(repository).output().expect("Helm runs")
}
