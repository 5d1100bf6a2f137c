//! Who writes, and how an answer of the API server reads.

use crate::support::{ControlPlane, Options, eventually, unique};
use http::{HeaderName, HeaderValue};
use k8s_openapi::api::authorization::v1::SubjectAccessReview;
use k8s_openapi::api::rbac::v1::{RoleBinding, RoleRef, Subject};
use kube::api::{Api, ApiResource, DynamicObject, ObjectMeta, Patch, PatchParams, PostParams};
use kube::core::GroupVersionKind;
use kube::{Client, Config};
use serde_json::{Value, json};
use std::collections::HashMap;
use std::sync::{Mutex, OnceLock};

/// What the API server said: the object, or why not.
pub type Reply = Result<Value, Refusal>;

/// A refusal as a person reads it.
#[derive(Debug)]
pub struct Refusal {
    pub code: u16,
    pub text: String,
}

/// A user as an authenticator describes one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Who {
    pub name: String,
    groups: Vec<String>,
    uid: Option<String>,
    extra: Vec<(String, String)>,
}

impl Who {
    pub fn new(name: &str) -> Self {
        Self { name: name.into(), ..Self::default() }
    }

    pub fn group(mut self, group: &str) -> Self {
        self.groups.push(group.into());
        self
    }

    pub fn uid(mut self, uid: &str) -> Self {
        self.uid = Some(uid.into());
        self
    }

    pub fn extra(mut self, key: &str, value: &str) -> Self {
        self.extra.push((key.into(), value.into()));
        self
    }

    /// A client of this config's user that acts in this one's name.
    pub fn through(&self, mut config: Config) -> Client {
        config.headers = self.headers();
        Client::try_from(config).expect("a client")
    }

    fn headers(&self) -> Vec<(HeaderName, HeaderValue)> {
        let mut headers = vec![("impersonate-user".to_owned(), self.name.clone())];
        headers.extend(self.groups.iter().map(|group| ("impersonate-group".to_owned(), group.clone())));
        headers.extend(self.uid.iter().map(|uid| ("impersonate-uid".to_owned(), uid.clone())));
        headers.extend(self.extra.iter().map(|(key, value)| (format!("impersonate-extra-{}", key.replace('/', "%2f")), value.clone())));
        headers.into_iter().map(|(name, value)| (name.parse().expect("a header"), value.parse().expect("a value"))).collect()
    }
}

/// The agent that asks, unless a test says otherwise.
pub fn agent() -> Who {
    Who::new("crawler").group("beckon:agents").uid("uid-of-crawler")
}
pub fn other_agent() -> Who {
    Who::new("indexer").group("beckon:agents")
}
pub fn operator() -> Who {
    Who::new("olga").group("beckon:operators").uid("uid-of-olga")
}
/// Without a uid, as certificates and most OIDC providers have it.
pub fn other_operator() -> Who {
    Who::new("otto").group("beckon:operators")
}
pub fn viewer() -> Who {
    Who::new("vera").group("beckon:viewers")
}
/// Holds beckon-administrator in the test's namespace.
pub fn administrator() -> Who {
    Who::new("ada").group("test:administrators")
}
pub fn cluster_admin() -> Who {
    Who::new("root").group("system:masters")
}
pub fn gateway() -> Who {
    account("beckon-gateway")
}
pub fn controller() -> Who {
    account("beckon-controller")
}
fn account(name: &str) -> Who {
    Who::new(&format!("system:serviceaccount:beckon-system:{name}")).group("system:serviceaccounts").group("system:authenticated")
}

/// One namespace of one control plane.
pub struct World {
    pub plane: &'static ControlPlane,
    pub namespace: String,
    /// Whether the server fills in who writes, as those from 1.36 on do.
    pub stamps: bool,
    config: Config,
    clients: Mutex<HashMap<Who, Client>>,
}

impl World {
    /// A server of today. With `KUBEBUILDER_ASSETS` of an older one it stamps nothing, and the tests that ask
    /// [`World::stamps`] hold it to that.
    pub async fn stamped() -> Self {
        let plane = ControlPlane::shared();
        Self::of(plane, plane.stamps()).await
    }

    /// A server as before 1.36: no stamping, and names are checked.
    pub async fn checked() -> Self {
        static OLD: OnceLock<ControlPlane> = OnceLock::new();
        let options = Options { mutating_policies: false, ..Options::default() };
        Self::of(OLD.get_or_init(|| ControlPlane::start(&options)), false).await
    }

    /// A namespace of this plane, when its policies work.
    pub async fn of(plane: &'static ControlPlane, stamps: bool) -> Self {
        let namespace = plane.namespace("admission").await;
        let world = Self { plane, namespace, stamps, config: plane.config("admin").await, clients: Mutex::default() };
        world.bind("test:administrators", "beckon-administrator").await;
        eventually("the policies are in force", || async {
            let canary = json!({"mode": "Notify", "reason": "canary", "requester": {"username": "canary-forged"}});
            let told = world.dry_create(&controller(), "beckon-policy-canary", canary).await;
            let session = json!({"metadata": {"finalizers": ["example.com/x"]}, "spec": {"owner": {"username": agent().name}}});
            let held = world.dry_create_session(&agent(), session).await;
            told.is_err_and(|e| e.code == 403 && e.text.contains(&format!("beckon-policy/1 stamped={stamps}")))
                && held.is_err_and(|e| e.code == 403)
        })
        .await;
        world
    }

    /// Gives a group a cluster role in this namespace, and waits until it counts.
    pub async fn bind(&self, group: &str, role: &str) {
        let binding = RoleBinding {
            metadata: ObjectMeta { name: Some(unique(role)), ..ObjectMeta::default() },
            role_ref: RoleRef { api_group: "rbac.authorization.k8s.io".into(), kind: "ClusterRole".into(), name: role.into() },
            subjects: Some(vec![Subject { kind: "Group".into(), name: group.into(), ..Subject::default() }]),
        };
        let api: Api<RoleBinding> = Api::namespaced(self.plane.admin().await, &self.namespace);
        api.create(&PostParams::default(), &binding).await.expect("a role binding");
        let who = Who::new("anyone").group(group);
        let known = async || self.may(&who, "list", "beckon.dev/browsersessions").await || self.may(&who, "get", "/pods").await;
        eventually("the role binding counts", known).await;
    }

    /// Whether RBAC lets this user do this to `group/resource[/subresource]` in this namespace.
    pub async fn may(&self, who: &Who, verb: &str, resource: &str) -> bool {
        let mut parts = resource.split('/');
        let mut next = || parts.next().map(str::to_owned);
        let review = json!({
            "apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "metadata": {},
            "spec": {"user": who.name, "groups": who.groups, "resourceAttributes":
                {"namespace": self.namespace, "verb": verb, "group": next(), "resource": next(), "subresource": next().unwrap_or_default()}},
        });
        let review: SubjectAccessReview = serde_json::from_value(review).expect("a review");
        let api: Api<SubjectAccessReview> = Api::all(self.client(&cluster_admin()));
        api.create(&PostParams::default(), &review).await.expect("a review").status.is_some_and(|status| status.allowed)
    }

    pub fn client(&self, who: &Who) -> Client {
        let mut clients = self.clients.lock().expect("no test panics here");
        clients.entry(who.clone()).or_insert_with(|| who.through(self.config.clone())).clone()
    }

    pub fn requests(&self, who: &Who) -> Api<DynamicObject> {
        api(self.client(who), &self.namespace, "AttentionRequest")
    }

    pub fn sessions(&self, who: &Who) -> Api<DynamicObject> {
        api(self.client(who), &self.namespace, "BrowserSession")
    }

    /// Creates a request under a new name; `requester` is filled in where the server doesn't, unless it is given.
    pub async fn create(&self, who: &Who, spec: Value) -> Reply {
        self.create_object(who, json!({"spec": spec})).await
    }

    pub async fn create_object(&self, who: &Who, object: Value) -> Reply {
        let object = self.object("AttentionRequest", "requester", who, object);
        reply(self.requests(who).create(&PostParams::default(), &object).await)
    }

    pub async fn dry_create(&self, who: &Who, name: &str, spec: Value) -> Reply {
        let object = self.object("AttentionRequest", "requester", who, json!({"metadata": {"name": name}, "spec": spec}));
        reply(self.requests(who).create(&PostParams { dry_run: true, ..PostParams::default() }, &object).await)
    }

    pub async fn create_session(&self, who: &Who, object: Value) -> Reply {
        let object = self.object("BrowserSession", "owner", who, object);
        reply(self.sessions(who).create(&PostParams::default(), &object).await)
    }

    async fn dry_create_session(&self, who: &Who, object: Value) -> Reply {
        let object = self.object("BrowserSession", "owner", who, object);
        reply(self.sessions(who).create(&PostParams { dry_run: true, ..PostParams::default() }, &object).await)
    }

    fn object(&self, kind: &str, principal: &str, who: &Who, mut object: Value) -> DynamicObject {
        object["apiVersion"] = json!("beckon.dev/v1alpha1");
        object["kind"] = json!(kind);
        if object["metadata"]["name"].is_null() {
            object["metadata"]["name"] = json!(unique("a"));
        }
        if !self.stamps && object["spec"][principal].is_null() {
            object["spec"][principal] = json!({"username": who.name});
        }
        serde_json::from_value(object).expect("an object")
    }

    /// Merges into `spec` of a request; `by` is filled in where the server doesn't, unless it is given.
    pub async fn write(&self, who: &Who, name: &str, spec: Value) -> Reply {
        self.merge(who, name, json!({"spec": self.signed(who, spec)})).await
    }

    /// Merges into a request what is given, and nothing else.
    pub async fn merge(&self, who: &Who, name: &str, patch: Value) -> Reply {
        reply(self.requests(who).patch(name, &PatchParams::default(), &Patch::Merge(&patch)).await)
    }

    pub async fn dry_write(&self, who: &Who, name: &str, spec: Value) -> Reply {
        let patch = json!({"spec": self.signed(who, spec)});
        reply(self.requests(who).patch(name, &PatchParams::default().dry_run(), &Patch::Merge(&patch)).await)
    }

    pub async fn status(&self, who: &Who, name: &str, status: Value) -> Reply {
        let patch = json!({"status": status});
        reply(self.requests(who).patch_status(name, &PatchParams::default(), &Patch::Merge(&patch)).await)
    }

    pub async fn dry_status(&self, who: &Who, name: &str, status: Value) -> Reply {
        let patch = json!({"status": status});
        reply(self.requests(who).patch_status(name, &PatchParams::default().dry_run(), &Patch::Merge(&patch)).await)
    }

    pub async fn get(&self, name: &str) -> Value {
        fine(reply(self.requests(&cluster_admin()).get(name).await))
    }

    /// A request of the agent that the controller has taken in.
    pub async fn open(&self, spec: Value) -> String {
        let name = self.created(spec).await;
        fine(self.status(&controller(), &name, pending()).await);
        name
    }

    /// A request of the agent that the controller has not seen.
    pub async fn created(&self, spec: Value) -> String {
        fine(self.create(&agent(), spec).await)["metadata"]["name"].as_str().expect("a name").to_owned()
    }

    /// A request as only the gateway opens one.
    pub async fn open_by_gateway(&self, mut spec: Value) -> String {
        spec["requester"] = json!({"username": agent().name});
        let name = fine(self.create(&gateway(), spec).await)["metadata"]["name"].as_str().expect("a name").to_owned();
        fine(self.status(&controller(), &name, pending()).await);
        name
    }

    fn signed(&self, who: &Who, mut spec: Value) -> Value {
        if self.stamps {
            return spec;
        }
        for field in ["resolution", "completion", "cancel", "claim", "ack", "close"] {
            if spec[field].is_object() && spec[field]["by"].is_null() {
                spec[field]["by"] = json!({"username": who.name});
            }
        }
        for field in ["extensions", "retargets"] {
            if let Some(last) = spec[field].as_array_mut().and_then(|list| list.last_mut())
                && last["by"].is_null()
            {
                last["by"] = json!({"username": who.name});
            }
        }
        if let Some(fields) = spec.as_object_mut() {
            // Looking at a field by index made it.
            fields.retain(|_, value| value != &Value::Null);
        }
        spec
    }
}

/// What the controller says of a request that it takes in.
pub fn pending() -> Value {
    json!({"phase": "Pending", "openedAt": "2026-01-01T00:00:00Z", "deadline": "2026-01-01T06:00:00Z"})
}

/// A request that asks for nothing in particular.
pub fn plain() -> Value {
    json!({"mode": "Notify", "reason": "a look, please"})
}

/// A request of this type.
pub fn ask(kind: &str) -> Value {
    if kind == "Takeover" {
        return json!({"mode": "Takeover", "sessionRef": {"name": "s"}, "ask": {"type": kind}, "reason": "take over, please"});
    }
    json!({"mode": "Notify", "ask": {"type": kind}, "reason": "an answer, please"})
}

fn api(client: Client, namespace: &str, kind: &str) -> Api<DynamicObject> {
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk("beckon.dev", "v1alpha1", kind));
    Api::namespaced_with(client, namespace, &resource)
}

pub fn reply(result: kube::Result<DynamicObject>) -> Reply {
    match result {
        Ok(object) => Ok(serde_json::to_value(object).expect("JSON")),
        Err(kube::Error::Api(status)) => Err(Refusal { code: status.code, text: status.message.clone() }),
        Err(other) => panic!("no answer: {other}"),
    }
}

/// The object, or the test ends with what was said.
#[track_caller]
pub fn fine(reply: Reply) -> Value {
    match reply {
        Ok(object) => object,
        Err(refusal) => panic!("refused: {} {}", refusal.code, refusal.text),
    }
}

/// Refused with this code and a text that holds this.
#[track_caller]
pub fn refused(reply: Reply, code: u16, says: &str) {
    match reply {
        Ok(object) => panic!("let through, not {code} {says:?}: {}", object["spec"]),
        Err(refusal) => assert!(refusal.code == code && refusal.text.contains(says), "not {code} {says:?} but {refusal:?}"),
    }
}
