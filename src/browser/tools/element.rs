//! The element that a reference names: where it is, and small functions run on it in our own world.

use super::super::cdp::{CdpError, Session};
use super::super::error::Refused;
use super::super::snapshot::{Element, owner};
use super::super::tabs::{FrameSession, WORLD};
use super::{Context, Done};
use crate::driver::DriverErrorCode;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// The element of a reference of the newest snapshot.
///
/// # Errors
/// STALE_REFERENCE when it is of an earlier one, or gone.
pub(super) fn find(context: &Context, reference: &str) -> Result<Element, Refused> {
    context.tab.references().get(reference).ok_or_else(stale)
}

fn stale() -> Refused {
    Refused::new(DriverErrorCode::StaleReference, "The reference is not of the newest snapshot; take a snapshot and use its references.")
}

fn gone(error: CdpError) -> Refused {
    if matches!(error, CdpError::Refused { .. }) { stale() } else { error.into() }
}

/// The middle of the element in the page's CSS pixels, scrolled into view, with nothing else on top of it.
///
/// # Errors
/// When it is gone, not visible or covered.
pub(super) async fn point(context: &Context, element: &Element) -> Done<(f64, f64)> {
    let node = json!({ "backendNodeId": element.node });
    let scrolled = element.session.call::<Value>("DOM.scrollIntoViewIfNeeded", node.clone());
    context.unless_dialog(async { scrolled.await.map_err(not_visible) }).await?;
    let quads = element.session.call::<Quads>("DOM.getContentQuads", node);
    let quads = context.unless_dialog(async { quads.await.map_err(not_visible) }).await?;
    let (x, y) = quads.quads.iter().find_map(|quad| middle(quad)).ok_or_else(|| Refused::failed("The element is not visible."))?;
    let on_top: bool = call(context, element, ON_TOP, json!([{ "value": x }, { "value": y }])).await?;
    if !on_top {
        return Err(Refused::failed("Something covers the element; close or move what is in front of it.").into());
    }
    let (dx, dy) = context.unless_dialog(offset(context, element.root.as_ref())).await?;
    Ok((x + dx, y + dy))
}

fn not_visible(error: CdpError) -> Refused {
    if let CdpError::Refused { message, .. } = &error
        && (message.contains("layout") || message.contains("compute"))
    {
        return Refused::failed("The element is not visible.");
    }
    gone(error)
}

/// Whether the element, or something inside it, is what a click at that point meets. The point is of the process's root frame.
const ON_TOP: &str = "function(x, y) {
  let view = this.ownerDocument.defaultView;
  while (view !== view.parent) {
    let frame; try { frame = view.frameElement; } catch { frame = null; }
    if (!frame) break;
    const box = frame.getBoundingClientRect();
    x -= box.left + frame.clientLeft; y -= box.top + frame.clientTop;
    view = view.parent;
  }
  let top = this.ownerDocument.elementFromPoint(x, y);
  while (top && top.shadowRoot) {
    const inner = top.shadowRoot.elementFromPoint(x, y);
    if (!inner || inner === top) break;
    top = inner;
  }
  const self = this.nodeType === Node.ELEMENT_NODE ? this : this.parentElement;
  for (let at = top; at; at = at.parentElement || (at.getRootNode() instanceof ShadowRoot ? at.getRootNode().host : null)) {
    if (at === self) return true;
  }
  return !!top && (self.contains(top) || top.contains(self) && getComputedStyle(self).display === 'contents'
    || !!top.closest('label') && top.closest('label').control === self);
}";

/// Where a frame of another process starts on the page.
async fn offset(context: &Context, root: Option<&FrameSession>) -> Result<(f64, f64), Refused> {
    let (mut x, mut y) = (0.0, 0.0);
    let frames = context.tabs.frames_of(&context.tab);
    let mut inner = root.cloned();
    while let Some(frame) = inner {
        let parent = context.tab.session.cdp().session(&frame.parent);
        let node = owner(&parent, &frame.frame).await.map_err(gone)?;
        let quads: Quads = parent.call("DOM.getContentQuads", json!({ "backendNodeId": node })).await.map_err(gone)?;
        if let Some([left, top, ..]) = quads.quads.first().map(Vec::as_slice) {
            x += left;
            y += top;
        }
        inner = frames.iter().find(|outer| outer.session.id() == frame.parent).cloned();
    }
    Ok((x, y))
}

/// Runs a function on the element, in our own world.
///
/// # Errors
/// When the element is gone or the function throws.
pub(super) async fn call<T: DeserializeOwned>(context: &Context, element: &Element, function: &str, arguments: Value) -> Done<T> {
    context.unless_dialog(call_on(&element.session, element.node, function, arguments)).await
}

async fn call_on<T: DeserializeOwned>(session: &Session, node: i64, function: &str, arguments: Value) -> Result<T, Refused> {
    let described: Described = session.call("DOM.describeNode", json!({ "backendNodeId": node, "depth": 0 })).await.map_err(gone)?;
    // A function of the page's own world could be one that the page put there.
    let world = match described.node.frame_id {
        Some(frame) => world(session, &frame).await?,
        None => None,
    };
    let mut params = json!({ "backendNodeId": node });
    if let (Some(world), Some(params)) = (world, params.as_object_mut()) {
        params.insert("executionContextId".to_owned(), world.into());
    }
    let resolved: Resolved = match session.call("DOM.resolveNode", params).await {
        Ok(resolved) => resolved,
        Err(CdpError::Refused { .. }) => session.call("DOM.resolveNode", json!({ "backendNodeId": node })).await.map_err(gone)?,
        Err(error) => return Err(error.into()),
    };
    let params = json!({
        "objectId": resolved.object.object_id, "functionDeclaration": function, "arguments": arguments,
        "returnByValue": true, "awaitPromise": false, "userGesture": true,
    });
    let called: Called = session.call("Runtime.callFunctionOn", params).await.map_err(gone)?;
    drop(session.fire("Runtime.releaseObject", &json!({ "objectId": resolved.object.object_id })));
    if called.exception_details.is_some() {
        return Err(Refused::failed("The element did not take it."));
    }
    serde_json::from_value(called.result.value).map_err(|_| Refused::new(DriverErrorCode::Internal, "The page's reply was not understood."))
}

/// Our own world in a frame; absent when the frame is going.
pub(super) async fn world(session: &Session, frame: &str) -> Result<Option<i64>, Refused> {
    match session.call::<World>("Page.createIsolatedWorld", json!({ "frameId": frame, "worldName": WORLD })).await {
        Ok(world) => Ok(Some(world.execution_context_id)),
        Err(CdpError::Refused { .. }) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// The middle of a quad that has an area.
fn middle(quad: &[f64]) -> Option<(f64, f64)> {
    let [ax, ay, bx, by, cx, cy, dx, dy] = *quad else { return None };
    let area = ((ax * by - bx * ay) + (bx * cy - cx * by) + (cx * dy - dx * cy) + (dx * ay - ax * dy)).abs() / 2.0;
    (area > 0.5).then_some(((ax + bx + cx + dx) / 4.0, (ay + by + cy + dy) / 4.0))
}

#[derive(Deserialize)]
struct Quads {
    quads: Vec<Vec<f64>>,
}

#[derive(Deserialize)]
struct Described {
    node: DescribedNode,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct DescribedNode {
    frame_id: Option<String>,
}

#[derive(Deserialize)]
struct Resolved {
    object: Object,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Object {
    object_id: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct World {
    execution_context_id: i64,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Called {
    #[serde(default)]
    pub result: CalledResult,
    pub exception_details: Option<Value>,
}

#[derive(Deserialize, Default)]
pub(super) struct CalledResult {
    #[serde(default)]
    pub value: Value,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quad_without_an_area_is_not_clicked() {
        assert_eq!(middle(&[0.0, 0.0, 10.0, 0.0, 10.0, 4.0, 0.0, 4.0]), Some((5.0, 2.0)));
        assert_eq!(middle(&[3.0, 3.0, 3.0, 3.0, 3.0, 3.0, 3.0, 3.0]), None);
        assert_eq!(middle(&[1.0]), None);
    }
}
