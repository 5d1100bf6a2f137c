//! The chart: what it renders for some installations, that a real API server takes every object, and that bad values are
//! refused by name.

// A test that can't go on has nothing better to do than to stop with a message.
// What the modules here share is reached by nothing else.
#![allow(unreachable_pub)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod support;

use std::path::Path;
use std::process::Command;
use std::{env, fs};
use support::{ControlPlane, Options, helm, succeeded};

/// Helm knows from a cluster whether stamping is served; without one it has to be told.
const STAMPS: &str = "--api-versions=admissionregistration.k8s.io/v1/MutatingAdmissionPolicy";

/// Name of the golden file, release, namespace, arguments.
const CASES: &[(&str, &str, &str, &[&str])] = &[
    ("default", "beckon", "beckon-system", &["--kube-version=1.36.0", STAMPS]),
    ("kubernetes-1.30", "beckon", "beckon-system", &["--kube-version=1.30.0"]),
    (
        "odd-names",
        "a-release-with-a-long-name",
        "tools",
        &[
            "--kube-version=1.36.0",
            STAMPS,
            "--set=nameOverride=attention,commonLabels.team=web,identity.extraKeys={example.com/person}",
            "--set=networkPolicy.browser.namespaces={tools,default}",
            r#"--set-json=networkPolicy.browser.extraEgress=[{"to": [{"ipBlock": {"cidr": "169.254.20.10/32"}}], "ports": [{"port": 53, "protocol": "UDP"}, {"port": 53, "protocol": "TCP"}]}]"#,
        ],
    ),
    (
        "minimal",
        "b",
        "beckon-system",
        &[
            "--kube-version=1.36.0",
            STAMPS,
            "--set=replicas=1,crds.enabled=false,networkPolicy.enabled=false,dashboard.enabled=false,watchNamespace=default",
            "--set=podDisruptionBudget.protectedBrowsers=false",
            "--set=sandbox.seccompProfile=beckon.json,sandbox.allowNone=true,gateway.publicURL=https://beckon.example.com",
            "--set=attention.timeoutSeconds=6h,history.ttlSeconds=31536000,image.digest=sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
        ],
    ),
];

fn repository() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn render((_, release, namespace, args): &(&str, &str, &str, &[&str])) -> String {
    let all = [&["template", release, "charts/beckon", "--namespace", namespace], *args].concat();
    String::from_utf8(succeeded(helm(&all))).expect("UTF-8")
}

#[test]
fn lint_is_content() {
    let said = helm(&["lint", "--strict", "charts/beckon"]);
    assert!(said.status.success(), "{}", String::from_utf8_lossy(&said.stdout));
}

#[test]
fn what_is_rendered_is_what_was_reviewed() {
    for case in CASES {
        let rendered = without_schemas(&render(case));
        let path = repository().join(format!("tests/golden/chart/{}.yaml", case.0));
        if env::var_os("BECKON_UPDATE_GOLDEN").is_some() {
            fs::write(&path, &rendered).expect("the golden file is written");
        }
        let golden = fs::read_to_string(&path).unwrap_or_default();
        let differs = golden.lines().zip(rendered.lines()).position(|(a, b)| a != b).unwrap_or(golden.lines().count());
        assert!(
            golden == rendered,
            "{} differs from line {}; if that is meant, run `BECKON_UPDATE_GOLDEN=1 cargo test --test chart` and review the diff",
            path.display(),
            differs + 1
        );
    }
}

/// Without the schemas of the definitions, which `crds/` holds.
fn without_schemas(rendered: &str) -> String {
    let documents = rendered.split("\n---\n").map(|document| match document.split_once("\nspec:\n") {
        Some((head, _)) if document.contains("kind: CustomResourceDefinition\n") => head,
        _ => document,
    });
    documents.collect::<Vec<_>>().join("\n---\n")
}

#[test]
fn the_definitions_are_whole_and_kept() {
    let rendered = render(&CASES[0]);
    for crd in beckon::api::crds() {
        let text = fs::read_to_string(repository().join(format!("crds/{}_{}.yaml", crd.spec.group, crd.spec.names.plural))).unwrap();
        let (_, spec) = text.split_once("\nspec:\n").expect("a spec");
        assert!(rendered.contains(spec.trim_end()), "{} is not rendered as it is", crd.spec.names.kind);
    }
    assert_eq!(rendered.matches("helm.sh/resource-policy: keep").count(), 2);
    let dropped = succeeded(helm(&["template", "b", "charts/beckon", "--set=crds.keep=false"]));
    assert!(!String::from_utf8_lossy(&dropped).contains("resource-policy"));
}

#[test]
fn nothing_of_another_namespace_is_left() {
    let rendered = render(&CASES[2]);
    assert_eq!(rendered.lines().filter(|line| line.contains("beckon-system")).collect::<Vec<_>>(), [""; 0]);
    assert!(rendered.contains("'system:serviceaccount:tools:beckon-gateway'"));
    assert!(rendered.contains("k in ['example.com/person']") && rendered.contains("- --extra-keys=example.com/person\n"));
}

#[test]
fn every_setting_reaches_the_roles_that_read_it() {
    for setting in beckon::settings::SETTINGS.iter().filter(|setting| setting.in_chart()) {
        let value = match setting.kind {
            beckon::settings::Kind::Seconds { .. } => "1234567s",
            beckon::settings::Kind::Count => "1234567",
            beckon::settings::Kind::Switch => "false",
            beckon::settings::Kind::Word(words) => words[words.len() - 1],
        };
        let rendered = succeeded(helm(&[
            "template",
            "b",
            "charts/beckon",
            "--show-only=templates/deployment.yaml",
            &format!("--set={}={value}", setting.key),
        ]));
        let flag = format!("- --{}={value}\n", setting.flag);
        let found = String::from_utf8_lossy(&rendered).matches(&flag).count();
        assert_eq!(found, setting.roles.len(), "{}", setting.key);
    }
}

/// The roles themselves read the flags, up to the question for help that comes last.
#[test]
fn the_roles_understand_their_flags() {
    for case in CASES {
        let rendered = render(case);
        let deployment = rendered.split("\n---\n").find(|document| document.contains("kind: Deployment\n")).expect("a Deployment");
        let deployment: serde_json::Value = serde_saphyr::from_str(deployment).expect("YAML");
        let containers = deployment["spec"]["template"]["spec"]["containers"].as_array().expect("containers");
        assert_eq!(containers.len(), 2);
        for container in containers {
            let args = container["args"].as_array().expect("arguments").iter().filter_map(|arg| arg.as_str());
            let said = Command::new(env!("CARGO_BIN_EXE_beckon")).args(args).arg("--help").output().expect("beckon runs");
            assert!(said.status.success(), "{}, {}: {}", case.0, container["name"], String::from_utf8_lossy(&said.stderr));
        }
    }
}

#[test]
fn bad_values_are_refused_by_name() {
    for (set, says) in [
        ("attention.timeoutSecond=3", "additional properties 'timeoutSecond' not allowed"),
        ("attention.timeoutSeconds=-1", "at '/attention/timeoutSeconds'"),
        ("attention.timeoutSeconds=6x", "at '/attention/timeoutSeconds'"),
        ("attention.maxPerSession=0", "at '/attention/maxPerSession'"),
        ("live.idleReleaseSeconds=0", "at '/live/idleReleaseSeconds'"),
        ("session.browser=Firefox", "at '/session/browser'"),
        ("image.tga=1", "additional properties 'tga' not allowed"),
        ("transport=stdio", "additional properties 'transport' not allowed"),
        ("browserStorage.limit=2GB", "at '/browserStorage/limit'"),
        ("networkPolicy.browser.namespaces={Team}", "at '/networkPolicy/browser/namespaces/0'"),
        ("networkPolicy.browser.extraEgress={any}", "at '/networkPolicy/browser/extraEgress/0'"),
        ("bogus=1", "additional properties 'bogus' not allowed"),
        ("attention.captcha=attention,dashboard.enabled=false", "attention.captcha is attention and dashboard.enabled is false"),
        ("watchNamespace=a,sessionNamespace=b", "watchNamespace is \"a\" and sessionNamespace \"b\""),
    ] {
        let said = helm(&["template", "b", "charts/beckon", &format!("--set={set}")]);
        let text = String::from_utf8_lossy(&said.stderr);
        assert!(!said.status.success() && text.contains(says), "{set}: {text}");
    }
}

/// The lines that people are told to type, but rendered.
#[test]
fn the_documented_lines_are_understood() {
    let mut seen = 0;
    for page in ["README.md", "docs/platform.md"] {
        let text = fs::read_to_string(repository().join(page)).unwrap().replace("\\\n", "");
        for line in text.lines().filter(|line| line.starts_with("helm install") || line.starts_with("helm upgrade")) {
            let line = line.replace("$REGISTRY", "registry.example.com/beckon");
            let words: Vec<_> = line.split_whitespace().skip(2).collect();
            // What only an upgrade knows.
            let words = words.into_iter().filter(|word| !["--wait", "--reset-then-reuse-values"].contains(word));
            let args: Vec<_> = std::iter::once("template").chain(words).collect();
            let rendered = String::from_utf8(succeeded(helm(&args))).unwrap();
            if line.contains("registry.example.com") {
                assert!(rendered.contains("image: registry.example.com/beckon/beckon:0.1.0"), "{line}");
                assert!(rendered.contains("--browser-image=registry.example.com/beckon/beckon-browser:0.1.0"), "{line}");
            }
            seen += 1;
        }
    }
    assert!(seen >= 4, "{seen} lines");
}

/// A release that keeps its values knows nothing of what a later chart added.
#[test]
fn values_of_an_earlier_chart_are_enough() {
    let nulls = ["attention.timeoutSeconds", "history", "live.ceilingSeconds"].map(|key| format!("--set={key}=null"));
    let args = [&["template", "b", "charts/beckon"], nulls.each_ref().map(String::as_str).as_slice()].concat();
    let rendered = String::from_utf8(succeeded(helm(&args))).unwrap();
    assert!(!rendered.contains("--attentionTimeout") && !rendered.contains("--historyTTL") && !rendered.contains("--ceiling"));
    assert!(rendered.contains("--minAttentionWait=1800"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_real_server_takes_every_object() {
    let plane = ControlPlane::start(&Options { controller_manager: false, policies: false, ..Options::default() });
    let files = tempfile::tempdir().unwrap();
    for namespace in ["beckon-system", "tools"] {
        succeeded(plane.kubectl("admin", &["create", "namespace", namespace]));
        let enforce = "pod-security.kubernetes.io/enforce=restricted";
        succeeded(plane.kubectl("admin", &["label", "namespace", namespace, enforce, "pod-security.kubernetes.io/warn=restricted"]));
    }
    for case in CASES {
        let file = files.path().join(case.0);
        fs::write(&file, render(case)).unwrap();
        let args = ["apply", "--server-side", "--force-conflicts", "--dry-run=server", "--validate=strict", "--output=name", "-f"];
        let said = plane.kubectl("admin", &[args.as_slice(), &[file.to_str().unwrap()]].concat());
        // A pod that is less than restricted is a warning of its Deployment.
        assert_eq!(String::from_utf8_lossy(&said.stderr), "", "{}", case.0);
        let objects = String::from_utf8(succeeded(said)).unwrap().lines().count();
        assert_eq!(objects, render(case).matches("\nkind: ").count(), "{}", case.0);
    }

    // Installed for real: stamping because this server has it, and what people made outlives the release.
    let config = format!("--kubeconfig={}", plane.kubeconfig().display());
    let install = |verb| succeeded(helm(&[verb, "odd", "charts/beckon", "--namespace=tools", "--take-ownership", &config]));
    let names = |kind| String::from_utf8(succeeded(plane.kubectl("admin", &["get", kind, "--output=name"]))).unwrap();
    install("install");
    assert_eq!(names("mutatingadmissionpolicies").lines().count(), 4);
    assert_eq!(names("validatingadmissionpolicies").lines().count(), 5);
    install("upgrade");
    succeeded(helm(&["uninstall", "odd", "--namespace=tools", &config]));
    assert_eq!(names("validatingadmissionpolicies"), "");
    assert_eq!(names("crds").lines().count(), 2);
}
