//! What is said of many durations.

use std::time::Duration;

/// The middle, the 95th percentile and the longest of these.
pub fn percentiles(mut all: Vec<Duration>) -> String {
    all.sort();
    let at = |percent: usize| all[(all.len() - 1) * percent / 100];
    format!("p50 {:.1?}, p95 {:.1?}, longest {:.1?} of {}", at(50), at(95), at(100), all.len())
}
