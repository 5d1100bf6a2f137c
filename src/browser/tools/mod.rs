//! The page tools. Each takes the active tab; a dialog that opens meanwhile is the result, never a wait.

mod click;
mod element;
mod look;
mod navigate;
mod press;
mod typing;
mod wait;

use super::cdp::CdpError;
use super::control::Control;
use super::driver::Driver;
use super::error::Refused;
use super::leave;
use super::tab::Tab;
use super::tabs::Tabs;
use crate::domain::tools::{self, Class};
use crate::driver::{DialogInfo, DriverErrorCode, Picture, ToolReply};
use crate::runtime::json::Object;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::time::timeout;

pub(super) use navigate::allowed as allowed_address;

/// No action takes longer than this; a person who asked for control waits for it.
const ACTION_LIMIT: Duration = Duration::from_secs(30);
/// How long a navigation that an action started is waited for.
const SETTLE_LIMIT: Duration = Duration::from_secs(5);
/// How long a navigation that led nowhere is given to say why.
const NOTICE_LIMIT: Duration = Duration::from_secs(1);
/// How soon after an action a navigation shows.
const SETTLE_START: Duration = Duration::from_millis(120);

/// What a tool works with.
pub(super) struct Context {
    /// The tab that was active when it started.
    pub tab: Arc<Tab>,
    /// Every tab.
    pub tabs: Arc<Tabs>,
    /// Who has the hands.
    pub control: Arc<Control>,
    /// A navigation ended where it began, as one does that turns out to be a download.
    nowhere: AtomicBool,
}

/// What a tool gives.
#[derive(Default)]
pub(super) struct Outcome {
    result: Value,
    image: Option<Picture>,
}

impl From<Value> for Outcome {
    fn from(result: Value) -> Self {
        Self { result, image: None }
    }
}

/// Why a tool stopped before its end.
pub(super) enum Stop {
    /// It failed.
    Refused(Refused),
    /// A dialog opened.
    Dialog(DialogInfo),
}

impl From<Refused> for Stop {
    fn from(refused: Refused) -> Self {
        Self::Refused(refused)
    }
}

impl From<CdpError> for Stop {
    fn from(error: CdpError) -> Self {
        Self::Refused(error.into())
    }
}

/// What an action gives, or why it stopped.
pub(super) type Done<T = Outcome> = Result<T, Stop>;

impl Context {
    /// Waits for something of the page, unless a dialog opens first: then nothing would come.
    pub(super) async fn unless_dialog<T, E: Into<Stop>>(&self, wanted: impl Future<Output = Result<T, E>>) -> Done<T> {
        self.unless_dialog_of(&self.tab, wanted).await
    }

    /// The same for another tab.
    pub(super) async fn unless_dialog_of<T, E: Into<Stop>>(&self, tab: &Tab, wanted: impl Future<Output = Result<T, E>>) -> Done<T> {
        let mut dialog = tab.dialog.subscribe();
        let opened = async {
            match dialog.wait_for(Option::is_some).await {
                Ok(dialog) => dialog.clone(),
                Err(_) => None,
            }
        };
        tokio::select! {
            biased;
            done = wanted => done.map_err(Into::into),
            Some(dialog) = opened => Err(Stop::Dialog(dialog)),
        }
    }

    /// Calls the page's session; see [`Context::unless_dialog`].
    pub(super) async fn call<T: DeserializeOwned>(&self, method: &'static str, params: Value) -> Done<T> {
        self.unless_dialog(self.tab.session.call(method, params)).await
    }

    /// The same for what takes long on a large page: it may take as long as the action.
    pub(super) async fn call_large<T: DeserializeOwned>(&self, method: &'static str, params: Value) -> Done<T> {
        self.unless_dialog(self.tab.session.call_within(ACTION_LIMIT, method, params)).await
    }

    /// Waits for the navigation that an action may have started.
    pub(super) async fn settle(&self) -> Done<()> {
        let mut load = self.tab.load.subscribe();
        let settled = async {
            let before = load.borrow_and_update().loader.clone();
            if timeout(SETTLE_START, load.wait_for(|load| load.busy)).await.is_ok() {
                // A page that goes on loading is good enough to be looked at.
                let loaded = timeout(SETTLE_LIMIT, load.wait_for(|load| !load.busy)).await;
                let nowhere = matches!(loaded, Ok(Ok(load)) if load.loader == before);
                self.nowhere.store(nowhere, Ordering::Relaxed);
            }
            Ok::<(), Stop>(())
        };
        self.unless_dialog(settled).await
    }
}

/// Runs a tool for the agent. An action goes on to its end when the caller hangs up; one that still waits for its turn is dropped.
///
/// # Errors
/// Why it did not; see [`DriverErrorCode`].
pub(super) async fn run(driver: &Arc<Driver>, tool: &str, body: &[u8]) -> Result<ToolReply, Refused> {
    if !tools::TOOLS.iter().any(|(known, _)| *known == tool) {
        return Err(Refused::new(DriverErrorCode::NotFound, format!("There is no tool {tool:?}.")));
    }
    let class = tools::tool(tool);
    // One action at a time: the next starts when this one has ended.
    let turn = match class {
        Class::Read => None,
        Class::Change => {
            let _place = driver.waiting.try_acquire().map_err(|_| Refused::failed("Too many actions wait for this browser already."))?;
            Some(driver.turn.clone().lock_owned().await)
        }
    };
    let tasks = driver.tasks.clone();
    let (driver, tool, body) = (driver.clone(), tool.to_owned(), body.to_vec());
    let action = async move {
        let _turn = turn;
        act(&driver, &tool, class, &body).await
    };
    let (tell, told) = oneshot::channel();
    // Who hung up hears nothing of it.
    tasks.spawn("an action of the agent", async move { drop(tell.send(action.await)) });
    told.await.unwrap_or_else(|_| Err(Refused::new(DriverErrorCode::Internal, "The tool ended early.")))
}

async fn act(driver: &Arc<Driver>, tool: &str, class: Class, body: &[u8]) -> Result<ToolReply, Refused> {
    let action = driver.control.admit_tool(class)?;
    let since = driver.control.look();
    let mut notices = driver.tabs.notices.subscribe();
    let tab = driver.tabs.active_tab().ok_or_else(|| Refused::new(DriverErrorCode::NotFound, "No tab is open."))?;
    let context = Context { tab, tabs: driver.tabs.clone(), control: driver.control.clone(), nowhere: AtomicBool::new(false) };
    if class == Class::Change {
        driver.live.acted();
    }
    let done = match timeout(limit(tool), dispatch(&context, tool, body)).await {
        Ok(done) => done,
        Err(_) => Err(Refused::failed("The page did not answer in time; it may be busy.").into()),
    };
    let looked = matches!(tool, "snapshot" | "screenshot")
        && match &done {
            Ok(_) | Err(Stop::Dialog(_)) => true,
            // What there is to see of a tab that crashed or hangs was seen: navigating must remain.
            Err(Stop::Refused(refused)) => matches!(refused.code, DriverErrorCode::TabCrashed | DriverErrorCode::ActionFailed),
        };
    if looked {
        driver.control.observed(since);
    }
    drop(action);
    let outcome = match done {
        Ok(outcome) => outcome,
        // An action that closed its own tab is done.
        Err(Stop::Refused(refused))
            if class == Class::Change && refused.code == DriverErrorCode::TabCrashed && !driver.tabs.has(&context.tab.id) =>
        {
            json!({}).into()
        }
        Err(Stop::Refused(refused)) => return Err(refused),
        Err(Stop::Dialog(dialog)) if class == Class::Read && tool != "snapshot" => return Err(waits(&dialog)),
        Err(Stop::Dialog(dialog)) if tool == "snapshot" => {
            let text = format!("- dialog {}: {}\n", dialog.kind, Value::from(dialog.message.as_str()));
            json!({ "snapshot": text }).into()
        }
        Err(Stop::Dialog(_)) => json!({}).into(),
    };
    // A popup may have become the active tab.
    let tab = driver.tabs.active_tab().unwrap_or_else(|| context.tab.clone());
    driver.tabs.refresh(&tab).await;
    let control = driver.control.now();
    let mut result = outcome.result;
    // What the action caused beside the page; the newest will do.
    let late =
        if context.nowhere.load(Ordering::Relaxed) { timeout(NOTICE_LIMIT, notices.recv()).await.ok().and_then(Result::ok) } else { None };
    if class == Class::Change
        && let Some(notice) = std::iter::from_fn(|| notices.try_recv().ok()).last().or(late)
        && let Some(result) = result.as_object_mut()
    {
        result.insert("notice".to_owned(), notice.message.into());
    }
    Ok(ToolReply {
        result,
        image: outcome.image,
        page: tab.page(),
        dialog: tab.dialog.borrow().clone(),
        control: control.holder.is_some().then_some(control),
    })
}

fn limit(tool: &str) -> Duration {
    if tool == "wait_for" { wait::LONGEST + SETTLE_LIMIT } else { ACTION_LIMIT }
}

async fn dispatch(context: &Context, tool: &str, body: &[u8]) -> Done {
    if tool == "handle_dialog" {
        return press::dialog(context, arguments(body)?).await;
    }
    let open = context.tab.dialog.borrow().clone();
    if let Some(dialog) = open
        && !(tool == "navigate" && leave::asks_for_ever(&context.tab))
    {
        return Err(if tool == "snapshot" { Stop::Dialog(dialog) } else { waits(&dialog).into() });
    }
    match tool {
        "navigate" => navigate::run(context, arguments(body)?).await,
        "snapshot" => look::snapshot(context, arguments(body)?).await,
        "screenshot" => look::screenshot(context, arguments(body)?).await,
        "click" => click::run(context, arguments(body)?).await,
        "type" => typing::run(context, arguments(body)?).await,
        "press_key" => press::run(context, arguments(body)?).await,
        "wait_for" => wait::run(context, arguments(body)?).await,
        other => Err(Refused::new(DriverErrorCode::NotFound, format!("There is no tool {other:?}.")).into()),
    }
}

fn waits(dialog: &DialogInfo) -> Refused {
    Refused::new(DriverErrorCode::DialogOpen, format!("A dialog ({}) is open; answer it with handle_dialog first.", dialog.kind))
}

/// The error names the field that is wrong and shows no value.
fn arguments<T: DeserializeOwned>(body: &[u8]) -> Result<T, Refused> {
    let body: &[u8] = if body.iter().all(u8::is_ascii_whitespace) { b"{}" } else { body };
    let read: Result<Object<T>, _> = serde_json::from_slice(body);
    read.map(|Object(arguments)| arguments).map_err(|error| {
        let text = error.to_string();
        let what = if text.contains("field") || text.contains("expected a JSON object") {
            text
        } else {
            format!("an argument has the wrong type at column {}", error.column())
        };
        Refused::argument(what)
    })
}
