//! `wait_for`.

use super::super::error::Refused;
use super::click::empty;
use super::element::{Called, world};
use super::{Context, Done};
use crate::domain::control::Refusal;
use crate::driver::{ControlState, WaitFor};
use serde_json::json;
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// The longest wait.
pub(super) const LONGEST: Duration = Duration::from_mins(5);
const USUAL: i64 = 30;
const EVERY: Duration = Duration::from_millis(150);

/// Whether the page shows the text, in this document or one inside it.
const SHOWS: &str = "(text) => {
  const shows = (view) => {
    try {
      if ((view.document.body?.innerText ?? '').includes(text)) return true;
      for (let i = 0; i < view.length; i += 1) if (shows(view[i])) return true;
    } catch { /* another origin */ }
    return false;
  };
  return shows(window);
}";

pub(super) async fn run(context: &Context, arguments: WaitFor) -> Done {
    let seconds = arguments.timeout_seconds.unwrap_or(USUAL);
    if !(1..=300).contains(&seconds) {
        return Err(Refused::argument("timeout_seconds: must be from 1 to 300").into());
    }
    let given = [&arguments.text, &arguments.gone, &arguments.url];
    if given.iter().all(|text| text.as_ref().is_none_or(String::is_empty)) {
        return Err(Refused::argument("text, gone or url: give at least one").into());
    }
    let deadline = Instant::now() + Duration::from_secs(seconds.unsigned_abs());
    let mut control = context.control.state.subscribe();
    // Who waits for what a person does began when the person had the hands already.
    let held = |state: &ControlState| state.holder.is_some() && !state.pending;
    let free = !held(&control.borrow_and_update());
    loop {
        if free {
            let now = control.borrow_and_update().clone();
            if held(&now) {
                return Err(Refused::from(Refusal::Held(Box::new(now))).into());
            }
        }
        if holds(context, &arguments).await? {
            return Ok(empty());
        }
        if Instant::now() >= deadline {
            return Err(Refused::failed(format!("The page did not show it within {seconds} s.")).into());
        }
        let pause = async {
            tokio::select! {
                () = sleep(EVERY) => {}
                Ok(()) = control.changed(), if free => {}
            }
            Ok::<(), Refused>(())
        };
        context.unless_dialog(pause).await?;
    }
}

async fn holds(context: &Context, wanted: &WaitFor) -> Done<bool> {
    if wanted.url.as_ref().is_some_and(|part| !context.tab.facts().url.contains(part)) {
        return Ok(false);
    }
    for (text, want) in [(&wanted.text, true), (&wanted.gone, false)] {
        let Some(text) = text.as_ref().filter(|text| !text.is_empty()) else { continue };
        if shows(context, text).await? != want {
            return Ok(false);
        }
    }
    Ok(true)
}

async fn shows(context: &Context, text: &str) -> Done<bool> {
    let Some(world) = context.unless_dialog(world(&context.tab.session, &context.tab.id)).await? else { return Ok(false) };
    let params = json!({
        "executionContextId": world, "functionDeclaration": SHOWS, "arguments": [{ "value": text }], "returnByValue": true,
    });
    // A page that is just being replaced shows nothing.
    match context
        .unless_dialog(async { Ok::<_, Refused>(context.tab.session.call::<Called>("Runtime.callFunctionOn", params).await) })
        .await?
    {
        Ok(called) => Ok(called.result.value == true),
        Err(super::CdpError::Refused { .. }) => Ok(false),
        Err(error) => Err(error.into()),
    }
}
