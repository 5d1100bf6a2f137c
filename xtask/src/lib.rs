//! A control plane and the processes around it, on this machine: what `cargo xtask` and the test suites share.
//!
//! Only small dependencies, so that `cargo xtask` itself compiles in seconds; the API server is spoken to through `kubectl`.

pub mod cargo;
pub mod chromium;
pub mod cluster_binary;
pub mod control_plane;
pub mod failure;
pub mod files;
pub mod generate;
pub mod helm;
pub mod http;
pub mod install;
pub mod kubeconfig;
pub mod pki;
pub mod ports;
pub mod process;
pub mod progress;
#[path = "../../src/settings.rs"]
pub mod settings;
pub mod suites;
pub mod up;
