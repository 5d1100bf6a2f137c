//! `type`.

use super::super::error::Refused;
use super::super::keys;
use super::click::empty;
use super::{Context, Done, element};
use crate::driver::Type;
use serde_json::{Value, json};

/// The longest text, in characters.
const LONGEST: usize = 10_000;
/// Up to here text is typed key by key, as pages with a box for each digit of a code want it.
const BY_KEYS: usize = 128;

/// Gets the element ready to take the text: `keys` when it is to be typed, `done` when it has it, else why not.
const PREPARE: &str = "function(text) {
  const changed = () => {
    this.dispatchEvent(new Event('input', { bubbles: true, composed: true }));
    this.dispatchEvent(new Event('change', { bubbles: true }));
    return 'done';
  };
  if (this.disabled) return 'disabled';
  if (this.readOnly) return 'readonly';
  if (this instanceof HTMLSelectElement) {
    const option = [...this.options].find((o) => o.label.trim() === text.trim() || o.value === text);
    if (!option) return 'option';
    this.value = option.value; option.selected = true;
    return changed();
  }
  if (this instanceof HTMLInputElement) {
    if (['date', 'time', 'datetime-local', 'month', 'week', 'color', 'range'].includes(this.type)) {
      this.focus(); this.value = text;
      return this.value === text || this.type === 'range' || this.type === 'color' ? changed() : 'format';
    }
    if (['checkbox', 'radio', 'button', 'submit', 'reset', 'image', 'file', 'hidden'].includes(this.type)) return 'kind';
  }
  if (this instanceof HTMLInputElement || this instanceof HTMLTextAreaElement) {
    this.focus(); this.select();
    return 'keys';
  }
  const element = this.nodeType === Node.ELEMENT_NODE ? this : this.parentElement;
  if (!element || !element.isContentEditable) return 'kind';
  element.focus();
  const range = document.createRange();
  range.selectNodeContents(element);
  const selection = getSelection(); selection.removeAllRanges(); selection.addRange(range);
  return 'keys';
}";

pub(super) async fn run(context: &Context, arguments: Type) -> Done {
    if arguments.text.chars().count() > LONGEST {
        return Err(Refused::argument(format!("text: must be at most {LONGEST} characters")).into());
    }
    let found = element::find(context, &arguments.reference)?;
    let ready: String = element::call(context, &found, PREPARE, json!([{ "value": arguments.text }])).await?;
    let why = match ready.as_str() {
        "keys" => {
            write(context, &arguments.text).await?;
            None
        }
        "done" => None,
        "disabled" => Some("The element is disabled."),
        "readonly" => Some("The element is read-only."),
        "option" => Some("The list has no such option."),
        "format" => Some("The element takes a date or time such as 2026-12-31, 2026-12 or 23:59."),
        _ => Some("The element takes no text."),
    };
    if let Some(why) = why {
        return Err(Refused::failed(why).into());
    }
    if let Some(key) = keys::named("Enter").filter(|_| arguments.submit) {
        keys::press(context, &key, 0).await?;
    }
    context.settle().await?;
    Ok(empty())
}

/// Replaces what is selected.
async fn write(context: &Context, text: &str) -> Done<()> {
    if text.is_empty() {
        if let Some(key) = keys::named("Delete") {
            keys::press(context, &key, 0).await?;
        }
        return Ok(());
    }
    if text.chars().count() > BY_KEYS {
        return context.call::<Value>("Input.insertText", json!({ "text": text })).await.map(drop);
    }
    for typed in text.chars() {
        match keys::typed(typed) {
            Some((key, modifiers)) => keys::press(context, &key, modifiers).await?,
            None => context.call::<Value>("Input.insertText", json!({ "text": typed.to_string() })).await.map(drop)?,
        }
    }
    Ok(())
}
