//! `snapshot` and `screenshot`.

use super::super::cdp::pixels;
use super::super::snapshot;
use super::{Context, Done, Outcome};
use crate::driver::{Picture, Screenshot, Snapshot};
use serde::Deserialize;
use serde_json::{Value, json};

const QUALITY: i32 = 80;
/// The widest and the tallest picture of a whole page, in CSS pixels, and the most pixels of one.
const WIDEST: f64 = 5_000.0;
const TALLEST: f64 = 10_000.0;
const MOST: f64 = 25_600_000.0;

#[derive(Deserialize)]
struct Captured {
    data: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metrics {
    css_visual_viewport: Viewport,
    css_content_size: Size,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Viewport {
    client_width: f64,
    client_height: f64,
}

#[derive(Deserialize)]
struct Size {
    width: f64,
    height: f64,
}

pub(super) async fn snapshot(context: &Context, _: Snapshot) -> Done {
    let text = context.unless_dialog(snapshot::take(&context.tabs, &context.tab)).await?;
    Ok(json!({ "snapshot": text }).into())
}

pub(super) async fn screenshot(context: &Context, arguments: Screenshot) -> Done {
    let metrics: Metrics = context.call("Page.getLayoutMetrics", json!({})).await?;
    let mut params = json!({ "format": "jpeg", "quality": QUALITY });
    let (mut width, mut height) = (metrics.css_visual_viewport.client_width, metrics.css_visual_viewport.client_height);
    if arguments.full_page {
        width = metrics.css_content_size.width.max(width).min(WIDEST);
        height = metrics.css_content_size.height.max(height).min(TALLEST).min((MOST / width).floor());
        if let Some(params) = params.as_object_mut() {
            params.insert("captureBeyondViewport".to_owned(), true.into());
            params.insert("clip".to_owned(), json!({ "x": 0, "y": 0, "width": width, "height": height, "scale": 1 }));
        }
    }
    let captured: Captured = context.call_large("Page.captureScreenshot", params).await?;
    let (width, height) = (pixels(width).into(), pixels(height).into());
    let picture = Picture { mime: "image/jpeg".to_owned(), data: captured.data, width, height };
    Ok(Outcome { result: Value::Object(serde_json::Map::new()), image: Some(picture) })
}
