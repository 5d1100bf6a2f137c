//! What the suites stand on: a real control plane, clients for its users, and the `beckon` processes.
//!
//! A suite says `mod support;` and uses what it needs. Everything may be used from many tests at once; names come from
//! [`ControlPlane::namespace`] and [`unique`].

// Each suite uses its part of this module.
#![allow(dead_code, unused_imports)]
// A test that can't set up its world has nothing better to do than to stop with a message.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, clippy::missing_panics_doc)]
#![allow(clippy::disallowed_methods, clippy::print_stderr, clippy::struct_excessive_bools)]

mod control_plane;
mod helm;
mod percentiles;
mod poll;
mod processes;
mod up;

pub use control_plane::{ControlPlane, Options, succeeded};
pub use helm::helm;
pub use percentiles::percentiles;
pub use poll::{eventually, poll_until};
pub use processes::{Beckon, free_port};
pub use up::{Up, xtask};

use std::sync::atomic::{AtomicU32, Ordering};

/// A name that no other test of any process uses.
pub fn unique(prefix: &str) -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default().as_millis();
    format!("{prefix}-{:x}-{:x}-{}", since & 0xffff_ffff, std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}
