//! What is generated is what is committed.

use std::fs;
use std::path::{Path, PathBuf};

/// etcd takes 1.5 MiB and a last-applied annotation 256 KiB; far below both, so that every client can apply a definition.
const CRD_LIMIT: usize = 64 * 1024;

fn repository() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}; run `cargo xtask generate`", path.display()))
}

#[test]
fn the_definitions_are_those_of_the_types() {
    let mut names = Vec::new();
    for crd in beckon::api::crds() {
        let name = format!("{}_{}.yaml", crd.spec.group, crd.spec.names.plural);
        let path = repository().join("crds").join(&name);
        let generated = serde_saphyr::to_string(&crd).expect("a definition is YAML");
        assert!(read(&path) == generated, "crds/{name} is not what the types say; run `cargo xtask generate`");
        assert!(generated.len() < CRD_LIMIT, "crds/{name} has {} bytes, more than {CRD_LIMIT}", generated.len());
        names.push(name);
    }
    assert_eq!(files(&repository().join("crds")), names, "crds/ holds a file of no kind");
}

#[test]
fn the_definitions_read_back_as_they_were() {
    for crd in beckon::api::crds() {
        let name = format!("{}_{}.yaml", crd.spec.group, crd.spec.names.plural);
        let text = read(&repository().join("crds").join(&name));
        let back: serde_json::Value = serde_saphyr::from_str(&text).expect("YAML");
        let want = serde_json::to_value(&crd).expect("JSON");
        assert!(back == want, "crds/{name} loses something on the way through YAML");
    }
}

/// The names of the files of a folder, sorted.
fn files(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut names: Vec<_> = entries.map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}
