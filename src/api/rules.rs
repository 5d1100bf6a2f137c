//! Completes a derived definition with what a Rust type cannot say: CEL rules and list semantics.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, JSON, JSONSchemaProps, JSONSchemaPropsOrArray, JSONSchemaPropsOrBool, ValidationRule,
};

/// One CEL rule of a schema node.
pub(super) struct Rule {
    /// The node, as dotted property names from the root; `[]` steps into the items of a list. Empty is the root.
    pub at: &'static str,
    /// The expression that must be true.
    pub cel: &'static str,
    /// What the person reads when it is not.
    pub message: &'static str,
    /// A CEL expression for a message with values in it; `message` is the fallback.
    pub message_expression: Option<&'static str>,
    /// `FieldValueForbidden`, `FieldValueInvalid` or `FieldValueRequired`.
    pub reason: &'static str,
    /// The field that the error names, relative to `at`.
    pub field: Option<&'static str>,
    /// Also evaluated at create, where `oldSelf` is an empty optional.
    pub at_create: bool,
}

impl Rule {
    const fn new(at: &'static str, reason: &'static str, field: Option<&'static str>, message: &'static str, cel: &'static str) -> Self {
        Self { at, cel, message, message_expression: None, reason, field, at_create: false }
    }

    /// What may not be done.
    pub(super) const fn forbid(at: &'static str, field: &'static str, message: &'static str, cel: &'static str) -> Self {
        Self::new(at, "FieldValueForbidden", Some(field), message, cel)
    }

    /// What does not fit.
    pub(super) const fn invalid(at: &'static str, field: &'static str, message: &'static str, cel: &'static str) -> Self {
        Self::new(at, "FieldValueInvalid", Some(field), message, cel)
    }

    /// What is missing.
    pub(super) const fn require(at: &'static str, field: &'static str, message: &'static str, cel: &'static str) -> Self {
        Self::new(at, "FieldValueRequired", Some(field), message, cel)
    }

    /// Without a field of its own: the error names the node.
    pub(super) const fn node(at: &'static str, message: &'static str, cel: &'static str) -> Self {
        Self::new(at, "FieldValueInvalid", None, message, cel)
    }

    /// What is there stays as it is. That it stays at all is for `required` or another rule.
    pub(super) const fn unchanging(at: &'static str) -> Self {
        Self::new(at, "FieldValueForbidden", None, "is immutable", "self == oldSelf")
    }

    /// With values in the message.
    pub(super) const fn says(mut self, expression: &'static str) -> Self {
        self.message_expression = Some(expression);
        self
    }

    /// Also at create.
    pub(super) const fn at_create(mut self) -> Self {
        self.at_create = true;
        self
    }

    fn to_validation(&self) -> ValidationRule {
        ValidationRule {
            rule: self.cel.to_owned(),
            message: Some(self.message.to_owned()),
            message_expression: self.message_expression.map(str::to_owned),
            reason: Some(self.reason.to_owned()),
            field_path: self.field.map(str::to_owned),
            optional_old_self: self.at_create.then_some(true),
        }
    }
}

/// Optional fields of the spec that never change: none comes or goes, and what is there stays.
///
/// Two rules for each. A value itself costs the API server nothing to look at; for a property it makes a map of all that its
/// parent has, at each look.
macro_rules! fixed {
    ($($field:literal),+ $(,)?) => {
        &[$(
            $crate::api::rules::Rule::forbid(
                "spec",
                concat!(".", $field),
                "is immutable",
                concat!("has(self.", $field, ") == has(oldSelf.", $field, ")"),
            ),
            $crate::api::rules::Rule::unchanging(concat!("spec.", $field)),
        )+]
    };
}
pub(in crate::api) use fixed;

/// How server-side apply merges a list: `map` by the given keys, `set`, or `atomic`.
pub(super) struct List {
    /// The list, addressed as [`Rule::at`] is.
    pub at: &'static str,
    /// `map`, `set` or `atomic`.
    pub kind: &'static str,
    /// The keys of a `map`.
    pub keys: &'static [&'static str],
}

/// A list that is replaced as a whole.
pub(super) const fn atomic(at: &'static str) -> List {
    List { at, kind: "atomic", keys: &[] }
}

/// A list of unique values.
pub(super) const fn set(at: &'static str) -> List {
    List { at, kind: "set", keys: &[] }
}

/// A list of objects that these keys identify.
pub(super) const fn map(at: &'static str, keys: &'static [&'static str]) -> List {
    List { at, kind: "map", keys }
}

/// Attaches rules and list types. A path that names no node is a mistake in the table: the golden test shows it, since
/// [`missing`] lists it.
pub(super) fn complete(mut crd: CustomResourceDefinition, rules: &[&[Rule]], lists: &[List]) -> CustomResourceDefinition {
    crd.spec.names.list_kind = Some(format!("{}List", crd.spec.names.kind));
    for schema in schemas(&mut crd) {
        schema.title = None;
        // `kubectl explain` shows it; the derived one speaks of Rust.
        schema.description = find(schema, "spec").and_then(|spec| spec.description.clone());
        refuse_null(schema);
        bound_conditions(schema);
        bound_keys(schema);
        for rule in rules.iter().copied().flatten() {
            if let Some(node) = find(schema, rule.at) {
                node.x_kubernetes_validations.get_or_insert_default().push(rule.to_validation());
            }
        }
        for list in lists {
            if let Some(node) = find(schema, list.at) {
                node.x_kubernetes_list_type = Some(list.kind.to_owned());
                node.x_kubernetes_list_map_keys = (!list.keys.is_empty()).then(|| list.keys.iter().map(ToString::to_string).collect());
            }
        }
    }
    crd
}

/// An absent field is absent: a stored `null` would make `has()` true. Without `nullable` the API server prunes it.
fn refuse_null(node: &mut JSONSchemaProps) {
    node.nullable = None;
    if let Some(values) = &mut node.enum_ {
        values.retain(|value| !value.0.is_null());
    }
    if let Some(properties) = &mut node.properties {
        properties.values_mut().for_each(refuse_null);
    }
    if let Some(JSONSchemaPropsOrArray::Schema(items)) = &mut node.items {
        refuse_null(items);
    }
    if let Some(JSONSchemaPropsOrBool::Schema(values)) = &mut node.additional_properties {
        refuse_null(values);
    }
}

/// The longest key of a map, as Kubernetes bounds a qualified name. A schema can't say that, so a rule does.
fn bound_keys(node: &mut JSONSchemaProps) {
    if let Some(JSONSchemaPropsOrBool::Schema(values)) = &mut node.additional_properties {
        bound_keys(values);
        let rule = Rule::node("", "a key may have at most 317 characters", "self.all(k, size(k) <= 317)");
        node.x_kubernetes_validations.get_or_insert_default().push(rule.to_validation());
    }
    if let Some(properties) = &mut node.properties {
        properties.values_mut().for_each(bound_keys);
    }
    if let Some(JSONSchemaPropsOrArray::Schema(items)) = &mut node.items {
        bound_keys(items);
    }
}

/// The upstream type of a condition carries no bounds.
fn bound_conditions(schema: &mut JSONSchemaProps) {
    let Some(condition) = find(schema, "status.conditions.[]") else { return };
    let Some(fields) = &mut condition.properties else { return };
    for (name, field) in fields {
        field.description = None;
        match name.as_str() {
            "type" => field.max_length = Some(316),
            "status" => field.enum_ = Some(["True", "False", "Unknown"].map(|s| JSON(s.into())).to_vec()),
            "observedGeneration" => field.minimum = Some(0.0),
            "reason" => (field.min_length, field.max_length) = (Some(1), Some(64)),
            "message" => field.max_length = Some(4096),
            _ => {}
        }
    }
}

/// The paths of a table that name no node of the schema.
#[cfg(test)]
fn missing(mut crd: CustomResourceDefinition, rules: &[&[Rule]], lists: &[List]) -> Vec<&'static str> {
    let mut lost = Vec::new();
    for schema in schemas(&mut crd) {
        let paths = rules.iter().copied().flatten().map(|r| r.at).chain(lists.iter().map(|l| l.at));
        lost.extend(paths.filter(|at| find(schema, at).is_none()));
    }
    lost
}

fn schemas(crd: &mut CustomResourceDefinition) -> impl Iterator<Item = &mut JSONSchemaProps> {
    crd.spec.versions.iter_mut().filter_map(|v| v.schema.as_mut()?.open_api_v3_schema.as_mut())
}

fn find<'a>(schema: &'a mut JSONSchemaProps, path: &str) -> Option<&'a mut JSONSchemaProps> {
    path.split('.').filter(|step| !step.is_empty()).try_fold(schema, |node, step| match step {
        "[]" => match node.items.as_mut()? {
            JSONSchemaPropsOrArray::Schema(items) => Some(&mut **items),
            JSONSchemaPropsOrArray::Schemas(_) => None,
        },
        name => node.properties.as_mut()?.get_mut(name),
    })
}

#[cfg(test)]
mod tests {
    use super::missing;
    use crate::api::v1alpha1::{AttentionRequest, BrowserSession, attention_rules, session_rules};
    use kube::CustomResourceExt as _;

    #[test]
    fn every_path_of_the_tables_names_a_node() {
        assert_eq!(missing(AttentionRequest::crd(), attention_rules::RULES, attention_rules::LISTS), [""; 0]);
        assert_eq!(missing(BrowserSession::crd(), session_rules::RULES, session_rules::LISTS), [""; 0]);
    }
}
