//! `click`.

use super::super::error::Refused;
use super::{Context, Done, Outcome, element};
use crate::driver::Click;
use serde_json::{Value, json};

/// An option of a select list that is closed has no place to click at: it is chosen as the list would.
const CHOOSE: &str = "function() {
  if (!(this instanceof HTMLOptionElement)) return false;
  const list = this.closest('select');
  if (!list || this.disabled || list.disabled) return false;
  if (list.multiple) this.selected = !this.selected; else list.value = this.value, this.selected = true;
  list.dispatchEvent(new Event('input', { bubbles: true, composed: true }));
  list.dispatchEvent(new Event('change', { bubbles: true }));
  return true;
}";

pub(super) async fn run(context: &Context, arguments: Click) -> Done {
    let (button, bit) = match arguments.button.as_deref() {
        None | Some("left") => ("left", 1),
        Some("right") => ("right", 2),
        Some("middle") => ("middle", 4),
        Some(_) => return Err(Refused::argument("button: must be left, middle or right").into()),
    };
    let found = element::find(context, &arguments.reference)?;
    if found.role == "option" && element::call::<bool>(context, &found, CHOOSE, json!([])).await? {
        context.settle().await?;
        return Ok(empty());
    }
    let (x, y) = element::point(context, &found).await?;
    let mouse = |kind: &str, buttons: i32, count: i32| {
        let button = if kind == "mouseMoved" { "none" } else { button };
        json!({ "type": kind, "x": x, "y": y, "button": button, "buttons": buttons, "clickCount": count, "pointerType": "mouse" })
    };
    context.call::<Value>("Input.dispatchMouseEvent", mouse("mouseMoved", 0, 0)).await?;
    for count in 1..=(if arguments.double { 2 } else { 1 }) {
        // The press is not waited for: a page that opens a dialog at it answers only when that is closed.
        let released = context.tab.session.fire("Input.dispatchMouseEvent", &mouse("mousePressed", bit, count));
        released?;
        context.call::<Value>("Input.dispatchMouseEvent", mouse("mouseReleased", 0, count)).await?;
    }
    context.settle().await?;
    Ok(empty())
}

/// Nothing to tell.
pub(super) fn empty() -> Outcome {
    Value::Object(serde_json::Map::new()).into()
}
