use super::*;

fn session(spec: BrowserSessionSpec) -> BrowserSession {
    let mut session = BrowserSession::new("s-abc", spec);
    session.metadata.namespace = Some("n".into());
    session.metadata.uid = Some("u".into());
    session
}

fn settings() -> PodSettings {
    PodSettings { image: "browser:1".into(), storage_limit: Some("2Gi".into()), ..PodSettings::default() }
}

fn container(pod: &Pod) -> &Container {
    &pod.spec.as_ref().expect("a spec").containers[0]
}

#[test]
fn it_is_restricted() {
    let pod = build(&session(BrowserSessionSpec::default()), &settings());
    let spec = pod.spec.as_ref().expect("a spec");
    let of_pod = spec.security_context.as_ref().expect("a security context");
    let of_container = container(&pod).security_context.as_ref().expect("a security context");
    assert_eq!((of_pod.run_as_non_root, of_pod.run_as_user), (Some(true), Some(10_001)));
    assert_eq!(of_pod.seccomp_profile.as_ref().map(|profile| profile.type_.as_str()), Some("RuntimeDefault"));
    assert_eq!(of_container.allow_privilege_escalation, Some(false));
    assert_eq!(of_container.read_only_root_filesystem, Some(true));
    assert_eq!(of_container.capabilities.as_ref().and_then(|c| c.drop.clone()), Some(vec!["ALL".to_owned()]));
    assert_eq!((spec.automount_service_account_token, spec.restart_policy.as_deref()), (Some(false), Some("Never")));
}

#[test]
fn why_it_ended_is_told_by_the_browser_alone_and_never_by_its_log() {
    // What is there goes into the agent's answer, and a log is not for agents.
    let pod = build(&session(BrowserSessionSpec::default()), &settings());
    for container in pod.spec.into_iter().flat_map(|spec| spec.containers) {
        assert!(container.termination_message_policy.is_none_or(|policy| policy == "File"), "{}", container.name);
    }
}

#[test]
fn it_goes_with_its_session() {
    let pod = build(&session(BrowserSessionSpec::default()), &settings());
    let owners = pod.owner_references();
    assert_eq!((owners.len(), owners[0].uid.as_str(), owners[0].controller), (1, "u", Some(true)));
    assert_eq!(super::super::session_of(&pod), Some("s-abc"));
    assert_eq!((pod.metadata.name.as_deref(), pod.metadata.namespace.as_deref()), (Some("s-abc"), Some("n")));
}

#[test]
fn a_value_never_becomes_a_flag() {
    let spec = BrowserSessionSpec {
        browser: Browser::HeadlessShell,
        locale: Some("--allow-no-sandbox".into()),
        start_url: Some("https://example.test/?a=b".into()),
        viewport: Some(Viewport { width: 9999, height: 1 }),
        runtime_class_name: Some("gvisor".into()),
        ..BrowserSessionSpec::default()
    };
    let pod = build(&session(spec), &settings());
    assert_eq!(
        container(&pod).args.as_deref().unwrap_or_default(),
        [
            "browser",
            "--flavour=HeadlessShell",
            "--start-url=https://example.test/?a=b",
            "--width=2560",
            "--height=240",
            "--locale=--allow-no-sandbox",
            "--sandbox-tier=Runtime",
        ]
    );
}

#[test]
fn resources_are_the_flavours_unless_they_are_named() {
    let quantity = |pod: &Pod, of: fn(&ResourceRequirements) -> Option<&BTreeMap<String, Quantity>>, what: &str| {
        container(pod).resources.as_ref().and_then(of).and_then(|map| map.get(what)).map(|q| q.0.clone())
    };
    let chromium = build(&session(BrowserSessionSpec::default()), &settings());
    assert_eq!(quantity(&chromium, |r| r.requests.as_ref(), "memory").as_deref(), Some("512Mi"));
    assert_eq!(quantity(&chromium, |r| r.limits.as_ref(), "cpu").as_deref(), Some("2"));
    let named = Resources { memory_limit: Some("3Gi".into()), ..Resources::default() };
    let shell = BrowserSessionSpec { browser: Browser::HeadlessShell, resources: Some(named), ..BrowserSessionSpec::default() };
    let shell = build(&session(shell), &settings());
    assert_eq!(quantity(&shell, |r| r.requests.as_ref(), "memory").as_deref(), Some("300Mi"));
    assert_eq!(quantity(&shell, |r| r.limits.as_ref(), "memory").as_deref(), Some("3Gi"));
}

#[test]
fn a_profile_of_the_nodes_is_used_where_there_is_one() {
    let own = PodSettings { seccomp_profile: Some("beckon/chromium.json".into()), allow_no_sandbox: true, ..settings() };
    let pod = build(&session(BrowserSessionSpec::default()), &own);
    let profile = pod.spec.as_ref().and_then(|spec| spec.security_context.as_ref()?.seccomp_profile.clone());
    assert_eq!(
        profile.as_ref().map(|p| (p.type_.as_str(), p.localhost_profile.as_deref())),
        Some(("Localhost", Some("beckon/chromium.json")))
    );
    assert!(container(&pod).args.as_ref().is_some_and(|args| args.contains(&"--allow-no-sandbox".to_owned())));
}

#[test]
fn the_disk_is_bounded_unless_nobody_wants_that() {
    let storage = |settings: &PodSettings| {
        let pod = build(&session(BrowserSessionSpec::default()), settings);
        let resources = container(&pod).resources.clone().unwrap_or_default();
        let of = |map: Option<BTreeMap<String, Quantity>>| map.unwrap_or_default().get("ephemeral-storage").map(|q| q.0.clone());
        let tmp = pod.spec.and_then(|spec| spec.volumes?.into_iter().find(|volume| volume.name == "tmp")?.empty_dir?.size_limit);
        (of(resources.requests), of(resources.limits), tmp.map(|q| q.0))
    };
    let some = |text: &str| Some(text.to_owned());
    let both = PodSettings { storage_request: some("1Gi"), storage_limit: some("3Gi"), ..settings() };
    assert_eq!(storage(&both), (some("1Gi"), some("3Gi"), some("3Gi")));
    assert_eq!(storage(&PodSettings::default()), (None, None, None));
}
