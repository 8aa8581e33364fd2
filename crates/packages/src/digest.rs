//! Digests of content, in the notations of registries, and their verification.

use std::fmt;

use aws_lc_rs::digest::{self as hash, Context};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use larder_words::{debug_as, hex, named};

use crate::archive::ArchiveHash;

named! {
    /// A function that makes digests.
    #[derive(PartialOrd, Ord, Hash)]
    pub enum Algorithm, name {
        /// SHA-1, which Maven and old npm packages have; it detects damage rather than an attacker.
        Sha1 = "sha1",
        /// SHA-256.
        Sha256 = "sha256",
        /// The `h1:` hash of a `go.mod` file (`golang.org/x/mod/sumdb/dirhash`): SHA-256 of a line with its SHA-256.
        GoMod = "h1",
        /// The `h1:` hash of an archive of a module: SHA-256 of a line with the SHA-256 of each of its files.
        GoZip = "h1-zip",
        /// SHA-512.
        Sha512 = "sha512",
    }
}

impl Algorithm {
    fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|own| own.name().eq_ignore_ascii_case(name))
    }

    fn function(self) -> &'static hash::Algorithm {
        match self {
            Self::Sha1 => &hash::SHA1_FOR_LEGACY_USE_ONLY,
            Self::Sha256 | Self::GoMod | Self::GoZip => &hash::SHA256,
            Self::Sha512 => &hash::SHA512,
        }
    }

    fn begin(self) -> State {
        match self {
            Self::GoZip => State::Archive(Box::default()),
            _ => State::Whole(Context::new(self.function())),
        }
    }

    /// Returns the digest that this state has reached.
    fn end(self, state: State) -> Digest {
        let line_of = |(name, sum): &(String, Vec<u8>)| format!("{}  {name}\n", hex(sum));
        let lines = match state {
            State::Whole(context) => {
                let found = context.finish();
                if self != Self::GoMod {
                    return Digest::cut(self, found.as_ref());
                }
                line_of(&("go.mod".to_owned(), found.as_ref().to_vec()))
            }
            // No module has these lines.
            State::Archive(archive) => archive.finish().map_or_else(
                || "not an archive".to_owned(),
                |files| files.iter().map(line_of).collect::<String>(),
            ),
        };
        Digest::cut(self, hash::digest(self.function(), lines.as_bytes()).as_ref())
    }
}

/// The state of a digest whose content arrives in pieces.
enum State {
    Whole(Context),
    Archive(Box<ArchiveHash>),
}

impl State {
    fn update(&mut self, piece: &[u8]) {
        match self {
            Self::Whole(context) => context.update(piece),
            Self::Archive(archive) => archive.update(piece),
        }
    }
}

/// The length in bytes to which digests are cut: 256 bits are as many as anybody can forge none of.
const KEPT: usize = 32;

/// The digest of some content. Longer ones are cut to their first 32 bytes, since indexes name many.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Digest {
    algorithm: Algorithm,
    value: [u8; KEPT],
}

impl Digest {
    /// Returns the digest of this content.
    pub fn of(algorithm: Algorithm, content: &[u8]) -> Self {
        let mut state = algorithm.begin();
        state.update(content);
        algorithm.end(state)
    }

    /// Returns the digest with this value, if that is as long as the algorithm's.
    pub fn new(algorithm: Algorithm, value: &[u8]) -> Option<Self> {
        (value.len() == algorithm.function().output_len()).then(|| Self::cut(algorithm, value))
    }

    /// Reads a digest in hexadecimal digits, as most indexes write it.
    pub fn hex(algorithm: Algorithm, text: &str) -> Option<Self> {
        Self::new(algorithm, &unhex(text)?)
    }

    /// Reads `sha256:` with hexadecimal digits, the notation of OCI (image-spec, "Digests").
    pub fn oci(text: &str) -> Option<Self> {
        let (name, digits) = text.split_once(':')?;
        let algorithm = [Algorithm::Sha256, Algorithm::Sha512].into_iter().find(|own| own.name() == name)?;
        // Registries accept lower case only; another spelling would be another URL for the same content.
        let is_lower = digits.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        Self::hex(algorithm, digits).filter(|_| is_lower)
    }

    /// Reads `sha512-` with base64, the notation of npm (W3C Subresource Integrity). Of several digests, the strongest
    /// counts.
    pub fn integrity(text: &str) -> Option<Self> {
        let one = |part: &str| {
            let (name, value) = part.split_once('-')?;
            let value = STANDARD.decode(value.split('?').next()?).ok()?;
            Self::new(Algorithm::named(name)?, &value)
        };
        text.split_ascii_whitespace().filter_map(one).max_by_key(|digest| digest.algorithm)
    }

    /// Reads `h1:` with base64, a hash in Go's checksum database.
    pub(crate) fn go(algorithm: Algorithm, text: &str) -> Option<Self> {
        Self::new(algorithm, &STANDARD.decode(text.strip_prefix("h1:")?).ok()?)
    }

    fn cut(algorithm: Algorithm, value: &[u8]) -> Self {
        let mut cut = [0; KEPT];
        cut.iter_mut().zip(value).for_each(|(to, from)| *to = *from);
        Self { algorithm, value: cut }
    }

    /// Reads what [`Display`](fmt::Display) writes.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (name, digits) = text.split_once(':')?;
        Some(Self { algorithm: Algorithm::named(name)?, value: unhex(digits)?.try_into().ok()? })
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.algorithm.name(), hex(&self.value))
    }
}

debug_as!(Digest, |digest| "{digest}");

/// Content that has none of the digests that it may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mismatch {
    /// One of the digests that it may have.
    pub expected: Digest,
    /// Its own digest.
    pub found: Digest,
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the content has the digest {}, and not {}", self.found, self.expected)
    }
}

/// Compares content that arrives in pieces with the digests that it may have.
pub struct Verifier {
    expected: Vec<Digest>,
    states: Vec<(Algorithm, State)>,
}

impl Verifier {
    /// Returns the verifier for content with one of these digests; `None` if there is none.
    pub fn new(expected: Vec<Digest>) -> Option<Self> {
        let mut algorithms: Vec<_> = expected.iter().map(|digest| digest.algorithm).collect();
        algorithms.sort_unstable();
        algorithms.dedup();
        let states: Vec<_> = algorithms.into_iter().map(|own| (own, own.begin())).collect();
        (!states.is_empty()).then_some(Self { expected, states })
    }

    /// Adds the next piece.
    pub fn update(&mut self, piece: &[u8]) {
        self.states.iter_mut().for_each(|(_, state)| state.update(piece));
    }

    /// Ends the content.
    ///
    /// # Errors
    /// The digests, if it has none of those that it may have.
    pub fn finish(self) -> Result<(), Mismatch> {
        let Self { expected, states } = self;
        let mut mismatch = None;
        for (algorithm, state) in states {
            let found = algorithm.end(state);
            if expected.contains(&found) {
                return Ok(());
            }
            let other = expected.iter().find(|digest| digest.algorithm == algorithm);
            mismatch = mismatch.or(other.map(|&expected| Mismatch { expected, found }));
        }
        mismatch.map_or(Ok(()), Err)
    }
}

debug_as!(Verifier, |verifier| "Verifier({:?})", verifier.expected);

/// Reads hexadecimal digits.
pub(crate) fn unhex(text: &str) -> Option<Vec<u8>> {
    let digit = |byte: u8| char::from(byte).to_digit(16).map(|digit| digit as u8);
    let pair = |pair: &[u8]| match *pair {
        [high, low] => Some(digit(high)? << 4 | digit(low)?),
        _ => None,
    };
    text.as_bytes().chunks(2).map(pair).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn digests_are_those_of_independent_tools() {
        // By sha1sum, sha256sum and sha512sum; h1 is that of rsc.io/quote v1.5.2 in sum.golang.org.
        let hello = b"hello\n";
        let cases = [
            (Digest::hex(Algorithm::Sha1, "f572d396fae9206628714fb2ce00f72e94f2258f"), Algorithm::Sha1),
            (
                Digest::oci("sha256:5891b5b522d5df086d0ff0b110fbd9d21bb4fc7163af34d08286a2e846f6be03"),
                Algorithm::Sha256,
            ),
            (
                Digest::integrity(
                    "sha1-AAAA sha512-58IrmUxZ2c8rSOVJseJGZmNgRZMNPafBrLKZ0cO3+TH5Sq5B7dosKyB6NuEPi8uNRSI+VIePWzFufOO2vAGWKQ==",
                ),
                Algorithm::Sha512,
            ),
        ];
        for (read, algorithm) in cases {
            assert_eq!(read, Some(Digest::of(algorithm, hello)), "{algorithm:?}");
        }
        let quote = "module \"rsc.io/quote\"\n\nrequire \"rsc.io/sampler\" v1.3.0\n";
        let h1 = Digest::go(Algorithm::GoMod, "h1:LzX7hefJvL54yjefDEDHNONDjII0t9xZLPXsUe+TKr0=");
        assert_eq!(h1, Some(Digest::of(Algorithm::GoMod, quote.as_bytes())));
    }

    #[test]
    fn malformed_digests_are_none() {
        for text in ["", "sha256:", "sha256:00", "sha1:00", "md5:00", &format!("sha256:{}", "A".repeat(64))] {
            assert_eq!(Digest::oci(text), None, "{text}");
        }
        for text in ["", "sha512-", "sha512-AAAA", "sha3-AAAA", "sha512"] {
            assert_eq!(Digest::integrity(text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn content_passes_with_its_digest_and_with_no_other(
            pieces in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..40), 0..8),
            other in any::<[u8; 32]>(),
            at in 0..Algorithm::ALL.len(),
        ) {
            let content = pieces.concat();
            let own = Digest::of(Algorithm::ALL[at], &content);
            let other = Digest { algorithm: Algorithm::Sha256, value: other };
            let verify = |digests: Vec<Digest>| {
                let mut verifier = Verifier::new(digests).unwrap();
                pieces.iter().for_each(|piece| verifier.update(piece));
                verifier.finish()
            };
            prop_assert_eq!(verify(vec![other, own]), Ok(()));
            prop_assert!(verify(vec![other]).is_err());
            prop_assert_eq!(Digest::parse(&own.to_string()), Some(own));
        }
    }
}
