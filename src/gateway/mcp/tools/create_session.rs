//! `create_session`: a browser of one's own.

use super::{Definition, Effect, Reply};
use crate::api::v1alpha1::{Browser, BrowserSessionSpec, Viewport};
use crate::domain::time_zone;
use crate::gateway::mcp::call::{Call, Failure};
use crate::gateway::mcp::schema::{Args, integer, line, object, string, text};
use crate::gateway::sessions;
use kube::ResourceExt as _;
use serde_json::{Value, json};

pub(super) const TOOL: Definition = Definition {
    name: "create_session",
    title: "Create session",
    description: |_| {
        "Starts a browser and returns its session_id, which every page tool takes. No argument is needed. The session ends when you close \
         it, or after some time without a call; it outlives your connection."
            .to_owned()
    },
    input,
    output: || json!({"session_id": {"type": "string", "description": "For the page tools."}}),
    effect: Effect::Changes,
    idempotent: false,
    open_world: false,
    needs_http: false,
    run: |call, args| Box::pin(run(call, args)),
};

fn input() -> Value {
    let side = |min: i64, max: i64| json!({"type": "integer", "minimum": min, "maximum": max, "description": "CSS pixels."});
    object(
        &[
            ("start_url", text("The first page: http://, https:// or about:blank.", 1, 2048)),
            (
                "browser",
                json!({"type": "string", "enum": ["Chromium", "HeadlessShell"], "description": "Chromium: the full browser. HeadlessShell: lighter."}),
            ),
            ("viewport", object(&[("width", side(320, 2560)), ("height", side(240, 1600))], &["width", "height"])),
            ("locale", text("A language tag such as en-GB.", 1, 35)),
            ("timezone", text("An IANA time zone such as Europe/Paris.", 1, 64)),
            ("user_agent", line("The User-Agent header.", 1, 512)),
            (
                "idle_timeout_seconds",
                json!({"type": "integer", "minimum": 60, "maximum": 604_800, "description": "The session ends after this long without a call."}),
            ),
        ],
        &[],
    )
}

async fn run(call: &Call, args: Args) -> Result<Reply, Failure> {
    let gateway = &call.gateway;
    let namespace = &gateway.settings.namespace;
    let spec = read(&args, gateway.settings.browser)?;
    match gateway.auth.may(&call.who, "create", "browsersessions", namespace, None).await {
        Ok(true) => {}
        Ok(false) => {
            let error =
                format!("{} may not create sessions in {namespace} (RBAC verb create on browsersessions.beckon.dev)", call.who.username);
            return Err(Failure::new("FORBIDDEN", error));
        }
        Err(error) => return Err(Failure::new("UNAVAILABLE", error.to_string())),
    }
    let made = sessions::create(gateway, &call.who, spec).await?;
    let name = made.name_any();
    let ready = async {
        tokio::select! {
            biased;
            ready = sessions::until_ready(gateway, &name) => ready.map(Some),
            // Its name must not be lost; every page tool waits for the browser too, at whichever replica.
            () = gateway.stop.cancelled() => Ok(None),
        }
    };
    if let Some(ready) = call.while_wanted(&format!("Starting the browser of session {name}"), ready).await? {
        gateway.activity.touch(&ready);
    }
    Ok(json!({"session_id": name}).into())
}

fn read(args: &Args, default: Browser) -> Result<BrowserSessionSpec, Failure> {
    let url = string(args, "start_url");
    if url.is_some_and(|url| url != "about:blank" && !url.starts_with("http://") && !url.starts_with("https://")) {
        return Err(Failure::argument("start_url must be about:blank or begin with http:// or https://"));
    }
    // As the kind has it: it becomes a word of a command line.
    let tag = |text: &str| {
        let word = |word: &str| !word.is_empty() && word.chars().all(|c| c.is_ascii_alphanumeric());
        text.starts_with(|c: char| c.is_ascii_alphabetic()) && text.split('-').all(word)
    };
    if string(args, "locale").is_some_and(|locale| !tag(locale)) {
        return Err(Failure::argument("locale must be a language tag such as en-GB"));
    }
    if string(args, "timezone").is_some_and(|zone| !time_zone::is_known(zone)) {
        return Err(Failure::argument("timezone must be an IANA time zone such as Europe/Paris, spelt as there"));
    }
    if string(args, "user_agent").is_some_and(|agent| !agent.bytes().all(|b| (b' '..=b'~').contains(&b))) {
        return Err(Failure::argument("user_agent must be one line of printable ASCII characters"));
    }
    let viewport = args.get("viewport").and_then(Value::as_object).map(|size| Viewport {
        width: integer(size, "width").and_then(|n| n.try_into().ok()).unwrap_or(Viewport::default().width),
        height: integer(size, "height").and_then(|n| n.try_into().ok()).unwrap_or(Viewport::default().height),
    });
    let owned = |name: &str| string(args, name).map(str::to_owned);
    Ok(BrowserSessionSpec {
        browser: match string(args, "browser") {
            Some("HeadlessShell") => Browser::HeadlessShell,
            Some(_) => Browser::Chromium,
            None => default,
        },
        start_url: owned("start_url"),
        viewport,
        locale: owned("locale"),
        timezone: owned("timezone"),
        user_agent: owned("user_agent"),
        idle_timeout_seconds: integer(args, "idle_timeout_seconds"),
        ..BrowserSessionSpec::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gateway::mcp::schema;

    #[test]
    fn nothing_is_needed_and_everything_is_checked() {
        assert_eq!(read(&Args::new(), Browser::HeadlessShell).unwrap().browser, Browser::HeadlessShell);
        let args = json!({"viewport": {"width": 800, "height": 600}, "browser": "Chromium", "start_url": "https://example.com"});
        assert!(schema::check(&input(), args.as_object().unwrap()).is_ok());
        let spec = read(args.as_object().unwrap(), Browser::HeadlessShell).unwrap();
        assert_eq!((spec.browser, spec.viewport), (Browser::Chromium, Some(Viewport { width: 800, height: 600 })));
        for (args, want) in [
            (json!({"viewport": {"width": 100, "height": 600}}), "viewport.width must be at least 320, not 100"),
            (json!({"browser": "Firefox"}), "browser must be one of Chromium, HeadlessShell, not \"Firefox\""),
            (json!({"idle_timeout_seconds": 5}), "idle_timeout_seconds must be at least 60, not 5"),
        ] {
            assert_eq!(schema::check(&input(), args.as_object().unwrap()), Err(want.to_owned()));
        }
        assert!(schema::check(&input(), json!({"user_agent": "a\r\nX-Y: z"}).as_object().unwrap()).is_err());
        for (args, field) in [
            (json!({"start_url": "file:///etc/passwd"}), "start_url"),
            (json!({"locale": "en --no-sandbox"}), "locale"),
            (json!({"locale": "-x"}), "locale"),
            (json!({"locale": "en-"}), "locale"),
            (json!({"timezone": "Europe//Paris"}), "timezone"),
            (json!({"user_agent": "Bröwser"}), "user_agent"),
            (json!({"timezone": ":/etc/passwd"}), "timezone"),
            (json!({"timezone": "../x"}), "timezone"),
            (json!({"timezone": "Europe/Atlantis"}), "timezone"),
        ] {
            let refused = read(args.as_object().unwrap(), Browser::Chromium).unwrap_err();
            assert!(refused.message.starts_with(field), "{}", refused.message);
        }
        let good = json!({"locale": "zh-Hant-TW", "timezone": "America/Argentina/Buenos_Aires"});
        assert!(read(good.as_object().unwrap(), Browser::Chromium).is_ok());
    }
}
