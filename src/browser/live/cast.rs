//! Keeps the cast of the shown tab.

use super::super::cdp::{Frame, pixels};
use super::super::hands::{UnderWay, done};
use super::super::tab::Tab;
use super::super::tabs::Tabs;
use super::Live;
use super::governor::{Governor, Step};
use super::until;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

const QUALITY: i32 = 70;
/// A view that comes back soon, as after a reload, finds the cast running.
const LINGER: Duration = Duration::from_secs(2);
/// A frame that no viewer took is acknowledged after this long all the same: a lost acknowledgement would freeze the view.
const TAKE_LIMIT: Duration = Duration::from_millis(100);
/// How long the other way to a picture may take.
const CAPTURE_LIMIT: Duration = Duration::from_secs(3);
/// How often titles are asked for while somebody looks.
const TITLES: Duration = Duration::from_secs(2);

/// Casts while somebody looks, until stopped.
pub(crate) async fn run(live: Arc<Live>, tabs: Arc<Tabs>, stop: CancellationToken) {
    let mut lookers = live.lookers.subscribe();
    let mut active = tabs.active.subscribe();
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            waited = lookers.wait_for(|count| *count > 0) => if waited.is_err() { return },
        }
        let tab = active.borrow_and_update().clone();
        let Some(tab) = tab else {
            tokio::select! {
                () = stop.cancelled() => return,
                changed = active.changed() => if changed.is_err() { return },
            }
            continue;
        };
        let mut cast = Cast { live: &live, tab: &tab, governor: Governor::new(Instant::now()), owed: None, last: None };
        tokio::select! {
            () = stop.cancelled() => return,
            () = cast.show(&tabs) => {}
            () = other_tab(&mut active, &tab) => {}
            () = nobody(&live) => {}
        }
        tracing::debug!("the screencast ends");
        drop(tab.session.fire("Page.stopScreencast", &json!({})));
    }
}

async fn other_tab(active: &mut tokio::sync::watch::Receiver<Option<Arc<Tab>>>, shown: &Tab) {
    // Closed only with the whole driver.
    drop(active.wait_for(|tab| tab.as_ref().is_none_or(|tab| tab.id != shown.id)).await);
}

async fn nobody(live: &Live) {
    let mut lookers = live.lookers.subscribe();
    loop {
        if lookers.wait_for(|count| *count == 0).await.is_err() {
            return;
        }
        if tokio::time::timeout(LINGER, lookers.wait_for(|count| *count > 0)).await.is_err() {
            return;
        }
    }
}

struct Cast<'a> {
    live: &'a Live,
    tab: &'a Arc<Tab>,
    governor: Governor,
    /// What is to be acknowledged: the cast, the frame's number, and when at the latest.
    owed: Option<(i64, u32, Instant)>,
    last: Option<Arc<Frame>>,
}

impl Cast<'_> {
    async fn show(&mut self, tabs: &Arc<Tabs>) {
        let mut frames = self.tab.frame.subscribe();
        let kept = frames.borrow_and_update().clone();
        match kept {
            // Of an earlier cast: better than nothing until the first new one.
            Some(frame) => drop(self.live.show(&frame)),
            None => self.live.say(Some(if self.tab.facts().crashed { "crashed" } else { "starting" })),
        }
        let mut acted = self.live.acted.subscribe();
        let mut taken = self.live.taken.subscribe();
        let mut version = tabs.version.subscribe();
        let mut asked: Option<UnderWay> = None;
        let mut titles = tokio::time::interval(TITLES);
        titles.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut crashed = self.tab.facts().crashed;
        self.start();
        let mut shots = false;
        loop {
            let due = [self.governor.due(), self.owed.map(|(_, _, at)| at)].into_iter().flatten().min();
            let step = tokio::select! {
                changed = frames.changed() => {
                    if changed.is_err() {
                        return;
                    }
                    let frame = frames.borrow_and_update().clone();
                    frame.map_or(Step::Stay, |frame| self.frame(frame))
                }
                _ = acted.changed() => self.governor.action(Instant::now()),
                _ = taken.changed() => {
                    let newest = *taken.borrow_and_update();
                    if self.owed.is_some_and(|(_, sequence, _)| newest >= sequence) {
                        self.acknowledge();
                    }
                    Step::Stay
                }
                _ = version.changed() => {
                    let now = self.tab.facts().crashed;
                    let step = if crashed && !now { Step::Restart } else { Step::Stay };
                    if now {
                        self.live.say(Some("crashed"));
                    }
                    crashed = now;
                    step
                }
                _ = titles.tick(), if asked.is_none() => {
                    let (tabs, tab) = (tabs.clone(), self.tab.clone());
                    asked = Some(Box::pin(async move { tabs.refresh(&tab).await }));
                    Step::Stay
                }
                () = done(&mut asked) => {
                    asked = None;
                    Step::Stay
                }
                () = until(due) => {
                    let now = Instant::now();
                    if self.owed.is_some_and(|(_, _, at)| now >= at) {
                        self.acknowledge();
                    }
                    self.governor.tick(now)
                }
            };
            if shots != self.governor.shots() {
                shots = self.governor.shots();
                tracing::debug!(shots, "the screencast changes its pace");
            }
            self.take(step, crashed).await;
        }
    }

    fn frame(&mut self, frame: Arc<Frame>) -> Step {
        self.acknowledge();
        let now = Instant::now();
        let sequence = self.live.show(&frame);
        let same = self.last.as_ref().is_some_and(|last| last.jpeg == frame.jpeg);
        self.owed = Some((frame.cast, sequence, now + TAKE_LIMIT));
        self.last = Some(frame);
        self.governor.frame(now, same)
    }

    async fn take(&mut self, step: Step, crashed: bool) {
        let dialog = self.tab.dialog.borrow().is_some();
        match step {
            Step::Stay => {}
            Step::Start => self.start(),
            Step::Stop => self.stop(),
            // A page with an open dialog has no frames to show.
            Step::Restart | Step::Capture if dialog || crashed => {}
            Step::Restart => {
                self.stop();
                self.start();
            }
            Step::Capture => self.capture().await,
        }
    }

    fn start(&self) {
        let params = json!({ "format": "jpeg", "quality": QUALITY, "maxWidth": 2560, "maxHeight": 1600, "everyNthFrame": 1 });
        drop(self.tab.session.fire("Page.startScreencast", &params));
    }

    fn stop(&mut self) {
        self.acknowledge();
        drop(self.tab.session.fire("Page.stopScreencast", &json!({})));
    }

    fn acknowledge(&mut self) {
        if let Some((cast, ..)) = self.owed.take() {
            drop(self.tab.session.fire("Page.screencastFrameAck", &json!({ "sessionId": cast })));
        }
    }

    async fn capture(&mut self) {
        let params = json!({ "format": "jpeg", "quality": QUALITY });
        let captured = self.tab.session.call_within::<Captured>(CAPTURE_LIMIT, "Page.captureScreenshot", params).await;
        let metrics = self.tab.session.call_within::<Metrics>(CAPTURE_LIMIT, "Page.getLayoutMetrics", json!({})).await;
        let (Ok(captured), Ok(metrics)) = (captured, metrics) else { return self.live.say(Some("busy")) };
        let Ok(jpeg) = STANDARD.decode(captured.data) else { return };
        let view = metrics.css_visual_viewport;
        let millis = crate::runtime::clock::now().as_millisecond();
        self.live.show(&Frame {
            cast: 0,
            width: pixels(view.client_width),
            height: pixels(view.client_height),
            captured_millis: millis.unsigned_abs(),
            jpeg: jpeg.into(),
        });
    }
}

#[derive(Deserialize)]
struct Captured {
    data: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metrics {
    css_visual_viewport: View,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct View {
    client_width: f64,
    client_height: f64,
}
