//! The live view: a closed, bounded message set. The same messages travel between the dashboard and the gateway.

use super::control::ControlState;
use super::page::{ChooserInfo, DialogInfo, PageInfo, PickerInfo, TabInfo};
use serde::{Deserialize, Serialize};

/// The largest text message in, in bytes.
pub const MAX_COMMAND_BYTES: usize = 16 * 1024;

/// The fixed head of a binary frame message, before the JPEG: magic `BF01`, then big-endian u32 sequence, u16 width, u16
/// height (the page's CSS pixels, from the frame's metadata), u64 milliseconds since the epoch of the capture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameHeader {
    /// Grows by one for every frame of the cast.
    pub sequence: u32,
    /// The page's width in CSS pixels.
    pub width: u16,
    /// The page's height in CSS pixels.
    pub height: u16,
    /// When Chromium captured it, in milliseconds since the epoch.
    pub captured_millis: u64,
}

impl FrameHeader {
    /// The length of the head in bytes.
    pub const LEN: usize = 20;
    const MAGIC: [u8; 4] = *b"BF01";

    /// The head's bytes.
    #[must_use]
    pub fn encode(self) -> [u8; Self::LEN] {
        let mut out = [0; Self::LEN];
        let parts = Self::MAGIC
            .into_iter()
            .chain(self.sequence.to_be_bytes())
            .chain(self.width.to_be_bytes())
            .chain(self.height.to_be_bytes())
            .chain(self.captured_millis.to_be_bytes());
        for (to, from) in out.iter_mut().zip(parts) {
            *to = from;
        }
        out
    }
}

/// What the driver tells a viewer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum LiveEvent {
    /// Who has the hands.
    Control {
        /// The state.
        control: ControlState,
    },
    /// The shown tab's page, and every tab.
    Page {
        /// The page.
        page: PageInfo,
        /// Every tab.
        tabs: Vec<TabInfo>,
    },
    /// A dialog opened, or (absent) is gone.
    Dialog {
        /// The dialog.
        dialog: Option<DialogInfo>,
    },
    /// The page asks for files, or (absent) no longer.
    Chooser {
        /// What it asks for.
        chooser: Option<ChooserInfo>,
    },
    /// A picker that no picture shows opened, or (absent) is gone.
    Picker {
        /// The picker.
        picker: Option<PickerInfo>,
    },
    /// The pointer's shape over the page, as a CSS keyword, and whether the focused element takes text.
    Pointer {
        /// The CSS keyword.
        cursor: String,
        /// Whether text can be typed.
        editable: bool,
    },
    /// An input command was refused; nothing reached the page.
    Refused {
        /// `NO_LEASE`, `LEASE_ENDED`, `BAD_MESSAGE` or `TOO_FAST`.
        code: String,
        /// For a person.
        message: String,
    },
    /// Something happened beside the page; told once.
    Notice {
        /// `DOWNLOAD_REFUSED`, `PROGRAM_REFUSED` or `TAB_REFUSED`.
        code: String,
        /// For a person.
        message: String,
    },
    /// Why there is no picture: `crashed`, `busy`, `starting`.
    NoPicture {
        /// The word.
        why: String,
    },
}

/// What a viewer may say.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
pub enum LiveCommand {
    /// Input for the page. Checked against the lease at every event.
    Input {
        /// The lease of the grant.
        lease: String,
        /// At most 64, in order.
        events: Vec<InputEvent>,
    },
    /// Answers the open dialog. Needs the lease.
    Dialog {
        /// The lease.
        lease: String,
        /// Which dialog.
        id: u32,
        /// OK or Cancel.
        accept: bool,
        /// The text of a prompt.
        text: Option<String>,
    },
    /// Answers the open picker. Needs the lease.
    Pick {
        /// The lease.
        lease: String,
        /// Which picker.
        id: u32,
        /// The value, or the number of the option; absent: it is closed as it is.
        value: Option<String>,
    },
    /// A piece of a file for the page that asks for one, in order. Needs the lease.
    File {
        /// The lease.
        lease: String,
        /// Which asking.
        id: u32,
        /// The file's name, without a folder.
        name: String,
        /// Its next bytes, in base64; at most 12 288 of them.
        data: String,
        /// Whether these are the last.
        last: bool,
    },
    /// Gives the page the files that were sent, or none. Needs the lease.
    Choose {
        /// The lease.
        lease: String,
        /// Which asking.
        id: u32,
        /// The files, or Cancel.
        accept: bool,
    },
    /// What a browser has buttons for. Needs the lease.
    Go {
        /// The lease.
        lease: String,
        /// Where to.
        to: Way,
    },
    /// Shows another tab. Needs the lease.
    Tab {
        /// The lease.
        lease: String,
        /// The target's id.
        id: String,
    },
    /// The newest frame that the viewer has drawn.
    Drawn {
        /// Its sequence.
        sequence: u32,
    },
    /// Whether anybody looks at this view; a hidden view costs nothing.
    Visible {
        /// Yes or no.
        visible: bool,
    },
}

/// What a browser has buttons for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Way {
    /// To the page before.
    Back,
    /// To the page after.
    Forward,
    /// To the same page again; a tab that crashed or hangs comes back.
    Reload,
    /// The tab is closed.
    Close,
}

/// One event of a person's hands. Coordinates are CSS pixels of the page, modifiers are Alt 1, Ctrl 2, Meta 4, Shift 8.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum InputEvent {
    /// The pointer moved.
    Move {
        /// CSS pixels.
        x: f64,
        /// CSS pixels.
        y: f64,
        /// Held buttons: left 1, right 2, middle 4.
        buttons: u8,
        /// Held keys.
        modifiers: u8,
    },
    /// A button went down.
    Down {
        /// CSS pixels.
        x: f64,
        /// CSS pixels.
        y: f64,
        /// `left`, `middle`, `right`, `back` or `forward`.
        button: String,
        /// Held buttons, this one included.
        buttons: u8,
        /// 1, or 2 for a double click, at most 3.
        count: u8,
        /// Held keys.
        modifiers: u8,
    },
    /// A button went up.
    Up {
        /// CSS pixels.
        x: f64,
        /// CSS pixels.
        y: f64,
        /// As in `Down`.
        button: String,
        /// Held buttons, this one no longer.
        buttons: u8,
        /// As in `Down`.
        count: u8,
        /// Held keys.
        modifiers: u8,
    },
    /// The wheel turned.
    Wheel {
        /// CSS pixels.
        x: f64,
        /// CSS pixels.
        y: f64,
        /// CSS pixels.
        delta_x: f64,
        /// CSS pixels.
        delta_y: f64,
        /// Held keys.
        modifiers: u8,
    },
    /// A key went down.
    KeyDown {
        /// `KeyboardEvent.key`.
        key: String,
        /// `KeyboardEvent.code`.
        code: String,
        /// `KeyboardEvent.location`.
        location: u8,
        /// Held keys.
        modifiers: u8,
        /// Whether it is held and repeats.
        repeat: bool,
        /// Whether AltGraph is on: Ctrl and Alt are then part of the character.
        alt_graph: bool,
    },
    /// A key went up.
    KeyUp {
        /// `KeyboardEvent.key`.
        key: String,
        /// `KeyboardEvent.code`.
        code: String,
        /// `KeyboardEvent.location`.
        location: u8,
        /// Held keys.
        modifiers: u8,
    },
    /// Text from the person's clipboard: the page hears a paste, and takes it itself or gets it typed. At most 4096 characters.
    Paste {
        /// The text.
        text: String,
    },
    /// Text without keys: an emoji, the end of a composition. At most 4096 characters.
    Text {
        /// The text.
        text: String,
    },
    /// A composition in progress; empty text cancels it.
    Compose {
        /// The text so far.
        text: String,
    },
    /// Fingers. `phase` is `start`, `move`, `end` or `cancel`; at most 10 points, none at the end.
    Touch {
        /// The phase.
        phase: String,
        /// The points on the glass.
        points: Vec<TouchPoint>,
        /// Held keys.
        modifiers: u8,
    },
    /// Everything held is let go: focus left, the tab was hidden.
    ReleaseAll,
}

/// A finger.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TouchPoint {
    /// Tells fingers apart.
    pub id: u8,
    /// CSS pixels.
    pub x: f64,
    /// CSS pixels.
    pub y: f64,
}
