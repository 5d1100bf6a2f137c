//! A crash leaves no copy of a process's memory behind.

use nix::sys::resource::{Resource, rlim_t, setrlimit};

/// Less than any core dump has. One byte, since with none Linux still writes to a node's collector of dumps, see core(5).
const NONE: rlim_t = 1;

/// From now on neither this process nor those that it starts leave a core dump: the pages, cookies and tokens in their memory
/// would lie on the node's disk. Raising the limit again takes a privilege that no pod of ours has.
pub fn disable() {
    if let Err(error) = setrlimit(Resource::RLIMIT_CORE, NONE, NONE) {
        tracing::warn!(%error, "core dumps could not be switched off");
    }
}
