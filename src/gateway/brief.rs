//! What the API server said, for a log: without the content of objects, which may be an answer or what an agent wrote.

/// The longest that is told, in characters.
const LONGEST: usize = 300;

/// Short enough for a log line, and without the object's content: a refusal for what is in an object quotes it, so of that only
/// the fields are named.
pub(super) fn brief(error: &kube::Error) -> String {
    #[expect(clippy::wildcard_enum_match_arm, reason = "the library's other errors tell of connections")]
    let text = match error {
        kube::Error::Api(status) => match status.code {
            // About the caller's rights, the object's name, versions, and the server itself.
            401 | 403 | 404 | 409 | 410 | 429 | 503 | 504 => format!("{} {}", status.code, status.message),
            _ => {
                let causes = status.details.iter().flat_map(|details| &details.causes);
                let fields: Vec<&str> = causes.map(|cause| cause.field.as_str()).filter(|field| !field.is_empty()).collect();
                format!("{} {} {}", status.code, status.reason, fields.join(", ")).trim_end().to_owned()
            }
        },
        // It quotes what it could not read.
        kube::Error::SerdeError(error) => format!("the reply could not be read ({:?}, line {})", error.classify(), error.line()),
        _ => {
            let mut inner: &dyn std::error::Error = error;
            while let Some(next) = inner.source() {
                inner = next;
            }
            inner.to_string()
        }
    };
    text.chars().take(LONGEST).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use kube::core::Status;
    use serde_json::json;

    fn api(code: u16, reason: &str, message: &str, field: &str) -> kube::Error {
        let status = json!({
            "status": "Failure", "code": code, "reason": reason, "message": message,
            "details": {"causes": [{"reason": "FieldValueInvalid", "message": message, "field": field}]},
        });
        kube::Error::Api(Box::new(serde_json::from_value::<Status>(status).unwrap()))
    }

    #[test]
    fn what_is_in_an_object_is_not_told() {
        let quoting = "a-1 is invalid: spec.resolution.message: Invalid value: \"hunter2\": too odd";
        assert_eq!(brief(&api(422, "Invalid", quoting, "spec.resolution.message")), "422 Invalid spec.resolution.message");
        assert_eq!(brief(&api(400, "BadRequest", "json: cannot read \"hunter2\"", "")), "400 BadRequest");
        assert_eq!(brief(&api(403, "Forbidden", "ann may not", "")), "403 ann may not");
        let unreadable = serde_json::from_value::<u8>(json!("hunter2")).unwrap_err();
        assert!(!brief(&kube::Error::SerdeError(unreadable)).contains("hunter2"));
    }
}
