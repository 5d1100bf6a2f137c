//! Writes what is generated: `crds/` from the types, and the chart's copies, since Helm reads nothing outside a chart.

use crate::cargo;
use crate::failure::{Context as _, Failure, Result};
use crate::files::repository;
use crate::settings::SETTINGS;
use clap::Args;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// Write what is generated.
#[derive(Args, Clone, Debug)]
pub struct GenerateArgs {
    /// Change nothing; fail when what is committed is not what would be generated
    #[arg(long)]
    pub check: bool,
}

/// Generates, or checks.
pub fn run(args: &GenerateArgs) -> Result<()> {
    let root = repository();
    if !args.check {
        return generate(&root);
    }
    let kept = snapshot(&root)?;
    let generated = generate(&root).and_then(|()| snapshot(&root));
    restore(&root, &kept)?;
    let generated = generated?;
    let names: BTreeSet<_> = kept.keys().chain(generated.keys()).collect();
    let differ: Vec<_> =
        names.into_iter().filter(|name| kept.get(*name) != generated.get(*name)).map(|name| name.display().to_string()).collect();
    if differ.is_empty() {
        return Ok(());
    }
    Err(Failure::new(format!("not as generated; run `cargo xtask generate`:\n  {}", differ.join("\n  "))))
}

/// The folders that hold nothing but what is generated.
const GENERATED: &[&str] = &["crds", "charts/beckon/files"];

type Files = BTreeMap<PathBuf, Vec<u8>>;

fn snapshot(root: &Path) -> Result<Files> {
    let mut files = Files::new();
    let mut folders: Vec<PathBuf> = GENERATED.iter().map(|folder| root.join(folder)).filter(|folder| folder.is_dir()).collect();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).context(folder.display())? {
            let path = entry.context(folder.display())?.path();
            if path.is_dir() {
                folders.push(path);
            } else {
                let bytes = fs::read(&path).context(path.display())?;
                files.insert(path.strip_prefix(root).unwrap_or(&path).to_owned(), bytes);
            }
        }
    }
    Ok(files)
}

fn restore(root: &Path, files: &Files) -> Result<()> {
    for folder in GENERATED {
        empty(&root.join(folder))?;
    }
    for (name, bytes) in files {
        let path = root.join(name);
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder).context(folder.display())?;
        }
        fs::write(&path, bytes).context(path.display())?;
    }
    Ok(())
}

/// Generates everything below `root`, the repository.
pub fn generate(root: &Path) -> Result<()> {
    let mut print = cargo::command();
    let printed = print.args(["run", "--quiet", "--bin", "beckon", "--", "crds"]).current_dir(root).output().context("beckon crds")?;
    if !printed.status.success() {
        return Err(Failure::new(format!("beckon crds: {}", String::from_utf8_lossy(&printed.stderr).trim())));
    }
    definitions(&root.join("crds"), &String::from_utf8_lossy(&printed.stdout))?;
    let files = root.join("charts/beckon/files");
    for folder in ["crds", "config/admission", "config/rbac"] {
        copy(&root.join(folder), &files.join(folder))?;
    }
    let settings = files.join("settings.yaml");
    fs::write(&settings, settings_file()).context(settings.display())
}

/// One file for each definition, named as controller-gen does: group, underscore, plural.
fn definitions(folder: &Path, text: &str) -> Result<()> {
    empty(folder)?;
    for document in text.split("---\n").filter(|document| !document.trim().is_empty()) {
        let name = document.lines().find_map(|line| line.strip_prefix("  name: ")).unwrap_or_default();
        let (plural, group) = name.split_once('.').context("a definition without a name")?;
        let file = folder.join(format!("{group}_{plural}.yaml"));
        fs::write(&file, document).context(file.display())?;
    }
    Ok(())
}

/// The names of the settings, for the chart's arguments.
fn settings_file() -> String {
    let lines = SETTINGS.iter().filter(|setting| setting.in_chart()).map(|setting| {
        let roles: Vec<_> = setting.roles.iter().map(|role| format!("{role:?}").to_lowercase()).collect();
        format!("- {{key: {}, flag: {}, roles: [{}]}}\n", setting.key, setting.flag, roles.join(", "))
    });
    format!("# Generated from src/settings.rs by `cargo xtask generate`.\nsettings:\n{}", lines.collect::<String>())
}

/// Makes `to` hold the files of `from`, and no others.
fn copy(from: &Path, to: &Path) -> Result<()> {
    empty(to)?;
    for entry in fs::read_dir(from).context(from.display())? {
        let entry = entry.context(from.display())?;
        fs::copy(entry.path(), to.join(entry.file_name())).context(entry.path().display())?;
    }
    Ok(())
}

fn empty(folder: &Path) -> Result<()> {
    if folder.exists() {
        fs::remove_dir_all(folder).context(folder.display())?;
    }
    fs::create_dir_all(folder).context(folder.display())
}
