//! A page that asks for files. The browser's own window for it is never opened: the viewers send the files, or none.

use super::cdp::{CdpError, Session};
use crate::driver::ChooserInfo;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use tokio::fs;
use tokio::io::AsyncWriteExt as _;

/// Bytes that persons may put into a session's pod, over its whole life.
const MOST_BYTES: u64 = 64 << 20;
/// Files that are given at once.
const MOST_FILES: usize = 32;
/// Bytes of a file's name; file systems take no longer one.
const LONGEST_NAME: usize = 255;

const CANCEL: &str = "function() { this.dispatchEvent(new Event('cancel', { bubbles: true })); }";

/// What asks for files.
#[derive(Clone)]
pub struct Chooser {
    /// What is told of it.
    pub info: ChooserInfo,
    /// The session of its frame's process.
    pub session: Session,
    /// The input's id there.
    pub node: i64,
}

impl Chooser {
    /// Gives it the files; none is Cancel.
    ///
    /// # Errors
    /// When the page does not take them.
    pub async fn answer(&self, files: &[PathBuf]) -> Result<(), CdpError> {
        if files.is_empty() {
            let resolved: Resolved = self.session.call("DOM.resolveNode", json!({ "backendNodeId": self.node })).await?;
            let params = json!({ "objectId": resolved.object.object_id, "functionDeclaration": CANCEL });
            return self.session.call::<Value>("Runtime.callFunctionOn", params).await.map(drop);
        }
        let params = json!({ "backendNodeId": self.node, "files": files });
        self.session.call::<Value>("DOM.setFileInputFiles", params).await.map(drop)
    }
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

/// Where the files of a session go.
pub struct Uploads {
    root: PathBuf,
    next: AtomicU32,
    bytes: AtomicU64,
}

impl Uploads {
    /// Below the browser's home, which goes with the session.
    #[must_use]
    pub fn new(home: &Path) -> Self {
        Self { root: home.join("uploads"), next: AtomicU32::new(0), bytes: AtomicU64::new(0) }
    }
}

/// The files that a viewer sends for one asking.
#[derive(Default)]
pub(super) struct Upload {
    id: u32,
    done: Vec<PathBuf>,
    open: Option<(PathBuf, fs::File)>,
}

impl Upload {
    /// Takes the next piece of a file.
    ///
    /// # Errors
    /// Why it was not taken, for a person.
    pub(super) async fn piece(&mut self, uploads: &Uploads, id: u32, name: &str, data: &str, last: bool) -> Result<(), &'static str> {
        if self.id != id {
            *self = Self { id, ..Self::default() };
        }
        if self.done.len() >= MOST_FILES {
            return Err("name: these are too many files");
        }
        let data = STANDARD.decode(data).map_err(|_| "data: must be base64")?;
        let taken = uploads.bytes.fetch_add(data.len() as u64, Ordering::Relaxed);
        if taken + data.len() as u64 > MOST_BYTES {
            uploads.bytes.fetch_sub(data.len() as u64, Ordering::Relaxed);
            return Err("data: this session takes at most 64 MiB of files");
        }
        let (path, mut file) = match self.open.take() {
            Some((path, file)) if path.file_name().is_some_and(|known| known == name) => (path, file),
            Some(_) => return Err("name: the file before it is not finished"),
            None => create(uploads, name).await?,
        };
        file.write_all(&data).await.map_err(|_| FULL)?;
        if last {
            file.flush().await.map_err(|_| FULL)?;
            self.done.push(path);
        } else {
            self.open = Some((path, file));
        }
        Ok(())
    }

    /// The finished files of this asking.
    pub(super) fn take(&mut self, id: u32) -> Vec<PathBuf> {
        let all = std::mem::take(self);
        if all.id == id { all.done } else { Vec::new() }
    }
}

const FULL: &str = "data: the session's pod has no room for it";

/// A file of its own folder, so that names don't meet; the page sees the name alone.
async fn create(uploads: &Uploads, name: &str) -> Result<(PathBuf, fs::File), &'static str> {
    let plain = !name.is_empty() && name.len() <= LONGEST_NAME && !name.contains(['/', '\\']) && !name.chars().any(char::is_control);
    if !plain || name == "." || name == ".." {
        return Err("name: must be a file's name without a folder");
    }
    let folder = uploads.root.join(uploads.next.fetch_add(1, Ordering::Relaxed).to_string());
    fs::create_dir_all(&folder).await.map_err(|_| FULL)?;
    let path = folder.join(name);
    let file = fs::File::create_new(&path).await.map_err(|_| FULL)?;
    Ok((path, file))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn pieces_make_files_and_names_stay_in_their_folder() {
        let home = tempfile::tempdir().unwrap();
        let uploads = Uploads::new(home.path());
        let mut upload = Upload::default();
        let b64 = |text: &str| STANDARD.encode(text);
        upload.piece(&uploads, 7, "a b.txt", &b64("one "), false).await.unwrap();
        assert!(upload.piece(&uploads, 7, "other", "", true).await.is_err(), "in the middle of another");
        let mut upload = Upload::default();
        upload.piece(&uploads, 7, "a b.txt", &b64("one "), false).await.unwrap();
        upload.piece(&uploads, 7, "a b.txt", &b64("two"), true).await.unwrap();
        upload.piece(&uploads, 7, "a b.txt", "", true).await.unwrap();
        assert_eq!(upload.take(8), Vec::<PathBuf>::new());
        upload.piece(&uploads, 7, "a b.txt", &b64("three"), true).await.unwrap();
        let files = upload.take(7);
        assert_eq!(std::fs::read_to_string(&files[0]).unwrap(), "three");
        assert!(files.iter().all(|file| file.starts_with(home.path().join("uploads")) && file.ends_with("a b.txt")));
        for name in ["", ".", "..", "../x", "/etc/passwd", "a\\b", "a\0b", &"x".repeat(256)] {
            assert!(upload.piece(&uploads, 7, name, "", true).await.is_err(), "{name:?}");
        }
        assert!(upload.piece(&uploads, 7, "x", "no base64!", true).await.is_err());
    }

    #[tokio::test]
    async fn a_session_takes_so_many_bytes_and_no_more() {
        let home = tempfile::tempdir().unwrap();
        let uploads = Uploads::new(home.path());
        uploads.bytes.store(MOST_BYTES - 3, Ordering::Relaxed);
        let mut upload = Upload::default();
        assert!(upload.piece(&uploads, 1, "x", &STANDARD.encode("four"), true).await.is_err());
        upload.piece(&uploads, 1, "x", &STANDARD.encode("333"), true).await.unwrap();
        assert!(upload.piece(&uploads, 1, "y", &STANDARD.encode("1"), true).await.is_err());
    }
}
