//! Beckon puts a person into an agent's browser session.
//!
//! One binary, three roles: [`controller`] decides, [`gateway`] serves agents and people, [`browser`] keeps one Chromium; and
//! [`plugin`] is `kubectl attention`. State lives in the two kinds of [`api`]; every rule is a pure function of [`domain`].

pub mod api;
pub mod browser;
pub mod cli;
pub mod controller;
pub mod domain;
pub mod driver;
pub mod gateway;
pub mod k8s;
pub mod plugin;
pub mod runtime;
pub mod settings;
