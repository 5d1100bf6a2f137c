//! Names: of a request, so that a retry is the same request; and of a session. How bytes are written in them.

use crate::api::v1alpha1::Principal;
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::{Digest as _, Sha256};

/// The letters of names: lowercase, no padding, 5 bits each.
const BASE32: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";
/// The letters of a request's name after `a-`: 130 bits.
const REQUEST_LETTERS: usize = 26;
/// The letters of a session's name after `s-`.
pub const SESSION_LETTERS: usize = 10;
/// How often the same question may be asked again after it settled, without a key of its own.
pub const MOST_REPEATS: u32 = 1000;

/// What makes two calls the same request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sameness<'a> {
    /// The requester's own key.
    Key(&'a str),
    /// The digest of what is asked, and how many equal ones have settled before.
    Input {
        /// From [`input_digest`].
        digest: &'a str,
        /// 0 for the first.
        repeat: u32,
    },
}

/// The name of a request: `a-` and a keyed hash of principal, session and what makes it the same request. Nobody without the
/// key can guess or choose it.
#[must_use]
pub fn request(key: &[u8; 32], principal: &Principal, session_uid: &str, sameness: Sameness<'_>) -> String {
    // A shorter key is filled up with zeros to the hash's block: that is HMAC's own rule.
    let mut block = [0; 64];
    block.iter_mut().zip(key).for_each(|(to, from)| *to = *from);
    let mut mac = <Hmac<Sha256>>::new(&block.into());
    let mut part = |bytes: &[u8]| {
        mac.update(&(bytes.len() as u64).to_be_bytes());
        mac.update(bytes);
    };
    part(b"beckon request name 1");
    part(principal.username.as_bytes());
    part(principal.uid.as_deref().unwrap_or_default().as_bytes());
    part(session_uid.as_bytes());
    match sameness {
        Sameness::Key(key) => {
            part(b"key");
            part(key.as_bytes());
        }
        Sameness::Input { digest, repeat } => {
            part(b"input");
            part(digest.as_bytes());
            part(&repeat.to_be_bytes());
        }
    }
    format!("a-{}", letters(&mac.finalize().into_bytes(), REQUEST_LETTERS))
}

/// The digest of what is asked, to tell a retry from another question. `parts` in a fixed order; absent ones are told from
/// empty ones.
#[must_use]
pub fn input_digest(parts: &[Option<&str>]) -> String {
    let mut hash = Sha256::new();
    for part in parts {
        match part {
            None => hash.update([0]),
            Some(text) => {
                hash.update([1]);
                hash.update((text.len() as u64).to_be_bytes());
                hash.update(text.as_bytes());
            }
        }
    }
    format!("sha256:{}", letters(&hash.finalize(), 52))
}

/// Bytes in lowercase hexadecimal.
#[must_use]
pub fn hex(bytes: impl IntoIterator<Item = u8>) -> String {
    bytes.into_iter().flat_map(|byte| [byte >> 4, byte & 15]).filter_map(|digit| char::from_digit(digit.into(), 16)).collect()
}

/// The name of a session from random bytes.
#[must_use]
pub fn session(random: [u8; SESSION_LETTERS]) -> String {
    const LETTERS: &[u8; 36] = b"abcdefghijklmnopqrstuvwxyz0123456789";
    let letter = |byte: u8| LETTERS.get(usize::from(byte) % LETTERS.len()).map_or('a', |b| char::from(*b));
    format!("s-{}", random.into_iter().map(letter).collect::<String>())
}

fn letters(bytes: &[u8], count: usize) -> String {
    let bit = |n: usize| bytes.get(n / 8).is_some_and(|byte| byte >> (7 - n % 8) & 1 == 1);
    (0..count)
        .map(|letter| (0..5).fold(0_usize, |value, n| value << 1 | usize::from(bit(letter * 5 + n))))
        .map(|value| BASE32.get(value).map_or('a', |b| char::from(*b)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn bytes_in_hexadecimal() {
        assert_eq!(hex([0, 10, 255]), "000aff");
        assert_eq!(hex([]), "");
    }

    fn ada() -> Principal {
        Principal { uid: Some("1".into()), ..Principal::named("ada") }
    }

    #[test]
    fn base32_is_the_usual_one() {
        assert_eq!(letters(b"foobar", 10), "mzxw6ytboi");
    }

    #[test]
    fn a_name_is_a_valid_object_name_of_fixed_length() {
        let name = request(&[7; 32], &ada(), "u", Sameness::Key("k"));
        assert_eq!(name.len(), 28);
        assert!(name.starts_with("a-") && name.bytes().skip(2).all(|b| BASE32.contains(&b)), "{name}");
        assert_eq!(name, request(&[7; 32], &ada(), "u", Sameness::Key("k")), "a retry is the same request");
        assert_eq!(session([0, 35, 36, 255, 1, 2, 3, 4, 5, 6]).len(), 12);
    }

    #[test]
    fn every_part_counts() {
        let base = (ada(), "u", Sameness::Input { digest: "d", repeat: 0 });
        let name = |key: u8, (who, session, same): &(Principal, &str, Sameness<'_>)| request(&[key; 32], who, session, *same);
        let mut names = vec![name(1, &base), name(2, &base)];
        names.push(name(1, &(Principal::named("ada"), "u", base.2)));
        names.push(name(1, &(Principal { uid: Some("1".into()), ..Principal::named("bob") }, "u", base.2)));
        names.push(name(1, &(ada(), "v", base.2)));
        names.push(name(1, &(ada(), "u", Sameness::Input { digest: "d", repeat: 1 })));
        names.push(name(1, &(ada(), "u", Sameness::Input { digest: "e", repeat: 0 })));
        names.push(name(1, &(ada(), "u", Sameness::Key("d"))));
        let unique: std::collections::BTreeSet<_> = names.iter().collect();
        assert_eq!(unique.len(), names.len());
    }

    proptest! {
        #[test]
        fn digests_differ_when_inputs_do(a in proptest::collection::vec(proptest::option::of(".{0,4}"), 6), b in proptest::collection::vec(proptest::option::of(".{0,4}"), 6)) {
            let digest = |parts: &[Option<String>]| input_digest(&parts.iter().map(Option::as_deref).collect::<Vec<_>>());
            prop_assert_eq!(a == b, digest(&a) == digest(&b));
        }
    }
}
