//! The live view.

/// The live view of this session.
#[derive(Default)]
pub struct Live {}

impl Live {
    /// Somebody acts on the page.
    pub fn acted(&self) {}
}
