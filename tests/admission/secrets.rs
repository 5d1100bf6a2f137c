//! What Beckon's own accounts may write as a Secret, whatever RBAC gives them.

use crate::support::eventually;
use crate::world::{Reply, Who, World, controller, fine, gateway, refused, reply};
use beckon::api::v1alpha1::{BrowserSession, BrowserSessionSpec};
use beckon::controller::browser_session::build;
use beckon::gateway::keys::{Keys, SECRET};
use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt as _;
use kube::api::{Api, ApiResource, DynamicObject, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

/// Where the gateway may create Secrets by its own role.
const SYSTEM: &str = "beckon-system";
/// Holds every right to Secrets in the test's namespace.
const WRITERS: &str = "test:secret-writers";

async fn world() -> World {
    let w = World::stamped().await;
    w.bind(WRITERS, "edit").await;
    eventually("the policy is in force", async || create(&w, &gateway(), SYSTEM, token("x")).await.is_err_and(|e| e.code == 403)).await;
    w
}

fn secrets(w: &World, who: &Who, namespace: &str) -> Api<DynamicObject> {
    Api::namespaced_with(w.client(who), namespace, &ApiResource::erase::<Secret>(&()))
}

/// A dry run, since others look for some of these names.
async fn create(w: &World, who: &Who, namespace: &str, secret: Value) -> Reply {
    let secret = serde_json::from_value(secret).expect("a Secret");
    reply(secrets(w, who, namespace).create(&PostParams { dry_run: true, ..PostParams::default() }, &secret).await)
}

fn of_type(name: &str, kind: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "type": kind, "stringData": {"k": "v"}})
}

/// The control plane would fill it with a token of the controller's account.
fn token(name: &str) -> Value {
    let mut secret = of_type(name, "kubernetes.io/service-account-token");
    secret["metadata"]["annotations"] = json!({"kubernetes.io/service-account.name": "beckon-controller"});
    secret
}

#[tokio::test]
async fn neither_account_gets_a_token_of_another_account() {
    let w = world().await;
    let says = |who: &Who, kind: &str| format!("{} writes Secrets of type Opaque only, not {kind}", who.name);
    let kind = "kubernetes.io/service-account-token";
    // By their own roles: the gateway beside the controller's account, the controller anywhere.
    for (who, name) in [(gateway(), SECRET), (gateway(), "x"), (controller(), "s-1-driver"), (controller(), "x")] {
        refused(create(&w, &who, SYSTEM, token(name)).await, 403, &says(&who, kind));
    }
    for who in [gateway(), controller()] {
        let who = who.group(WRITERS);
        for secret in [token("x"), of_type("x", "bootstrap.kubernetes.io/token"), of_type("x", "example.com/any")] {
            let kind = secret["type"].as_str().expect("a type").to_owned();
            refused(create(&w, &who, &w.namespace, secret).await, 403, &says(&who, &kind));
        }
    }
}

#[tokio::test]
async fn what_they_really_write_is_taken() {
    let w = world().await;
    // Where there are none it makes them, and reads them the next time.
    let made = Keys::load(w.client(&gateway().group(WRITERS)), &w.namespace).await.expect("the gateway's keys");
    let read = Keys::load(w.client(&gateway().group(WRITERS)), &w.namespace).await.expect("the keys");
    assert!(made.cookie == read.cookie && made.names == read.names);

    let mut session = BrowserSession::new("s-1", BrowserSessionSpec::default());
    session.metadata.uid = Some("00000000-0000-4000-8000-000000000000".into());
    let mut secret = build::secret::build(&session).expect("a Secret");
    secret.metadata.namespace = Some(w.namespace.clone());
    let taken = create(&w, &controller(), &w.namespace, serde_json::to_value(&secret).expect("JSON")).await;
    assert_eq!(fine(taken)["metadata"]["name"], secret.name_any());
}

#[tokio::test]
async fn no_other_name_and_no_change_to_another_secret() {
    let w = world().await;
    let all = Who::new("sue").group(WRITERS);
    let api = secrets(&w, &all, &w.namespace);
    let passwords = serde_json::from_value(of_type("passwords", "Opaque")).expect("a Secret");
    api.create(&PostParams::default(), &passwords).await.expect("somebody's Secret");
    for who in [gateway(), controller()] {
        let who = who.group(WRITERS);
        let says = format!("{} writes no Secret of the name passwords", who.name);
        refused(create(&w, &who, &w.namespace, of_type("passwords", "Opaque")).await, 403, &says);
        let patch = Patch::Merge(json!({"stringData": {"k": "other"}}));
        let patched = secrets(&w, &who, &w.namespace).patch("passwords", &PatchParams::default(), &patch).await;
        refused(reply(patched), 403, &says);
    }
    let theirs = of_type("s-1-driver", "Opaque");
    refused(create(&w, &gateway().group(WRITERS), &w.namespace, theirs).await, 403, "writes no Secret of the name s-1-driver");
    refused(
        create(&w, &controller(), &w.namespace, of_type(SECRET, "Opaque")).await,
        403,
        "writes no Secret of the name beckon-gateway-keys",
    );
}

#[tokio::test]
async fn nobody_else_is_affected() {
    let w = world().await;
    let others = [
        Who::new("sue"),
        // The same names elsewhere are other accounts.
        Who::new(&format!("system:serviceaccount:{}:beckon-gateway", w.namespace)),
        Who::new("system:serviceaccount:beckon-system:default"),
    ];
    for who in others.map(|who| who.group(WRITERS)) {
        // Kubernetes itself wants the account to be there.
        let mut secret = token("t");
        secret["metadata"]["annotations"]["kubernetes.io/service-account.name"] = json!("default");
        fine(create(&w, &who, &w.namespace, secret).await);
        fine(create(&w, &who, &w.namespace, of_type("any", "example.com/any")).await);
    }
}
