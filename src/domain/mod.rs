//! The rules, as pure functions with `now` passed in: no client, no clock, no runtime.
