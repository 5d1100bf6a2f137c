//! Pickers of the browser itself: dates, times, colours, and the select lists that our style does not reach. They are in no
//! picture; our script in the page tells which one is open, and takes the answer.

use super::cdp::{CdpError, Session};
use crate::driver::PickerInfo;
use serde::Deserialize;
use serde_json::json;
use std::time::Duration;

/// How long the page may take to take an answer.
const ANSWER_LIMIT: Duration = Duration::from_secs(1);
const ANSWER: &str = "function(id, value) { return globalThis.__beckonPick(id, value); }";

/// An open picker.
#[derive(Clone)]
pub struct Picker {
    /// What is told of it.
    pub info: PickerInfo,
    /// The session of its frame's process.
    pub session: Session,
    /// Our world in its frame.
    pub context: i64,
}

/// What became of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Picked {
    /// It is closed.
    Closed,
    /// It was closed before.
    Gone,
    /// The field does not take the value.
    Refused,
}

impl Picker {
    /// Sets the value, if there is one, and closes the picker.
    ///
    /// # Errors
    /// When the page does not answer.
    pub async fn answer(&self, value: Option<String>) -> Result<Picked, CdpError> {
        let params = json!({
            "executionContextId": self.context, "functionDeclaration": ANSWER, "returnByValue": true, "userGesture": true,
            "arguments": [{ "value": self.info.id }, { "value": value }],
        });
        let called: Called = self.session.call_within(ANSWER_LIMIT, "Runtime.callFunctionOn", params).await?;
        Ok(called.result.value)
    }
}

#[derive(Deserialize)]
struct Called {
    result: CalledResult,
}

#[derive(Deserialize)]
struct CalledResult {
    value: Picked,
}
