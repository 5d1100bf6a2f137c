//! The cookie of a signed-in person: sealed, so that every replica can read it and nobody else; two ends, one idle and one
//! hard.

use crate::gateway::auth::Principal;
use axum_extra::extract::PrivateCookieJar;
use axum_extra::extract::cookie::{Cookie, Key, SameSite};
use http::HeaderMap;
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The cookie's name. The prefix makes browsers hold to this host, this path and a secure channel; Chromium and Firefox
/// count loopback as one.
pub const NAME: &str = "__Host-beckon";
/// The visit ends after this long without a call.
pub const IDLE: SignedDuration = SignedDuration::from_mins(15);
/// The visit ends after this long in any case.
pub const TOTAL: SignedDuration = SignedDuration::from_hours(8);
/// A call moves the idle end only when this much has passed, so that most replies set no cookie.
const FRESH: SignedDuration = SignedDuration::from_mins(1);
/// Browsers drop a cookie of more than 4096 bytes, its name and attributes included.
const LARGEST: usize = 3_900;

/// A signed-in person.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Visit {
    /// Tells visits of one person apart; tickets are bound to it.
    pub id: String,
    /// Who it is, as the API server verified it.
    pub who: Principal,
    /// When they signed in.
    pub since: Timestamp,
    /// When they last called.
    pub seen: Timestamp,
}

/// The person has more groups than a cookie holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("this account has too many groups for a cookie: use an account with fewer, or a bearer token with the API")]
pub struct TooLarge;

/// What is in the cookie. Short names: a cookie is small.
#[derive(Serialize, Deserialize)]
struct Stored {
    i: String,
    u: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    d: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    g: Vec<String>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    x: BTreeMap<String, Vec<String>>,
    s: i64,
    l: i64,
}

impl Visit {
    /// A visit that begins now.
    pub fn begin(who: Principal, now: Timestamp) -> Self {
        let id: u64 = rand::random();
        Self { id: format!("{id:016x}"), who, since: now, seen: now }
    }

    /// When it ends unless the person calls again.
    pub fn ends(&self) -> Timestamp {
        let idle = self.seen.saturating_add(IDLE).unwrap_or(self.seen);
        idle.min(self.hard_end())
    }

    /// When it ends in any case.
    pub fn hard_end(&self) -> Timestamp {
        self.since.saturating_add(TOTAL).unwrap_or(self.since)
    }

    /// The visit of a request, if it has one that is not over.
    pub fn read(headers: &HeaderMap, key: &Key, now: Timestamp) -> Option<Self> {
        let jar = PrivateCookieJar::from_headers(headers, key.clone());
        let visit = Self::parse(jar.get(NAME)?.value())?;
        // A time ahead of ours comes from a replica whose clock is: a minute is forgiven.
        let sane = visit.seen.duration_since(now) <= FRESH;
        (sane && now < visit.ends()).then_some(visit)
    }

    /// The visit as of now, when that is worth a new cookie.
    pub fn touched(&self, now: Timestamp) -> Option<Self> {
        (now.duration_since(self.seen) >= FRESH).then(|| Self { seen: now, ..self.clone() })
    }

    /// The `Set-Cookie` headers that store it.
    pub fn store(&self, key: &Key) -> Result<PrivateCookieJar, TooLarge> {
        let value = serde_json::to_string(&Stored {
            i: self.id.clone(),
            u: self.who.username.clone(),
            d: self.who.uid.clone(),
            g: self.who.groups.clone(),
            x: self.who.extra.clone(),
            s: self.since.as_second(),
            l: self.seen.as_second(),
        })
        .map_err(|_| TooLarge)?;
        // Sealing adds a nonce and a tag, and writes base64.
        if (value.len() + 28) * 4 / 3 > LARGEST {
            return Err(TooLarge);
        }
        Ok(PrivateCookieJar::from_headers(&HeaderMap::new(), key.clone()).add(cookie(value)))
    }

    /// The `Set-Cookie` header that ends it.
    pub const FORGET: &'static str = "__Host-beckon=; Path=/; Max-Age=0; Secure; HttpOnly; SameSite=Strict";

    fn parse(text: &str) -> Option<Self> {
        let stored: Stored = serde_json::from_str(text).ok()?;
        Some(Self {
            id: stored.i,
            who: Principal { username: stored.u, uid: stored.d, groups: stored.g, extra: stored.x },
            since: Timestamp::from_second(stored.s).ok()?,
            seen: Timestamp::from_second(stored.l).ok()?,
        })
    }
}

fn cookie(value: String) -> Cookie<'static> {
    Cookie::build((NAME, value)).path("/").secure(true).http_only(true).same_site(SameSite::Strict).build()
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::response::IntoResponse as _;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn key(seed: u8) -> Key {
        Key::from(&[seed; 64])
    }

    fn visit() -> Visit {
        let who = Principal {
            username: "ann".into(),
            uid: Some("7".into()),
            groups: vec!["oncall".into()],
            extra: BTreeMap::from([("a/b".into(), vec!["c".into()])]),
        };
        Visit::begin(who, at(1_000_000))
    }

    fn sent(jar: PrivateCookieJar) -> (String, HeaderMap) {
        let reply = jar.into_response();
        let set = reply.headers().get("set-cookie").unwrap().to_str().unwrap().to_owned();
        let mut back = HeaderMap::new();
        back.insert("cookie", set.split(';').next().unwrap().parse().unwrap());
        (set, back)
    }

    #[test]
    fn a_visit_comes_back_whole_and_is_sealed() {
        let visit = visit();
        let (set, back) = sent(visit.store(&key(1)).unwrap());
        for word in ["__Host-beckon=", "; HttpOnly", "; SameSite=Strict", "; Secure", "; Path=/"] {
            assert!(set.contains(word), "{word}: {set}");
        }
        assert!(!set.contains("ann") && !set.contains("Domain"), "{set}");
        assert_eq!(Visit::read(&back, &key(1), at(1_000_010)), Some(visit));
        assert_eq!(Visit::read(&back, &key(2), at(1_000_010)), None);
        assert_eq!(Visit::read(&HeaderMap::new(), &key(1), at(1_000_010)), None);
    }

    #[test]
    fn it_ends_when_idle_and_in_any_case() {
        let begun = visit();
        let read = |visit: &Visit, now: i64| Visit::read(&sent(visit.store(&key(1)).unwrap()).1, &key(1), at(now)).is_some();
        assert!(read(&begun, 1_000_000 + 899));
        assert!(!read(&begun, 1_000_000 + 900));
        assert!(!read(&begun, 1_000_000 - 61));
        let kept = Visit { seen: at(1_000_000 + 28_799), ..begun.clone() };
        assert!(read(&kept, 1_000_000 + 28_799));
        assert!(!read(&kept, 1_000_000 + 28_800));
        assert_eq!(begun.touched(at(1_000_059)), None);
        assert_eq!(begun.touched(at(1_000_060)).map(|v| (v.id, v.since, v.seen)), Some((begun.id.clone(), begun.since, at(1_000_060))));
    }

    #[test]
    fn a_cookie_that_browsers_would_drop_is_refused() {
        let mut visit = visit();
        visit.who.groups = (0..400).map(|n| format!("group-{n:04}")).collect();
        assert!(visit.store(&key(1)).is_err());
    }
}
