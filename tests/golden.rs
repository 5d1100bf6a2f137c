//! What is generated is what is committed.

// A test that can't go on has nothing better to do than to stop with a message.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

use beckon::settings::{self, Kind, SETTINGS};
use serde_json::{Value, json};
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

/// Whatever a client sends is bounded: texts, lists, maps and their keys.
#[test]
fn nothing_in_the_definitions_is_unbounded() {
    fn unbounded(node: &Value, path: &str, found: &mut Vec<String>) {
        let has = |key: &str| node.get(key).is_some();
        let bounded = match node["type"].as_str() {
            Some("string") => has("maxLength") || has("enum") || node["format"] == "date-time",
            Some("array") => has("maxItems"),
            Some("integer") => has("format") || has("maximum"),
            Some("boolean") => true,
            Some("object") if has("additionalProperties") => {
                has("maxProperties") && node["x-kubernetes-validations"].to_string().contains("self.all(k, size(k) <= ")
            }
            Some("object") => has("properties") || path == "metadata",
            _ => false,
        };
        if !bounded {
            found.push(path.to_owned());
        }
        for (name, child) in node["properties"].as_object().into_iter().flatten() {
            unbounded(child, format!("{path}.{name}").trim_start_matches('.'), found);
        }
        for (key, step) in [("items", "[]"), ("additionalProperties", "{}")] {
            if let Some(child) = node.get(key) {
                unbounded(child, &format!("{path}.{step}"), found);
            }
        }
    }
    for crd in beckon::api::crds() {
        for version in &crd.spec.versions {
            let mut found = Vec::new();
            unbounded(&serde_json::to_value(&version.schema).unwrap()["openAPIV3Schema"], "", &mut found);
            // The API server's own.
            found.retain(|path| !["apiVersion", "kind", "metadata"].contains(&path.as_str()));
            assert_eq!(found, [""; 0], "{}", crd.spec.names.kind);
        }
    }
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

/// Helm reads nothing outside a chart, so it has copies.
#[test]
fn the_chart_holds_what_config_holds() {
    for folder in ["crds", "config/admission", "config/rbac"] {
        let (from, to) = (repository().join(folder), repository().join("charts/beckon/files").join(folder));
        assert_eq!(files(&from), files(&to), "charts/beckon/files/{folder} is not {folder}; run `cargo xtask generate`");
        for name in files(&from) {
            let same = read(&from.join(&name)) == read(&to.join(&name));
            assert!(same, "charts/beckon/files/{folder}/{name} is not {folder}/{name}; run `cargo xtask generate`");
        }
    }
}

#[test]
fn the_chart_knows_every_setting_and_its_default() {
    let value = |path: &str| -> Value { serde_saphyr::from_str(&read(&repository().join(path))).expect("YAML") };
    let generated = value("charts/beckon/files/settings.yaml");
    let names: Vec<_> = SETTINGS
        .iter()
        .filter(|setting| setting.in_chart())
        .map(
            |s| json!({"key": s.key, "flag": s.flag, "roles": s.roles.iter().map(|r| format!("{r:?}").to_lowercase()).collect::<Vec<_>>()}),
        )
        .collect();
    assert_eq!(generated, json!({"settings": names}), "charts/beckon/files/settings.yaml; run `cargo xtask generate`");

    let values = value("charts/beckon/values.yaml");
    assert!(values.get("transport").is_none(), "a pod has no standard input that a client could speak on");
    for setting in SETTINGS.iter().filter(|setting| setting.in_chart()) {
        let given = values.pointer(&format!("/{}", setting.key.replace('.', "/")));
        let given = given.unwrap_or_else(|| panic!("values.yaml has no {}", setting.key));
        let same = match setting.kind {
            Kind::Seconds { .. } => given.as_u64() == settings::seconds(setting.default).ok(),
            Kind::Count => given.as_u64().map(|n| n.to_string()).as_deref() == Some(setting.default),
            Kind::Switch => given.as_bool().map(|b| b.to_string()).as_deref() == Some(setting.default),
            // An explicit `attention` forbids to switch the dashboard off.
            Kind::Word(_) => given == setting.default || (setting.key == "attention.captcha" && given == ""),
        };
        assert!(same, "values.yaml says {given} for {}, whose default is {}", setting.key, setting.default);
    }
}
