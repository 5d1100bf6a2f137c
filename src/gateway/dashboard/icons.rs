//! The few signs of the frame, drawn inline: no font, no request.

use maud::{Markup, PreEscaped, html};

const MARK: &str = r#"<path d="M7 12V6.5a1.5 1.5 0 0 1 3 0V11m0-.5v-6a1.5 1.5 0 0 1 3 0V11m0-.5v-5a1.5 1.5 0 0 1 3 0V12m0-1.5V8.5a1.5 1.5 0 0 1 3 0V15a6 6 0 0 1-6 6h-1.5a6 6 0 0 1-4.7-2.3L4.3 14.2a1.6 1.6 0 0 1 2.4-2.1L8 13.5"/>"#;

fn sign(size: u8, path: &'static str) -> Markup {
    html! {
        svg width=(size) height=(size) viewBox="0 0 24 24" fill="none" stroke="currentColor" stroke-width="1.8"
            stroke-linecap="round" stroke-linejoin="round" aria-hidden="true" { (PreEscaped(path)) }
    }
}

/// Beckon's mark: a raised hand.
pub(super) fn mark() -> Markup {
    sign(28, MARK)
}

/// The Attention page.
pub(super) fn bell() -> Markup {
    sign(20, r#"<path d="M6 9.5a6 6 0 0 1 12 0c0 5 2 6.5 2 6.5H4s2-1.5 2-6.5"/><path d="M10 19.5a2 2 0 0 0 4 0"/>"#)
}

/// Browser sessions.
pub(super) fn window() -> Markup {
    sign(20, r#"<rect x="3" y="4.5" width="18" height="15" rx="2"/><path d="M3 9h18M6.5 6.8h.01M9 6.8h.01"/>"#)
}

/// A larger browser, for a session without a picture.
pub(super) fn large_window() -> Markup {
    sign(44, r#"<rect x="3" y="4.5" width="18" height="15" rx="2"/><path d="M3 9h18M6.5 6.8h.01M9 6.8h.01"/>"#)
}

/// History.
pub(super) fn clock() -> Markup {
    sign(20, r#"<circle cx="12" cy="12" r="8.5"/><path d="M12 7v5l3.5 2"/>"#)
}

/// Help.
pub(super) fn question() -> Markup {
    sign(
        20,
        r#"<circle cx="12" cy="12" r="8.5"/><path d="M9.5 9.500a2.500 2.500 0 1 1 3.600 2.200c-.8.4-1.100.9-1.100 1.800M12 16.500h.01"/>"#,
    )
}

/// Nothing to do.
pub(super) fn calm() -> Markup {
    sign(44, r#"<circle cx="12" cy="12" r="9"/><path d="m8 12.5 2.8 2.8L16 9.800"/>"#)
}

/// A request that lets a person drive.
pub(super) fn hand() -> Markup {
    sign(14, MARK)
}

/// A request that lets a person look.
pub(super) fn eye() -> Markup {
    sign(14, r#"<path d="M2.5 12S6 5.5 12 5.5 21.5 12 21.5 12 18 18.5 12 18.5 2.5 12 2.5 12"/><circle cx="12" cy="12" r="2.8"/>"#)
}

/// Resolved.
pub(super) fn check() -> Markup {
    sign(14, r#"<path d="m5 12.5 4.5 4.5L19 7"/>"#)
}

/// Rejected.
pub(super) fn cross() -> Markup {
    sign(14, r#"<path d="m6 6 12 12M18 6 6 18"/>"#)
}

/// Cancelled.
pub(super) fn dash() -> Markup {
    sign(14, r#"<path d="M6 12h12"/>"#)
}

/// A deadline.
pub(super) fn hourglass() -> Markup {
    sign(14, r#"<path d="M7 3.5h10M7 20.5h10M8 3.5c0 5 8 5.5 8 8.5s-8 3.5-8 8.5m8 0c0-5-8-5.5-8-8.5s8-3.5 8-8.5"/>"#)
}

/// Something that an agent said.
pub(super) fn robot() -> Markup {
    sign(14, r#"<rect x="4" y="8" width="16" height="11" rx="2.5"/><path d="M12 8V4.5M9 13h.01M15 13h.01"/>"#)
}

/// A keyboard, for phones.
pub(super) fn keyboard() -> Markup {
    sign(18, r#"<rect x="2.5" y="6" width="19" height="12" rx="2"/><path d="M6 10h.01M10 10h.01M14 10h.01M18 10h.01M7 14h10"/>"#)
}
