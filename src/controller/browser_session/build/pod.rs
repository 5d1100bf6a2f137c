//! The pod of a session: one browser, no privileges, no token of the API server.

use super::{BROWSER, SESSION, owner, pod_name, secret_name};
use crate::api::v1alpha1::{Browser, BrowserSession, BrowserSessionSpec, Resources, Toleration, Viewport};
use crate::controller::settings::PodSettings;
use crate::driver::{HEALTH_PATH, PORT};
use k8s_openapi::api::core::v1::{
    Capabilities, Container, ContainerPort, EmptyDirVolumeSource, EnvVar, EnvVarSource, HTTPGetAction, ObjectFieldSelector, Pod,
    PodSecurityContext, PodSpec, Probe, ResourceRequirements, SeccompProfile, SecretVolumeSource, SecurityContext, Volume, VolumeMount,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::ResourceExt as _;
use std::collections::BTreeMap;

/// The user and the group of the browser.
const UID: i64 = 10_001;
/// Where the driver reads its Secret.
const SECRET_DIR: &str = "/etc/beckon/driver";
/// How long an orderly end may take, in seconds.
const GRACE_SECONDS: i64 = 10;

/// The pod.
#[must_use]
pub fn build(session: &BrowserSession, settings: &PodSettings) -> Pod {
    let spec = &session.spec;
    Pod {
        metadata: ObjectMeta {
            name: Some(pod_name(session)),
            namespace: session.namespace(),
            labels: Some(BTreeMap::from([
                (SESSION.to_owned(), session.name_any()),
                ("app.kubernetes.io/name".to_owned(), "beckon-browser".to_owned()),
                ("app.kubernetes.io/managed-by".to_owned(), "beckon".to_owned()),
            ])),
            owner_references: Some(owner(session)),
            ..ObjectMeta::default()
        },
        spec: Some(PodSpec {
            containers: vec![browser(session, settings)],
            restart_policy: Some("Never".into()),
            termination_grace_period_seconds: Some(GRACE_SECONDS),
            automount_service_account_token: Some(false),
            enable_service_links: Some(false),
            service_account_name: spec.service_account_name.clone(),
            node_selector: (!spec.node_selector.is_empty()).then(|| spec.node_selector.clone()),
            tolerations: (!spec.tolerations.is_empty()).then(|| spec.tolerations.iter().map(toleration).collect()),
            runtime_class_name: spec.runtime_class_name.clone(),
            security_context: Some(PodSecurityContext {
                run_as_non_root: Some(true),
                run_as_user: Some(UID),
                run_as_group: Some(UID),
                fs_group: Some(UID),
                seccomp_profile: Some(seccomp(settings)),
                ..PodSecurityContext::default()
            }),
            volumes: Some(vec![
                Volume {
                    name: "tmp".into(),
                    empty_dir: Some(EmptyDirVolumeSource { medium: None, size_limit: settings.storage_limit.clone().map(Quantity) }),
                    ..Volume::default()
                },
                Volume {
                    name: "shm".into(),
                    // The runtime's own 64 MiB are too few for a large page. Counts to the container's memory.
                    empty_dir: Some(EmptyDirVolumeSource { medium: Some("Memory".into()), size_limit: Some(Quantity("512Mi".into())) }),
                    ..Volume::default()
                },
                Volume {
                    name: "driver".into(),
                    secret: Some(SecretVolumeSource {
                        secret_name: Some(secret_name(session)),
                        default_mode: Some(0o440),
                        ..SecretVolumeSource::default()
                    }),
                    ..Volume::default()
                },
            ]),
            ..PodSpec::default()
        }),
        ..Pod::default()
    }
}

fn seccomp(settings: &PodSettings) -> SeccompProfile {
    match &settings.seccomp_profile {
        Some(path) => SeccompProfile { type_: "Localhost".into(), localhost_profile: Some(path.clone()) },
        None => SeccompProfile { type_: "RuntimeDefault".into(), ..SeccompProfile::default() },
    }
}

fn browser(session: &BrowserSession, settings: &PodSettings) -> Container {
    let mount = |name: &str, path: &str, read_only: bool| VolumeMount {
        name: name.into(),
        mount_path: path.into(),
        read_only: read_only.then_some(true),
        ..VolumeMount::default()
    };
    let env = |name: &str, value: &str| EnvVar { name: name.into(), value: Some(value.into()), value_from: None };
    let pod_ip = EnvVarSource {
        field_ref: Some(ObjectFieldSelector { field_path: "status.podIP".into(), ..ObjectFieldSelector::default() }),
        ..EnvVarSource::default()
    };
    Container {
        name: BROWSER.into(),
        image: Some(settings.image.clone()),
        command: Some(vec!["beckon".into()]),
        args: Some(arguments(&session.spec, settings)),
        env: Some(vec![
            EnvVar { name: "POD_IP".into(), value: None, value_from: Some(pod_ip) },
            env("BECKON_SESSION", &session.name_any()),
            env("HOME", "/tmp"),
        ]),
        ports: Some(vec![ContainerPort { name: Some("driver".into()), container_port: i32::from(PORT), ..ContainerPort::default() }]),
        resources: Some(resources(&session.spec, settings)),
        startup_probe: Some(probe(1, 2, 120)),
        readiness_probe: Some(probe(2, 3, 2)),
        // What it kills is gone for good, so a browser that a busy node holds up gets two minutes to go on.
        liveness_probe: Some(probe(10, 5, 12)),
        security_context: Some(SecurityContext {
            allow_privilege_escalation: Some(false),
            read_only_root_filesystem: Some(true),
            run_as_non_root: Some(true),
            capabilities: Some(Capabilities { drop: Some(vec!["ALL".into()]), add: None }),
            ..SecurityContext::default()
        }),
        volume_mounts: Some(vec![mount("tmp", "/tmp", false), mount("shm", "/dev/shm", false), mount("driver", SECRET_DIR, true)]),
        ..Container::default()
    }
}

fn probe(period: i32, timeout: i32, failures: i32) -> Probe {
    Probe {
        http_get: Some(HTTPGetAction {
            path: Some(HEALTH_PATH.into()),
            port: IntOrString::Int(i32::from(PORT)),
            scheme: Some("HTTPS".into()),
            ..HTTPGetAction::default()
        }),
        period_seconds: Some(period),
        timeout_seconds: Some(timeout),
        failure_threshold: Some(failures),
        ..Probe::default()
    }
}

/// The flags of `beckon browser`.
fn arguments(spec: &BrowserSessionSpec, settings: &PodSettings) -> Vec<String> {
    let viewport = clamped(spec.viewport.unwrap_or_default());
    let mut args = vec!["browser".to_owned(), format!("--flavour={}", spec.browser.as_str())];
    // One argument each, so that a value can't become a flag.
    let mut flag = |name: &str, value: Option<String>| args.extend(value.map(|value| format!("--{name}={value}")));
    flag("start-url", spec.start_url.clone());
    flag("width", Some(viewport.width.to_string()));
    flag("height", Some(viewport.height.to_string()));
    flag("locale", spec.locale.clone());
    flag("timezone", spec.timezone.clone());
    flag("user-agent", spec.user_agent.clone());
    flag("proxy", spec.proxy.clone());
    if spec.runtime_class_name.is_some() {
        args.push("--sandbox-tier=Runtime".to_owned());
    }
    if settings.allow_no_sandbox {
        args.push("--allow-no-sandbox".to_owned());
    }
    args
}

/// Beyond these bounds the screencast wedges.
fn clamped(viewport: Viewport) -> Viewport {
    Viewport { width: viewport.width.clamp(320, 2560), height: viewport.height.clamp(240, 1600) }
}

fn resources(spec: &BrowserSessionSpec, settings: &PodSettings) -> ResourceRequirements {
    let Resources { cpu_request, cpu_limit, memory_request, memory_limit } = spec.resources.clone().unwrap_or_default();
    let (cpu, memory) = match spec.browser {
        Browser::Chromium => (("500m", "2"), ("512Mi", "1536Mi")),
        Browser::HeadlessShell => (("250m", "2"), ("300Mi", "1Gi")),
    };
    let map = |cpu: String, memory: String, storage: &Option<String>| {
        let storage = storage.clone().map(|size| ("ephemeral-storage", size));
        let all = [("cpu", cpu), ("memory", memory)].into_iter().chain(storage);
        Some(all.map(|(name, quantity)| (name.to_owned(), Quantity(quantity))).collect())
    };
    let or = |named: Option<String>, flavours: &str| named.unwrap_or_else(|| flavours.to_owned());
    ResourceRequirements {
        requests: map(or(cpu_request, cpu.0), or(memory_request, memory.0), &settings.storage_request),
        limits: map(or(cpu_limit, cpu.1), or(memory_limit, memory.1), &settings.storage_limit),
        ..ResourceRequirements::default()
    }
}

fn toleration(wanted: &Toleration) -> k8s_openapi::api::core::v1::Toleration {
    k8s_openapi::api::core::v1::Toleration {
        key: wanted.key.clone(),
        operator: wanted.operator.map(|operator| operator.as_str().to_owned()),
        value: wanted.value.clone(),
        effect: wanted.effect.map(|effect| effect.as_str().to_owned()),
        toleration_seconds: wanted.toleration_seconds,
    }
}

#[cfg(test)]
#[path = "pod_tests.rs"]
mod tests;
