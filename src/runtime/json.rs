//! JSON that comes from outside.

use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use std::fmt;
use std::marker::PhantomData;

/// A struct that is read from a JSON object alone. The derived code takes an array too, each element for the field of its place,
/// so that `[]` would be a struct of nothing but defaults.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Object<T>(pub T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Object<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Fields(PhantomData))
    }
}

struct Fields<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for Fields<T> {
    type Value = Object<T>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a JSON object")
    }

    fn visit_map<A: MapAccess<'de>>(self, fields: A) -> Result<Self::Value, A::Error> {
        T::deserialize(MapAccessDeserializer::new(fields)).map(Object)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Default, PartialEq, serde::Deserialize)]
    #[serde(deny_unknown_fields, default)]
    struct Body {
        message: Option<String>,
        inner: Option<Object<Inner>>,
    }

    #[derive(Debug, PartialEq, serde::Deserialize)]
    struct Inner {
        name: String,
    }

    #[test]
    fn only_an_object_is_one() {
        let read = |text: &str| serde_json::from_str::<Object<Body>>(text).map_err(|error| error.to_string());
        assert_eq!(read("{}").unwrap().0, Body::default());
        let whole = read(r#"{"message": "m", "inner": {"name": "n"}}"#).unwrap().0;
        assert_eq!(whole, Body { message: Some("m".into()), inner: Some(Object(Inner { name: "n".into() })) });
        for (text, says) in [
            ("[]", "expected a JSON object"),
            (r#"["hello"]"#, "expected a JSON object"),
            ("null", "expected a JSON object"),
            (r#""hello""#, "expected a JSON object"),
            (r#"{"inner": ["n"]}"#, "expected a JSON object"),
            (r#"{"massage": "m"}"#, "unknown field `massage`"),
            (r#"{"message": "m", "message": "n"}"#, "duplicate field `message`"),
            (r#"{"message": 1}"#, "invalid type: integer"),
        ] {
            let error = read(text).unwrap_err();
            assert!(error.contains(says), "{text}: {error}");
        }
    }
}
