//! What isolates the browser where the platform does not let Chromium build its own sandbox: each is made so for the test, by the
//! kernel's own means.

use crate::harness::{BOTH, Browser, SHELL, Secret, command_in};
use crate::site::Site;
use serde_json::json;
use std::io::Read as _;

/// In a user namespace that may have none below it.
const NO_NAMESPACES: &[&str] = &[
    "unshare",
    "--user",
    "--map-user=10001",
    "--map-group=10001",
    "--keep-caps",
    "sh",
    "-c",
    "echo 0 > /proc/sys/user/max_user_namespaces && exec setpriv --ambient-caps -all --inh-caps -all --bounding-set -all \"$@\"",
    "sh",
];
/// As root of a user namespace.
const ROOT: &[&str] = &["unshare", "--user", "--map-root-user"];

/// Under a seccomp filter that denies what a container's usual profile denies: making user namespaces, or `chroot` alone.
#[cfg(target_arch = "x86_64")]
const FILTERED: &str = "
import ctypes, os, struct, sys
libc = ctypes.CDLL(None, use_errno=True)
op = lambda code, k, t=0, f=0: struct.pack('HBBI', code, t, f, k)
LOAD, EQUAL, SET, RETURN, ALLOW, EPERM, ENOSYS = 0x20, 0x15, 0x45, 0x06, 0x7fff0000, 0x50001, 0x50026
if sys.argv[1] == 'chroot':
    program = op(LOAD, 0) + op(EQUAL, 161, 0, 1) + op(RETURN, EPERM) + op(RETURN, ALLOW)
else:
    program = (op(LOAD, 0) + op(EQUAL, 435, 5, 0) + op(EQUAL, 272, 3, 0) + op(EQUAL, 56, 0, 4)
        + op(LOAD, 16) + op(SET, 0x10000000, 0, 2) + op(RETURN, EPERM) + op(RETURN, ENOSYS) + op(RETURN, ALLOW))
text = ctypes.create_string_buffer(program)
class Program(ctypes.Structure):
    _fields_ = [('len', ctypes.c_ushort), ('filter', ctypes.c_void_p)]
assert libc.prctl(38, 1, 0, 0, 0) == 0
assert libc.prctl(22, 2, ctypes.byref(Program(len(program) // 8, ctypes.addressof(text))), 0, 0) == 0
os.execvp(sys.argv[2], sys.argv[2:])
";

/// Exit code and what it said.
fn fails(before: &[&str], more: &[&str]) -> (i32, String) {
    let secret = Secret::new();
    let mut arguments = vec!["--listen", "127.0.0.1:0", "--driver-dir", secret.directory.path().to_str().unwrap()];
    arguments.extend(more);
    let mut child = command_in(before, &arguments).spawn().unwrap();
    let mut text = String::new();
    child.stderr.take().unwrap().read_to_string(&mut text).unwrap();
    (child.wait().unwrap().code().unwrap(), text)
}

/// Runs, tells the tier and why, and shows a page.
async fn runs(before: &[&str], flavour: &str, more: &[&str], tier: &str, why: &str) {
    let site = Site::start(&[("/", "<h1>here</h1>")]).await;
    let browser = Browser::start_in(before, flavour, more).await;
    let state = browser.state().await;
    assert_eq!(state.sandbox, tier, "{flavour} {more:?}");
    let message = state.sandbox_message.expect("why");
    assert!(message.starts_with("Chromium's own sandbox is off: ") && message.contains(why), "{flavour} {more:?}: {message}");
    assert!(browser.processes().iter().any(|(_, line)| line.contains("--no-sandbox ")), "{flavour} {more:?}");
    browser.tool("navigate", &json!({ "url": site.url("/") })).await.unwrap();
    assert!(browser.snapshot().await.contains("here"), "{flavour} {more:?}");
}

#[test]
fn without_a_sandbox_and_without_leave_there_is_no_browser() {
    let (code, text) = fails(NO_NAMESPACES, &["--flavour", SHELL]);
    assert_eq!(code, 71, "{text}");
    for word in ["user namespace", "seccomp profile of the chart", "--sandbox-tier Runtime", "--allow-no-sandbox"] {
        assert!(text.contains(word), "{word}: {text}");
    }
    let (code, text) = fails(ROOT, &["--flavour", SHELL]);
    assert_eq!((code, text.contains("as root")), (71, true), "{text}");
}

#[tokio::test]
async fn what_was_allowed_instead_is_told() {
    for flavour in BOTH {
        runs(NO_NAMESPACES, flavour, &["--allow-no-sandbox"], "Compat", "user namespace").await;
        runs(NO_NAMESPACES, flavour, &["--sandbox-tier", "Runtime"], "Runtime", "user namespace").await;
    }
    runs(ROOT, SHELL, &["--allow-no-sandbox"], "Compat", "as root").await;
}

#[cfg(target_arch = "x86_64")]
#[tokio::test]
async fn what_a_seccomp_profile_denies_is_named() {
    for (denied, why) in [("namespaces", "user namespace"), ("chroot", "chroot")] {
        let before = ["python3", "-c", FILTERED, denied];
        let (code, text) = fails(&before, &["--flavour", SHELL]);
        assert_eq!((code, text.contains(why)), (71, true), "{denied}: {text}");
        for flavour in BOTH {
            runs(&before, flavour, &["--allow-no-sandbox"], "Compat", why).await;
        }
    }
}

/// A runtime class isolates as well; where Chromium's own sandbox starts, both do.
#[tokio::test]
async fn leave_to_go_without_is_not_used_where_the_sandbox_starts() {
    for more in [&["--allow-no-sandbox"][..], &["--sandbox-tier", "Runtime"]] {
        let browser = Browser::start_with(SHELL, more).await;
        let state = browser.state().await;
        assert_eq!((state.sandbox.as_str(), state.sandbox_message), ("Native", None), "{more:?}");
        assert!(!browser.processes().iter().any(|(_, line)| line.contains("--no-sandbox")), "{more:?}");
    }
}
