//! What `config/samples` holds is taken by a real server, and the commands in it do what they say.

use crate::support::succeeded;
use crate::world::{World, controller, fine, pending};
use std::path::{Path, PathBuf};

fn samples() -> Vec<PathBuf> {
    let files = xtask::install::yaml_files(Path::new("config/samples")).unwrap();
    assert!(files.len() >= 4, "{files:?}");
    files
}

/// The `kubectl` lines of a sample's comment, word by word as a shell sees them.
fn commands(sample: &Path) -> Vec<Vec<String>> {
    let text = std::fs::read_to_string(sample).unwrap();
    let lines: Vec<_> = text.lines().filter_map(|line| line.strip_prefix("#   kubectl ")).map(words).collect();
    let created = |line: &Vec<String>| line[0] == "create" && line.iter().any(|word| Path::new(word) == sample);
    if lines.iter().any(created) { lines } else { vec![words(&format!("create -f {}", sample.display()))] }
}

fn words(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    for (quoted, part) in line.split('\'').enumerate().map(|(index, part)| (index % 2 == 1, part)) {
        if quoted {
            words.push(part.to_owned());
        } else {
            words.extend(part.split_whitespace().map(str::to_owned));
        }
    }
    words
}

#[tokio::test]
async fn every_sample_is_taken_and_answered_as_it_says() {
    for sample in samples() {
        let w = World::stamped().await;
        for words in commands(&sample) {
            let creates = words[0] == "create";
            if !creates {
                fine(w.status(&controller(), &words[2], pending()).await);
            }
            let mut args: Vec<&str> = words.iter().map(String::as_str).collect();
            args.extend(["--namespace", &w.namespace]);
            succeeded(w.plane.kubectl(if creates { "agent" } else { "operator" }, &args));
            if !creates {
                let resolution = &w.get(&words[2]).await["spec"]["resolution"];
                assert_eq!((&resolution["outcome"], &resolution["by"]["username"]), (&"Resolved".into(), &"operator".into()));
            }
        }
    }
}

#[tokio::test]
async fn below_1_36_a_sample_needs_a_name() {
    let w = World::checked().await;
    for sample in samples() {
        let said = w.plane.kubectl("agent", &["create", "-f", sample.to_str().unwrap(), "--namespace", &w.namespace]);
        let said = String::from_utf8_lossy(&said.stderr).into_owned();
        assert!(said.contains("say who you are"), "{}: {said}", sample.display());
    }
}
