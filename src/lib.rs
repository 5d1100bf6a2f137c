//! Beckon puts a person into an agent's browser session.
//!
//! One binary, three roles: [`controller`] decides, `gateway` serves agents and people, `browser` keeps one Chromium. State
//! lives in the two kinds of [`api`]; every rule is a pure function of [`domain`].

pub mod api;
