//! The one table that classes every tool and every CDP method as looking or touching. What is not in it touches.

/// Whether something only looks at the page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// It looks: allowed at any time.
    Read,
    /// It may change the page: refused while a person drives.
    Change,
}

use Class::{Change, Read};

/// Every page tool.
pub const TOOLS: &[(&str, Class)] = &[
    ("click", Change),
    ("handle_dialog", Change),
    ("navigate", Change),
    ("press_key", Change),
    ("screenshot", Read),
    ("snapshot", Read),
    ("type", Change),
    ("wait_for", Read),
];

/// Every CDP method that the driver sends.
pub const METHODS: &[(&str, Class)] = &[
    ("Accessibility.getFullAXTree", Read),
    ("Browser.getVersion", Read),
    ("Browser.getWindowForTarget", Read),
    ("Browser.setContentsSize", Change),
    ("Browser.setDownloadBehavior", Change),
    ("DOM.describeNode", Read),
    ("DOM.getContentQuads", Read),
    ("DOM.getFrameOwner", Read),
    ("DOM.resolveNode", Read),
    ("DOM.scrollIntoViewIfNeeded", Change),
    ("DOM.setFileInputFiles", Change),
    ("Emulation.setFocusEmulationEnabled", Change),
    ("Input.dispatchDragEvent", Change),
    ("Input.dispatchKeyEvent", Change),
    ("Input.dispatchMouseEvent", Change),
    ("Input.dispatchTouchEvent", Change),
    ("Input.imeSetComposition", Change),
    ("Input.insertText", Change),
    ("Input.setInterceptDrags", Change),
    ("Inspector.enable", Read),
    ("Page.addScriptToEvaluateOnNewDocument", Change),
    ("Page.captureScreenshot", Read),
    ("Page.crash", Change),
    ("Page.createIsolatedWorld", Change),
    ("Page.enable", Read),
    ("Page.getFrameTree", Read),
    ("Page.getLayoutMetrics", Read),
    ("Page.getNavigationHistory", Read),
    ("Page.handleJavaScriptDialog", Change),
    ("Page.navigate", Change),
    ("Page.navigateToHistoryEntry", Change),
    ("Page.reload", Change),
    ("Page.screencastFrameAck", Read),
    ("Page.setInterceptFileChooserDialog", Change),
    ("Page.setLifecycleEventsEnabled", Read),
    ("Page.startScreencast", Read),
    ("Page.stopLoading", Change),
    ("Page.stopScreencast", Read),
    ("Runtime.addBinding", Change),
    ("Runtime.callFunctionOn", Change),
    ("Runtime.getIsolateId", Read),
    ("Runtime.enable", Read),
    ("Runtime.releaseObject", Read),
    ("Runtime.runIfWaitingForDebugger", Change),
    ("Target.closeTarget", Change),
    ("Target.createTarget", Change),
    ("Target.getTargetInfo", Read),
    ("Target.setAutoAttach", Change),
    ("Target.setDiscoverTargets", Change),
    ("WebAuthn.enable", Change),
];

/// Every event that the driver listens to.
pub const EVENTS: &[&str] = &[
    "Browser.downloadWillBegin",
    "Input.dragIntercepted",
    "Inspector.targetCrashed",
    "Inspector.targetReloadedAfterCrash",
    "Page.fileChooserOpened",
    "Page.frameStartedLoading",
    "Page.frameStartedNavigating",
    "Page.frameStoppedLoading",
    "Page.javascriptDialogClosed",
    "Page.javascriptDialogOpening",
    "Page.lifecycleEvent",
    "Page.screencastFrame",
    "Runtime.bindingCalled",
    "Runtime.consoleAPICalled",
    "Target.attachedToTarget",
    "Target.detachedFromTarget",
    "Target.targetInfoChanged",
];

/// The class of a tool; an unknown one changes.
#[must_use]
pub fn tool(name: &str) -> Class {
    class(TOOLS, name)
}

/// The class of a CDP method; an unknown one changes.
#[must_use]
pub fn method(name: &str) -> Class {
    class(METHODS, name)
}

fn class(table: &[(&str, Class)], name: &str) -> Class {
    table.iter().find(|(known, _)| *known == name).map_or(Change, |(_, class)| *class)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use std::fs;
    use std::path::Path;

    const DOMAINS: &[&str] = &[
        "Accessibility",
        "Browser",
        "CSS",
        "DOM",
        "Emulation",
        "Fetch",
        "Input",
        "Inspector",
        "Network",
        "Overlay",
        "Page",
        "Runtime",
        "Security",
        "Storage",
        "Target",
        "WebAuthn",
    ];

    fn sources(folder: &Path, found: &mut Vec<String>) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                sources(&path, found);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                found.push(fs::read_to_string(path).unwrap());
            }
        }
    }

    fn driver() -> String {
        let mut all = Vec::new();
        sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src/browser"), &mut all);
        all.join("\n")
    }

    /// Every quoted `Domain.name` of the driver's source.
    fn names(source: &str) -> BTreeSet<String> {
        let quoted = source.split('"').filter(|text| {
            text.split_once('.').is_some_and(|(domain, name)| {
                DOMAINS.contains(&domain) && !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphabetic())
            })
        });
        // A prefix of two events, not a name.
        quoted.map(str::to_owned).filter(|name| name != "Page.javascriptDialog").collect()
    }

    #[test]
    fn every_method_and_event_of_the_driver_is_classed_and_no_other() {
        let used = names(&driver());
        let known: BTreeSet<String> = METHODS.iter().map(|(name, _)| *name).chain(EVENTS.iter().copied()).map(str::to_owned).collect();
        assert_eq!(used, known);
    }

    #[test]
    fn every_tool_is_dispatched() {
        let source = driver();
        for (tool, _) in TOOLS {
            assert!(source.contains(&format!("\"{tool}\"")), "{tool}");
        }
    }

    #[test]
    fn unknown_is_change() {
        assert_eq!(tool("snapshot"), Read);
        assert_eq!(tool("wipe_disk"), Change);
        assert_eq!(method("Page.getLayoutMetrics"), Read);
        assert_eq!(method("Page.setDocumentContent"), Change);
    }
}
