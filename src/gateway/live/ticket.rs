//! One-time tickets for sockets. A browser can put nothing into the headers of a WebSocket, and a cookie comes along by
//! itself; a ticket is asked for by a page of ours, lives for 30 s, and opens one socket.

use crate::domain::names::hex;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64;
use hmac::{Hmac, KeyInit as _, Mac as _};
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use sha2::Sha256;

/// How long a ticket can be used.
pub const LIFE: SignedDuration = SignedDuration::from_secs(30);
/// The length of a ticket's nonce in bytes.
const NONCE: usize = 16;
/// Nonce, end, signature.
const LENGTH: usize = NONCE + 8 + 32;

/// What a ticket is good for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ticket<'a> {
    binding: &'a str,
    session: &'a str,
    origin: &'a str,
    nonce: [u8; NONCE],
    expires: i64,
}

/// Why a ticket opens nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TicketError {
    /// Not one of ours, or for another person, session or page.
    #[error("this ticket is not for this view")]
    Wrong,
    /// Too old.
    #[error("this ticket has expired")]
    Expired,
    /// Used before.
    #[error("this ticket was used before")]
    Used,
    /// Nobody could say whether it was used.
    #[error("the ticket could not be checked because the API server did not answer")]
    Unknown,
}

impl<'a> Ticket<'a> {
    /// For one caller, one session's uid, and a page of one origin (empty: a program).
    pub fn new(binding: &'a str, session: &'a str, origin: &'a str, now: Timestamp) -> Self {
        let expires = now.saturating_add(LIFE).unwrap_or(now).as_second();
        Self { binding, session, origin, nonce: rand::random(), expires }
    }

    /// When it ends.
    pub fn expires(&self) -> Timestamp {
        Timestamp::from_second(self.expires).unwrap_or(Timestamp::UNIX_EPOCH)
    }

    /// As text for an address.
    pub fn sign(&self, key: &[u8]) -> String {
        let mut bytes = Vec::with_capacity(LENGTH);
        bytes.extend(self.nonce);
        bytes.extend(self.expires.to_be_bytes());
        if let Some(mac) = self.mac(key) {
            bytes.extend(mac.finalize().into_bytes());
        }
        BASE64.encode(bytes)
    }

    /// Checks a ticket for this caller, session and origin. Returns the name under which its use is recorded.
    pub fn check(text: &str, key: &[u8], binding: &str, session: &str, origin: &str, now: Timestamp) -> Result<String, TicketError> {
        let bytes = BASE64.decode(text).map_err(|_| TicketError::Wrong)?;
        let (nonce, rest) = bytes.split_first_chunk::<NONCE>().ok_or(TicketError::Wrong)?;
        let (expires, signature) = rest.split_first_chunk::<8>().ok_or(TicketError::Wrong)?;
        let claimed = Ticket { binding, session, origin, nonce: *nonce, expires: i64::from_be_bytes(*expires) };
        claimed.mac(key).ok_or(TicketError::Wrong)?.verify_slice(signature).map_err(|_| TicketError::Wrong)?;
        if now.as_second() >= claimed.expires {
            return Err(TicketError::Expired);
        }
        Ok(hex(*nonce))
    }

    fn mac(&self, key: &[u8]) -> Option<Hmac<Sha256>> {
        let mut mac = Hmac::<Sha256>::new_from_slice(key).ok()?;
        mac.update(&self.nonce);
        mac.update(&self.expires.to_be_bytes());
        for part in [self.binding, self.session, self.origin] {
            // With its length before it, no part can borrow from the next.
            mac.update(&(part.len() as u64).to_be_bytes());
            mac.update(part.as_bytes());
        }
        Some(mac)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn a_ticket_is_for_one_person_one_session_one_page_and_30_seconds() {
        let text = Ticket::new("visit 1 ann", "uid-1", "https://b", at(100)).sign(b"key");
        let check = |binding, session, origin, key: &[u8], now| Ticket::check(&text, key, binding, session, origin, at(now)).err();
        assert_eq!(check("visit 1 ann", "uid-1", "https://b", b"key", 129), None);
        assert_eq!(check("visit 1 ann", "uid-1", "https://b", b"key", 130), Some(TicketError::Expired));
        assert_eq!(check("visit 1 bob", "uid-1", "https://b", b"key", 101), Some(TicketError::Wrong));
        assert_eq!(check("visit 1 ann", "uid-2", "https://b", b"key", 101), Some(TicketError::Wrong));
        assert_eq!(check("visit 1 ann", "uid-1", "https://c", b"key", 101), Some(TicketError::Wrong));
        assert_eq!(check("visit 1 annuid", "-1", "https://b", b"key", 101), Some(TicketError::Wrong));
        assert_eq!(check("visit 1 ann", "uid-1", "https://b", b"other", 101), Some(TicketError::Wrong));
        for wrong in ["", "AAAA", "not base64!", &text[1..], &format!("{text}AA")] {
            assert_eq!(Ticket::check(wrong, b"key", "visit 1 ann", "uid-1", "https://b", at(101)), Err(TicketError::Wrong), "{wrong}");
        }
    }

    #[test]
    fn two_tickets_are_recorded_under_two_names() {
        let name = |text: &str| Ticket::check(text, b"k", "a", "s", "", at(1)).unwrap();
        let (a, b) = (Ticket::new("a", "s", "", at(0)).sign(b"k"), Ticket::new("a", "s", "", at(0)).sign(b"k"));
        assert_ne!(name(&a), name(&b));
        assert_eq!(name(&a).len(), 32);
    }
}
