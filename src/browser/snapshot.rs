//! The page as text: the accessibility tree with a reference for everything that can be acted on.

use super::cdp::{CdpError, Session};
use super::tab::Tab;
use super::tabs::{FrameSession, Tabs};
use futures::future::BoxFuture;
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// The longest snapshot, in bytes; what does not fit is cut, and the text says so.
const LONGEST: usize = 120_000;
/// How long a frame may take to be read: a large one on a machine that is busy takes longer than any other call.
const TREE_LIMIT: Duration = Duration::from_secs(30);
/// The longest name, value or text of one element, in characters.
const LONGEST_TEXT: usize = 600;

/// An element of the newest snapshot.
#[derive(Clone)]
pub struct Element {
    /// The session of its frame's process.
    pub session: Session,
    /// Its id there.
    pub node: i64,
    /// The frame that is the root of that process; absent: the page itself.
    pub root: Option<FrameSession>,
    /// Its role.
    pub role: String,
}

/// References keep their element from one snapshot to the next and are never used again for another.
#[derive(Default)]
pub struct References {
    numbers: HashMap<(String, i64), u32>,
    newest: HashMap<u32, Element>,
    /// The last number given, in any tab.
    last: Arc<AtomicU32>,
}

impl References {
    /// None yet; numbers are shared with the other tabs.
    #[must_use]
    pub fn new(last: Arc<AtomicU32>) -> Self {
        Self { last, ..Self::default() }
    }

    /// The element of a reference such as `e12`, if it is of the newest snapshot.
    #[must_use]
    pub fn get(&self, reference: &str) -> Option<Element> {
        self.newest.get(&reference.strip_prefix('e')?.parse().ok()?).cloned()
    }

    /// No reference is good until the next snapshot.
    pub fn forget(&mut self) {
        self.newest.clear();
    }

    /// Another document: the same numbers of Chromium's mean other elements.
    pub fn new_document(&mut self) {
        self.newest.clear();
        self.numbers.clear();
    }

    fn number(&mut self, element: Element) -> u32 {
        let key = (element.session.id().to_owned(), element.node);
        let number = *self.numbers.entry(key).or_insert_with(|| self.last.fetch_add(1, Ordering::Relaxed) + 1);
        self.newest.insert(number, element);
        number
    }
}

#[derive(Deserialize)]
struct Tree {
    nodes: Vec<Node>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Node {
    node_id: String,
    #[serde(default)]
    ignored: bool,
    role: Option<AxValue>,
    name: Option<AxValue>,
    value: Option<AxValue>,
    #[serde(default)]
    properties: Vec<Property>,
    #[serde(default)]
    child_ids: Vec<String>,
    parent_id: Option<String>,
    #[serde(rename = "backendDOMNodeId")]
    backend: Option<i64>,
}

#[derive(Deserialize)]
struct AxValue {
    #[serde(default)]
    value: Value,
}

#[derive(Deserialize)]
struct Property {
    name: String,
    value: AxValue,
}

impl Node {
    fn role(&self) -> &str {
        self.role.as_ref().and_then(|role| role.value.as_str()).unwrap_or_default()
    }

    fn name(&self) -> String {
        self.name.as_ref().map(|name| text(&name.value)).unwrap_or_default()
    }

    fn property(&self, name: &str) -> Option<&Value> {
        self.properties.iter().find(|property| property.name == name).map(|property| &property.value.value)
    }

    fn is(&self, name: &str) -> bool {
        self.property(name).is_some_and(|value| value == &Value::Bool(true) || value.as_str() == Some("true"))
    }
}

/// One document with the documents embedded in it, by the node that embeds each.
struct Document {
    session: Session,
    root: Option<FrameSession>,
    nodes: HashMap<String, Node>,
    first: Option<String>,
    embedded: HashMap<i64, Document>,
}

/// Reads the page, and makes its references the good ones.
///
/// # Errors
/// When Chromium does not answer.
pub(super) async fn take(tabs: &Tabs, tab: &Tab) -> Result<String, CdpError> {
    let others = tabs.frames_of(tab);
    let frames: FrameTree = tab.session.call("Page.getFrameTree", json!({})).await?;
    let page = read(&tab.session, None, frames.frame_tree, &others).await?;
    let mut references = tab.references();
    references.forget();
    let mut writer = Writer { references: &mut references, out: String::new(), cut: false };
    writer.document(&page, 0);
    let mut text = writer.out;
    if writer.cut {
        text.push_str("- text: \"The page goes on; it was cut here.\"\n");
    }
    Ok(text)
}

/// Reads a document and, one after another, what is embedded in it. An embedded one that can't be read is left out.
fn read<'a>(
    session: &'a Session,
    root: Option<FrameSession>,
    frame: FrameNode,
    others: &'a [FrameSession],
) -> BoxFuture<'a, Result<Document, CdpError>> {
    Box::pin(async move {
        let tree: Tree = session.call_within(TREE_LIMIT, "Accessibility.getFullAXTree", json!({ "frameId": frame.frame.id })).await?;
        let first = tree.nodes.iter().find(|node| node.parent_id.is_none()).map(|node| node.node_id.clone());
        let nodes = tree.nodes.into_iter().map(|node| (node.node_id.clone(), node)).collect();
        let mut document = Document { session: session.clone(), root: root.clone(), nodes, first, embedded: HashMap::new() };
        let is_root = root.as_ref().is_none_or(|root| root.frame == frame.frame.id);
        for child in frame.child_frames {
            let Ok(owner) = owner(session, &child.frame.id).await else { continue };
            if let Ok(read) = read(session, root.clone(), child, others).await {
                document.embedded.insert(owner, read);
            }
        }
        // Frames of other processes hang below the root of this one; those deeper answer no owner here.
        if is_root {
            for other in others.iter().filter(|other| other.parent == session.id()) {
                let Ok(owner) = owner(session, &other.frame).await else { continue };
                let Ok(frames) = other.session.call::<FrameTree>("Page.getFrameTree", json!({})).await else { continue };
                if let Ok(read) = read(&other.session, Some(other.clone()), frames.frame_tree, others).await {
                    document.embedded.insert(owner, read);
                }
            }
        }
        Ok(document)
    })
}

/// The element that embeds a frame.
pub(super) async fn owner(session: &Session, frame: &str) -> Result<i64, CdpError> {
    let owner: Owner = session.call("DOM.getFrameOwner", json!({ "frameId": frame })).await?;
    Ok(owner.backend_node_id)
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Owner {
    backend_node_id: i64,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct FrameTree {
    frame_tree: FrameNode,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct FrameNode {
    frame: FrameId,
    #[serde(default)]
    child_frames: Vec<FrameNode>,
}

#[derive(Deserialize)]
struct FrameId {
    id: String,
}

struct Writer<'a> {
    references: &'a mut References,
    out: String,
    cut: bool,
}

impl Writer<'_> {
    fn document(&mut self, document: &Document, depth: usize) {
        let Some(first) = document.first.as_ref().and_then(|id| document.nodes.get(id)) else { return };
        for child in &first.child_ids {
            self.node(document, child, depth, "");
        }
    }

    fn node(&mut self, document: &Document, id: &str, depth: usize, above: &str) {
        let Some(node) = document.nodes.get(id) else { return };
        if self.out.len() > LONGEST {
            self.cut = true;
            return;
        }
        let name = node.name();
        match node.role() {
            "StaticText" => {
                // The words of a button are its name already.
                if !name.is_empty() && !above.contains(&name) {
                    self.line(depth, &format!("text: {name}"));
                }
                return;
            }
            "InlineTextBox" | "LineBreak" | "ListMarker" => return,
            _ => {}
        }
        if !worth_a_line(node, &name) {
            for child in &node.child_ids {
                self.node(document, child, depth, above);
            }
            return;
        }
        let mut line = label(node, &name);
        if let Some(backend) = node.backend {
            let role = node.role().to_owned();
            let element = Element { session: document.session.clone(), node: backend, root: document.root.clone(), role };
            let number = self.references.number(element);
            // Writing to a string does not fail.
            let _ = write!(line, " [ref=e{number}]");
        }
        let value = value(node);
        if !value.is_empty() && value != name {
            let _ = write!(line, ": {value}");
        }
        self.line(depth, &line);
        if let Some(embedded) = node.backend.and_then(|backend| document.embedded.get(&backend)) {
            self.document(embedded, depth + 1);
            return;
        }
        // What is inside a text field is its value.
        if !matches!(node.role(), "textbox" | "searchbox" | "spinbutton" | "slider" | "progressbar") {
            for child in &node.child_ids {
                self.node(document, child, depth + 1, &name);
            }
        }
    }

    fn line(&mut self, depth: usize, line: &str) {
        self.out.extend(std::iter::repeat_n("  ", depth));
        self.out.extend(["- ", line, "\n"]);
    }
}

fn worth_a_line(node: &Node, name: &str) -> bool {
    if node.ignored {
        return false;
    }
    match node.role() {
        "none" | "generic" | "" | "RootWebArea" | "GenericContainer" | "LabelText" | "MenuListPopup" | "strong" | "emphasis" => {
            node.is("focusable") && !name.is_empty()
        }
        _ => true,
    }
}

fn label(node: &Node, name: &str) -> String {
    let role = match node.role() {
        "Iframe" | "IframePresentational" => "iframe",
        "image" => "img",
        other => other,
    };
    let mut line = role.to_owned();
    if !name.is_empty() {
        let _ = write!(line, " {}", Value::from(name));
    }
    for state in ["disabled", "required", "readonly", "focused", "selected", "modal", "busy"] {
        if node.is(state) {
            let _ = write!(line, " [{state}]");
        }
    }
    for state in ["checked", "pressed"] {
        match node.property(state).and_then(Value::as_str) {
            Some("true") => {
                let _ = write!(line, " [{state}]");
            }
            Some("mixed") => {
                let _ = write!(line, " [{state}=mixed]");
            }
            _ => {}
        }
    }
    if let Some(Value::Bool(expanded)) = node.property("expanded") {
        line.push_str(if *expanded { " [expanded]" } else { " [collapsed]" });
    }
    if node.property("invalid").and_then(Value::as_str).is_some_and(|invalid| invalid != "false") {
        line.push_str(" [invalid]");
    }
    if let Some(level) = node.property("level").and_then(Value::as_i64) {
        let _ = write!(line, " [level={level}]");
    }
    line
}

/// A password is dots, and how many is nobody's business either.
fn value(node: &Node) -> String {
    let value = node.value.as_ref().map(|value| text(&value.value)).unwrap_or_default();
    if !value.is_empty() && value.chars().all(|c| c == '•') { "(hidden)".to_owned() } else { value }
}

/// One line of bounded text.
fn text(value: &Value) -> String {
    let all = match value {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => value.to_string(),
    };
    let mut words = String::new();
    for word in all.split_whitespace() {
        if !words.is_empty() {
            words.push(' ');
        }
        words.push_str(word);
    }
    if words.chars().count() > LONGEST_TEXT {
        words = words.chars().take(LONGEST_TEXT).chain(['…']).collect();
    }
    words
}
