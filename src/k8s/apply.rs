//! Writes that change only what differs and only what was seen, and the names they are made under.

use super::client::{CallError, call};
use kube::api::{DeleteParams, Patch, PatchParams, PostParams, Preconditions};
use kube::{Api, Resource, ResourceExt as _};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};
use std::fmt::Debug;

/// The field managers of every write of ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Manager {
    /// The controller.
    Controller,
    /// A gateway's general writes.
    Gateway,
    /// The attachment of a client that polls.
    GatewayPoll,
    /// What a gateway saw of the page of a request.
    GatewayEvidence,
}

impl Manager {
    /// As the API server stores it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Controller => "beckon-controller",
            Self::Gateway => "beckon-gateway",
            Self::GatewayPoll => "beckon-gateway-poll",
            Self::GatewayEvidence => "beckon-gateway-evidence",
        }
    }
}

/// The JSON merge patch that turns `old` into `new`; `None` when they are equal.
#[must_use]
pub fn difference(old: &Value, new: &Value) -> Option<Value> {
    if old == new {
        return None;
    }
    let (Value::Object(old), Value::Object(new)) = (old, new) else { return Some(new.clone()) };
    let mut patch = Map::new();
    for (key, value) in new {
        match old.get(key) {
            None => drop(patch.insert(key.clone(), value.clone())),
            Some(before) => {
                if let Some(change) = difference(before, value) {
                    patch.insert(key.clone(), change);
                }
            }
        }
    }
    for key in old.keys().filter(|key| !new.contains_key(*key)) {
        patch.insert(key.clone(), Value::Null);
    }
    Some(Value::Object(patch))
}

/// Writes the status where it differs, if the object is still the one that was seen. Returns the object when there was
/// something to write.
///
/// # Errors
/// When the call fails; a conflict says that somebody else wrote first.
pub async fn write_status<K, S>(api: &Api<K>, seen: &K, old: Option<&S>, new: &S) -> Result<Option<K>, CallError>
where
    K: Resource + Clone + Debug + DeserializeOwned,
    S: Serialize,
{
    let value = |status: &S| serde_json::to_value(status).map_err(kube::Error::SerdeError);
    let before = old.map_or(Ok(json!({})), value)?;
    let Some(change) = difference(&before, &value(new)?) else { return Ok(None) };
    let body = json!({
        "metadata": { "resourceVersion": seen.resource_version(), "uid": seen.uid() },
        "status": change,
    });
    let params = PatchParams { field_manager: Some(Manager::Controller.as_str().into()), ..PatchParams::default() };
    call(api.patch_status(&seen.name_any(), &params, &Patch::Merge(body))).await.map(Some)
}

/// Changes annotations and labels of the object of this uid; `None` removes.
///
/// # Errors
/// When the call fails.
pub async fn mark<K>(api: &Api<K>, object: &K, annotations: Value, labels: Value) -> Result<(), CallError>
where
    K: Resource + Clone + Debug + DeserializeOwned,
{
    let body = json!({ "metadata": { "uid": object.uid(), "annotations": annotations, "labels": labels } });
    let params = PatchParams { field_manager: Some(Manager::Controller.as_str().into()), ..PatchParams::default() };
    call(api.patch(&object.name_any(), &params, &Patch::Merge(body))).await.map(drop)
}

/// Creates it. `false` when there is one of this name already.
///
/// # Errors
/// When the call fails otherwise.
pub async fn create<K>(api: &Api<K>, object: &K) -> Result<bool, CallError>
where
    K: Resource + Clone + Debug + DeserializeOwned + Serialize,
{
    let params = PostParams { field_manager: Some(Manager::Controller.as_str().into()), ..PostParams::default() };
    match call(api.create(&params, object)).await {
        Ok(_) => Ok(true),
        Err(error) if error.is_already_exists() => Ok(false),
        Err(error) => Err(error),
    }
}

/// Deletes the object of this uid, and with `version` only if nobody wrote to it since. That it is gone or another one is as
/// good.
///
/// # Errors
/// When the call fails otherwise.
pub async fn delete<K>(api: &Api<K>, name: &str, uid: Option<String>, version: Option<String>) -> Result<(), CallError>
where
    K: Resource + Clone + Debug + DeserializeOwned,
{
    let preconditions = Preconditions { uid, resource_version: version };
    let params = DeleteParams { preconditions: Some(preconditions), ..DeleteParams::background() };
    match call(api.delete(name, &params)).await {
        Ok(_) => Ok(()),
        Err(error) if error.is_not_found() || error.is_conflict() => Ok(()),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn merge(target: &mut Value, patch: &Value) {
        let Value::Object(patch) = patch else {
            *target = patch.clone();
            return;
        };
        if !target.is_object() {
            *target = json!({});
        }
        let Value::Object(target) = target else { return };
        for (key, value) in patch {
            if value.is_null() {
                target.remove(key);
            } else {
                merge(target.entry(key.clone()).or_insert(Value::Null), value);
            }
        }
    }

    fn value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![any::<bool>().prop_map(Value::from), (0..5_i64).prop_map(Value::from), "[a-c]{0,2}".prop_map(Value::from)];
        leaf.prop_recursive(3, 24, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
                prop::collection::btree_map("[a-d]", inner, 0..4).prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn the_difference_turns_one_into_the_other(old in value(), new in value()) {
            let mut result = old.clone();
            match difference(&old, &new) {
                None => prop_assert_eq!(&old, &new),
                Some(patch) => merge(&mut result, &patch),
            }
            prop_assert_eq!(result, new);
        }
    }

    #[test]
    fn only_what_differs_is_written() {
        let old = json!({"a": 1, "b": {"c": [1], "d": 2}, "e": 3});
        let new = json!({"a": 1, "b": {"c": [1, 2], "d": 2}});
        assert_eq!(difference(&old, &new), Some(json!({"b": {"c": [1, 2]}, "e": null})));
        assert_eq!(difference(&old, &old), None);
    }
}
