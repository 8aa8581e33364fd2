//! Users with the hashes of their passwords, and tokens, read from files.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use argon2::password_hash::rand_core::OsRng;
use argon2::password_hash::{PasswordHash, PasswordHasher, PasswordVerifier, SaltString};
use argon2::{Algorithm, Argon2, Params};
use aws_lc_rs::{hmac, rand};
use larder_words::debug_as;

/// Users: lines of `name:hash` in the format of `larder passwd` and `htpasswd -B`.
#[derive(Clone, PartialEq, Eq)]
pub struct Users {
    source: Box<str>,
    hashes: BTreeMap<Box<str>, Hash>,
    /// A hash that identifies the whole content.
    print: Print,
}

/// Tokens: lines of a token, or of a name and its token.
#[derive(Clone, PartialEq, Eq)]
pub struct Tokens {
    source: Box<str>,
    names: BTreeMap<Print, Box<str>>,
}

/// A line of such a file that is invalid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadLine {
    /// The number of the line, from 1.
    pub line: usize,
    /// The reason.
    pub why: String,
}

#[derive(Clone, PartialEq, Eq)]
enum Hash {
    /// A hash in the PHC string format.
    Argon2(Box<str>),
    Bcrypt(Box<str>),
}

/// A keyed hash of a secret. Within this process, equal secrets have equal hashes; the hash discloses nothing more.
pub type Print = [u8; 32];

/// Maximum cost of a hash: its memory in KiB, its passes over that memory times its KiB, and the rounds of bcrypt as a
/// power of 2.
const MOST_MEMORY: u32 = 256 << 10;
const MOST_PASSES: u64 = 1 << 20;
const MOST_ROUNDS: u32 = 15;

pub(super) fn print(parts: &[&[u8]]) -> Print {
    static KEY: LazyLock<hmac::Key> = LazyLock::new(|| {
        let mut key = [0; 32];
        // Without random bytes, TLS would not work either. The fixed key only makes hashes comparable between
        // processes.
        let _ = rand::fill(&mut key);
        hmac::Key::new(hmac::HMAC_SHA256, &key)
    });
    let mut code = hmac::Context::with_key(&KEY);
    for part in parts {
        code.update(&(part.len() as u64).to_le_bytes());
        code.update(part);
    }
    let mut print = [0; 32];
    print.copy_from_slice(code.sign().as_ref());
    print
}

impl Users {
    /// Maximum length of a password, in bytes.
    pub const LONGEST_PASSWORD: usize = 1_024;

    /// Hashes a new password with argon2id and the parameters that its authors recommend (RFC 9106 section 4).
    pub fn hash(password: &[u8]) -> String {
        let salt = SaltString::generate(&mut OsRng);
        let hash = Argon2::default().hash_password(password, &salt);
        hash.map(|hash| hash.to_string()).unwrap_or_default()
    }

    /// Parses `text`, the content of the file `source`. `#` begins a comment.
    ///
    /// # Errors
    /// The first line that is not a user with an argon2 or bcrypt hash.
    pub fn parse(source: &str, text: &str) -> Result<Self, BadLine> {
        let mut hashes = BTreeMap::new();
        for (line, text) in lines(text) {
            let bad = |why: String| BadLine { line, why };
            let (name, hash) = text
                .split_once(':')
                .filter(|(name, _)| !name.is_empty())
                .ok_or_else(|| bad("expected NAME:HASH, as larder passwd writes it".to_owned()))?;
            let hash = Hash::parse(hash).map_err(bad)?;
            if hashes.insert(name.into(), hash).is_some() {
                return Err(bad(format!("'{}' is listed twice", name.escape_debug())));
            }
        }
        Ok(Self { source: source.into(), hashes, print: print(&[text.as_bytes()]) })
    }

    /// Whether `password` is the password of the user `name`. This is slow by design, for an unknown user as well.
    pub fn are(&self, name: &str, password: &[u8]) -> bool {
        let (hash, is_known) = match self.hashes.get(name) {
            Some(hash) => (Some(hash), true),
            None => (self.hashes.values().next(), false),
        };
        let is_short = password.len() <= Self::LONGEST_PASSWORD;
        hash.is_some_and(|hash| is_short && hash.is_of(password)) && is_known
    }

    /// Returns the key under which a cache stores that [`are`](Self::are) accepted `name` with `password`.
    pub fn print(&self, name: &str, password: &[u8]) -> Print {
        print(&[&self.print, name.as_bytes(), password])
    }

    /// Returns the file of the users.
    pub fn source(&self) -> &str {
        &self.source
    }
}

impl Tokens {
    /// Minimum of characters of a token.
    pub const SHORTEST: usize = 16;

    /// Parses `text`, the content of the file `source`. `#` begins a comment.
    ///
    /// # Errors
    /// The first line that is not a token.
    pub fn parse(source: &str, text: &str) -> Result<Self, BadLine> {
        let mut names = BTreeMap::new();
        for (line, text) in lines(text) {
            let mut words = text.split_ascii_whitespace();
            let (name, token) = match [words.next(), words.next(), words.next()] {
                [Some(token), None, _] => ("", token),
                [Some(name), Some(token), None] => (name, token),
                _ => return Err(BadLine { line, why: "expected TOKEN, or NAME TOKEN".to_owned() }),
            };
            if token.len() < Self::SHORTEST {
                let shortest = Self::SHORTEST;
                let why = format!(
                    "a token has at least {shortest} characters, such as openssl rand -hex 16 prints"
                );
                return Err(BadLine { line, why });
            }
            names.insert(print(&[token.as_bytes()]), name.into());
        }
        Ok(Self { source: source.into(), names })
    }

    /// Returns the name of the owner of `token`; empty if the file has none. `None` if the token is unknown. The
    /// duration discloses nothing about the tokens.
    pub fn name_of(&self, token: &[u8]) -> Option<&str> {
        self.names.get(&print(&[token])).map(|name| &**name)
    }

    /// Whether the owner of one of them has no name.
    pub fn lack_names(&self) -> bool {
        self.names.values().any(|name| name.is_empty())
    }

    /// Returns the file of the tokens.
    pub fn source(&self) -> &str {
        &self.source
    }
}

impl Hash {
    fn parse(text: &str) -> Result<Self, String> {
        if text.starts_with("$argon2") {
            let hash =
                PasswordHash::new(text).map_err(|error| format!("the hash cannot be read: {error}"))?;
            let params =
                Params::try_from(&hash).map_err(|error| format!("the hash cannot be read: {error}"))?;
            if Algorithm::try_from(hash.algorithm).is_err() || hash.hash.is_none() {
                return Err("the hash is incomplete".to_owned());
            }
            if params.m_cost() > MOST_MEMORY {
                return Err(format!("the hash takes more than {} MiB to compute", MOST_MEMORY >> 10));
            }
            if u64::from(params.m_cost()) * u64::from(params.t_cost()) > MOST_PASSES {
                return Err(format!("argon2 with {} passes takes too long", params.t_cost()));
            }
            return Ok(Self::Argon2(text.into()));
        }
        let is_bcrypt = ["$2y$", "$2b$", "$2a$"].iter().any(|start| text.starts_with(start));
        match text.parse::<bcrypt::HashParts>() {
            Ok(parts) if is_bcrypt && parts.get_cost() <= MOST_ROUNDS => Ok(Self::Bcrypt(text.into())),
            Ok(_) if is_bcrypt => Err(format!("bcrypt with more than 2^{MOST_ROUNDS} rounds takes too long")),
            _ => Err("the hash is neither argon2id nor bcrypt: larder passwd and htpasswd -B write these"
                .to_owned()),
        }
    }

    fn is_of(&self, password: &[u8]) -> bool {
        match self {
            Self::Argon2(text) => PasswordHash::new(text)
                .is_ok_and(|hash| Argon2::default().verify_password(password, &hash).is_ok()),
            Self::Bcrypt(text) => bcrypt::verify(password, text).unwrap_or(false),
        }
    }
}

/// Returns the lines of a file without comments and empty lines, with their numbers.
fn lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let numbered = text.lines().enumerate().map(|(at, line)| (at + 1, line.trim()));
    numbered.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'))
}

debug_as!(Users, |users| "{} users of {}", users.hashes.len(), users.source);

debug_as!(Tokens, |tokens| "{} tokens of {}", tokens.names.len(), tokens.source);

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The hash of `open sesame` by `htpasswd -nbB -C 4`.
    const BCRYPT: &str = "$2y$04$kTb6CD33HQu5TaNPdAbYNujtpQj1pW5VBgqhBLfyhnd.v0UWCPJza";

    #[test]
    fn bad_lines_are_named() {
        for (text, line, why) in [
            ("# users\n\nann\n", 3, "NAME:HASH"),
            (":x\n", 1, "NAME:HASH"),
            ("ann:secret\n", 1, "neither argon2id nor bcrypt"),
            ("ann:$apr1$x$y\n", 1, "neither argon2id nor bcrypt"),
            ("ann:$argon2id$v=19$m=8\n", 1, "incomplete"),
            (
                "ann:$argon2id$v=19$m=9000000,t=1,p=1$c29tZXNhbHQ$iWPMHMpKxHRGW/oaNfCDHw\n",
                1,
                "more than 256 MiB",
            ),
            (
                "ann:$argon2id$v=19$m=65536,t=17,p=1$c29tZXNhbHQ$iWPMHMpKxHRGW/oaNfCDHw\n",
                1,
                "17 passes takes too long",
            ),
        ] {
            let bad = Users::parse("users", text).expect_err(text);
            assert!(bad.line == line && bad.why.contains(why), "{text}: {bad:?}");
        }
        let twice = format!("ann:{BCRYPT}\nann:{BCRYPT}\n");
        assert_eq!(Users::parse("users", &twice).map_err(|bad| bad.line), Err(2));
        assert_eq!(Tokens::parse("tokens", "short\n").map_err(|bad| bad.line), Err(1));
        assert_eq!(Tokens::parse("tokens", "a b c\n").map_err(|bad| bad.line), Err(1));
    }

    #[test]
    fn a_user_is_known_by_the_password() {
        let ann = Users::hash(b"secret");
        assert!(ann.starts_with("$argon2id$v=19$"), "{ann}");
        let users = Users::parse("users", &format!("ann:{ann}\nbea:{BCRYPT}\n")).unwrap();
        assert!(users.are("ann", b"secret") && users.are("bea", b"open sesame"));
        for (name, password) in
            [("ann", "Secret"), ("ann", ""), ("bea", "secret"), ("eve", "secret"), ("", "")]
        {
            assert!(!users.are(name, password.as_bytes()), "{name} {password}");
        }
        assert!(!users.are("bea", &[b'x'; Users::LONGEST_PASSWORD + 1]));
    }

    #[test]
    fn tokens_have_names() {
        let tokens = Tokens::parse("tokens", "0123456789abcdef\napp fedcba9876543210 \n").unwrap();
        assert_eq!(tokens.name_of(b"0123456789abcdef"), Some(""));
        assert_eq!(tokens.name_of(b"fedcba9876543210"), Some("app"));
        assert_eq!(tokens.name_of(b"0123456789abcdeg"), None);
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in "(\\PC|\n|:|\\$argon2id\\$|\\$2y\\$04\\$){0,20}") {
            if let Ok(users) = Users::parse("users", &text) {
                prop_assert!(!users.are("", b"x"));
            }
            let _ = Tokens::parse("tokens", &text);
        }
    }
}
