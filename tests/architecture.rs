//! The map of rooms in docs/architecture.md, held to: which part of the crate may know which, and how large a file may be.

#![allow(clippy::expect_used, clippy::panic)]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Each room of `src`, and the rooms that it may know.
const ROOMS: &[(&str, &[&str])] = &[
    ("api", &[]),
    ("domain", &["api", "driver"]),
    ("driver", &["api"]),
    ("runtime", &[]),
    ("settings", &[]),
    ("k8s", &["api", "domain", "runtime"]),
    ("controller", &["api", "domain", "driver", "k8s", "runtime", "settings"]),
    ("gateway", &["api", "domain", "driver", "k8s", "runtime", "settings"]),
    ("browser", &["api", "domain", "driver", "runtime"]),
    ("plugin", &["api", "cli", "domain", "k8s", "runtime", "settings"]),
    ("cli", &["api", "browser", "controller", "gateway", "plugin"]),
];

/// No file is longer; most are a third of it.
const LINES: usize = 500;

#[test]
fn rooms_know_only_what_the_map_allows() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut seen = BTreeSet::new();
    let mut wrong = Vec::new();
    for file in rust_files(&source) {
        let room = file.strip_prefix(&source).expect("a file of src").components().next().expect("a room").as_os_str();
        let room = room.to_string_lossy().trim_end_matches(".rs").to_owned();
        if matches!(room.as_str(), "lib" | "main") {
            continue;
        }
        let Some((_, allowed)) = ROOMS.iter().find(|(name, _)| *name == room) else { panic!("src/{room} is not on the map") };
        seen.insert(room.clone());
        let text = std::fs::read_to_string(&file).expect("a source file");
        for known in known(&text).into_iter().filter(|known| *known != room && !allowed.contains(&known.as_str())) {
            wrong.push(format!("{} knows {known}", file.display()));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert_eq!(seen.len(), ROOMS.len(), "a room of the map is gone: {seen:?}");
}

#[test]
fn what_a_file_knows_is_read_from_its_paths() {
    let text = "use crate::{api::v1alpha1::Principal, domain::{caps, deadline}};\nuse crate::{cli, settings};\nuse crate::k8s::apply;\nlet x = crate::runtime::clock::now();";
    let want = ["api", "cli", "domain", "k8s", "runtime", "settings"].map(str::to_owned);
    assert_eq!(known(text), BTreeSet::from(want));
}

#[test]
fn no_file_is_too_long() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let files = ["src", "xtask/src", "tests"].into_iter().flat_map(|folder| rust_files(&root.join(folder)));
    let long: Vec<String> = files
        .map(|file| (std::fs::read_to_string(&file).expect("a source file").lines().count(), file))
        .filter(|(lines, _)| *lines > LINES)
        .map(|(lines, file)| format!("{}: {lines} lines", file.display()))
        .collect();
    assert!(long.is_empty(), "split these: {long:#?}");
}

/// The first name after each `crate::`, also of those in braces.
fn known(text: &str) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for (at, path) in text.match_indices("crate::") {
        let rest = &text[at + path.len()..];
        if let Some(group) = rest.strip_prefix('{') {
            let mut depth = 0_usize;
            let mut first = true;
            let mut name = String::new();
            for letter in group.chars() {
                match letter {
                    '{' => depth += 1,
                    '}' if depth == 0 => break,
                    '}' => depth -= 1,
                    ',' if depth == 0 => {
                        names.insert(std::mem::take(&mut name));
                        first = true;
                    }
                    _ if depth > 0 => {}
                    letter if first && is_name(letter) => name.push(letter),
                    _ if name.is_empty() => {}
                    _ => {
                        names.insert(std::mem::take(&mut name));
                        first = false;
                    }
                }
            }
            names.insert(name);
        } else {
            names.insert(rest.chars().take_while(|letter| is_name(*letter)).collect());
        }
    }
    names.remove("");
    names
}

fn is_name(letter: char) -> bool {
    letter.is_alphanumeric() || letter == '_'
}

fn rust_files(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            files.extend(rust_files(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
    files
}
