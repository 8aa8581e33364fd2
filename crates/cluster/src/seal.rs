//! Proof that data was written by a node with the cluster's token: HMAC (RFC 2104) with SHA-256, truncated to 128 bits, by
//! a key that follows from the token. Clients get such seals, so the derivation of that key has to be slow.
//!
//! Each kind of message has its own key, so that a seal of one kind is not valid for another. The parts of a message are
//! sealed with their lengths, so that no two messages are sealed as the same bytes. A cluster without a token has no seals:
//! all data counts as written by a node.
//!
//! This module does not protect from replays. If a message must be bound to a node, a key or a nonce, that is
//! one of its parts.

use hmac::{Hmac, Mac};
use larder_words::{debug_as, hex};
use sha2::Sha256;

/// Bytes of a seal.
const LEN: usize = 16;
/// The text in place of a seal where there is no token.
const NONE: &str = "-";

/// A kind of message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MessageKind {
    /// The members of the cluster, and their addresses.
    Member,
    /// The order that a node owns no keys.
    Draining,
    /// The position up to which a node has applied the stream.
    Position,
    /// An entry of the stream.
    Entry,
    /// A record of the second tier.
    Record,
    /// A chunk of a record's content.
    Chunk,
    /// A request of one node to another.
    Request,
    /// The answer to a challenge.
    Proof,
    /// A position that was sent to a client.
    Client,
}

const KINDS: [&str; 9] =
    ["member", "draining", "position", "entry", "record", "chunk", "request", "proof", "client"];

type Code = Hmac<Sha256>;

/// Creates seals of messages, and verifies that messages were sealed with the same token.
#[derive(Clone)]
pub struct Seal(Option<Box<[Code; KINDS.len()]>>);

impl Seal {
    /// Creates the seal of a cluster whose keys in the engine begin with `prefix`, with the secret `key` that follows from
    /// its token; `None`: it has no token.
    pub fn new(key: Option<&[u8]>, prefix: &str) -> Self {
        let code = |key: &[u8], kind: &str| {
            let key = code_of(key, &[b"larder cluster 1", prefix.as_bytes(), kind.as_bytes()]);
            keyed(&key.finalize().into_bytes())
        };
        Self(key.map(|key| Box::new(KINDS.map(|kind| code(key, kind)))))
    }

    /// Whether there is a token.
    pub fn is_on(&self) -> bool {
        self.0.is_some()
    }

    /// Returns the seal of a message, as text.
    pub fn text(&self, kind: MessageKind, parts: &[&[u8]]) -> String {
        let Some(code) = self.code(kind, parts) else { return NONE.to_owned() };
        let bytes = code.finalize().into_bytes();
        hex(&bytes[..LEN])
    }

    /// Whether `shown` is the seal of this message. The comparison takes constant time.
    pub fn is(&self, kind: MessageKind, parts: &[&[u8]], shown: &[u8]) -> bool {
        let Some(code) = self.code(kind, parts) else { return shown == NONE.as_bytes() };
        let digit = |byte: u8| char::from(byte).to_digit(16).map(|digit| digit as u8);
        let (pairs, rest) = shown.as_chunks::<2>();
        let bytes: Option<Vec<_>> =
            pairs.iter().map(|[high, low]| Some(digit(*high)? << 4 | digit(*low)?)).collect();
        let is_long = |bytes: &Vec<u8>| bytes.len() == LEN && rest.is_empty();
        bytes.filter(is_long).is_some_and(|bytes| code.verify_truncated_left(&bytes).is_ok())
    }

    /// Appends the seal to `value`. The seal covers `about` as well, which is not part of the result.
    pub fn close(&self, kind: MessageKind, about: &[&[u8]], mut value: Vec<u8>) -> Vec<u8> {
        if let Some(code) = self.code(kind, &[about, &[&value]].concat()) {
            value.extend_from_slice(&code.finalize().into_bytes()[..LEN]);
        }
        value
    }

    /// Returns the sealed value; `None` if the seal is missing or invalid.
    pub fn open<'v>(&self, kind: MessageKind, about: &[&[u8]], closed: &'v [u8]) -> Option<&'v [u8]> {
        if !self.is_on() {
            return Some(closed);
        }
        let (value, shown) = closed.split_at_checked(closed.len().checked_sub(LEN)?)?;
        let code = self.code(kind, &[about, &[value]].concat())?;
        code.verify_truncated_left(shown).is_ok().then_some(value)
    }

    fn code(&self, kind: MessageKind, parts: &[&[u8]]) -> Option<Code> {
        let mut code = self.0.as_ref()?[kind as usize].clone();
        update(&mut code, parts);
        Some(code)
    }
}

// The keys are not shown.
debug_as!(Seal, |seal| "Seal({})", if seal.is_on() { ".." } else { "none" });

fn keyed(key: &[u8]) -> Code {
    // HMAC accepts keys of any length.
    Code::new_from_slice(key).unwrap_or_else(|_| unreachable!("HMAC takes keys of any length"))
}

fn code_of(key: &[u8], parts: &[&[u8]]) -> Code {
    let mut code = keyed(key);
    update(&mut code, parts);
    code
}

fn update(code: &mut Code, parts: &[&[u8]]) {
    for part in parts {
        code.update(&(part.len() as u64).to_le_bytes());
        code.update(part);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const KEY: Option<&[u8]> = Some(b"0123456789abcdef");

    #[test]
    fn a_seal_is_worth_nothing_for_anything_else() {
        let (seal, parts) = (Seal::new(KEY, "larder"), [&b"a"[..], b"bc"]);
        let text = seal.text(MessageKind::Member, &parts);
        assert!(seal.is(MessageKind::Member, &parts, text.as_bytes()));
        assert!(!seal.is(MessageKind::Entry, &parts, text.as_bytes()), "another kind");
        assert!(!seal.is(MessageKind::Member, &[b"ab", b"c"], text.as_bytes()), "other parts");
        assert!(!Seal::new(KEY, "other").is(MessageKind::Member, &parts, text.as_bytes()), "another cluster");
        assert!(!Seal::new(Some(b"fedcba9876543210"), "larder").is(
            MessageKind::Member,
            &parts,
            text.as_bytes()
        ));
        for shown in ["", "-", &text[..30], &format!("{text}00"), &text[1..]] {
            assert!(!seal.is(MessageKind::Member, &parts, shown.as_bytes()), "{shown}");
        }
    }

    #[test]
    fn without_a_token_nothing_is_sealed() {
        let none = Seal::new(None, "larder");
        assert_eq!(none.text(MessageKind::Entry, &[b"a"]), "-");
        assert!(none.is(MessageKind::Entry, &[b"a"], b"-") && !none.is(MessageKind::Entry, &[b"a"], b""));
        assert_eq!(none.close(MessageKind::Record, &[], b"v".to_vec()), b"v");
        assert_eq!(none.open(MessageKind::Record, &[], b"v"), Some(&b"v"[..]));
    }

    /// The expected value was computed separately, with Python's hmac.
    #[test]
    fn a_golden_seal() {
        let text = Seal::new(KEY, "larder").text(MessageKind::Request, &[b"GET", b"/"]);
        assert_eq!(text, "cd28a740a2c8f4d59fb763c54aac621a");
    }

    proptest! {
        #[test]
        fn a_value_opens_only_as_it_was_closed(value: Vec<u8>, about: Vec<u8>, other: Vec<u8>, damage: (usize, u8)) {
            let seal = Seal::new(KEY, "larder");
            let mut closed = seal.close(MessageKind::Chunk, &[&about], value.clone());
            prop_assert_eq!(seal.open(MessageKind::Chunk, &[&about], &closed), Some(&value[..]));
            prop_assert_eq!(seal.open(MessageKind::Record, &[&about], &closed), None);
            prop_assert!(other == about || seal.open(MessageKind::Chunk, &[&other], &closed).is_none());
            let at = damage.0 % closed.len();
            closed[at] ^= damage.1.max(1);
            prop_assert_eq!(seal.open(MessageKind::Chunk, &[&about], &closed), None);
        }
    }
}
