//! The admin token, and the token of a cluster.

use std::str::FromStr;

use argon2::{Algorithm, Argon2, Params, Version};
use larder_words::debug_as;
use subtle::ConstantTimeEq;
use zeroize::Zeroizing;

/// The key that follows from a cluster's token. All other keys of the cluster follow from it.
pub type ClusterKey = Zeroizing<[u8; 32]>;

/// The cost of that key: KiB of memory, passes, and lanes, as RFC 9106 section 4 recommends where memory is limited.
const COST: (u32, u32, u32) = (64 << 10, 3, 4);

/// A secret that grants access to a listener or a cluster. `Debug` does not print it.
#[derive(Clone, PartialEq, Eq)]
pub struct Token(String);

impl Token {
    /// Minimum of characters.
    pub const SHORTEST: usize = 16;

    /// Whether `shown` equals this token. The comparison takes constant time, so that its duration discloses nothing.
    pub fn is(&self, shown: &[u8]) -> bool {
        self.0.as_bytes().ct_eq(shown).into()
    }

    /// Returns the secret text of the token.
    pub fn secret(&self) -> &str {
        &self.0
    }

    /// Returns the maximum of random bits in a token of these characters.
    pub fn most_bits(&self) -> usize {
        let is_hex = self.0.bytes().all(|byte| byte.is_ascii_hexdigit());
        self.0.len() * if is_hex { 4 } else { 6 }
    }

    /// Derives the key of the cluster whose keys on the engine begin with `prefix`, by argon2id. That takes some 0.2 s, so
    /// that a stranger with a value that was made with the key can try few tokens. Fails when the derivation fails.
    pub fn stretched(&self, prefix: &str) -> Result<ClusterKey, argon2::Error> {
        let (memory, passes, lanes) = COST;
        let mut key = ClusterKey::default();
        let params = Params::new(memory, passes, lanes, Some(key.len()))?;
        let slow = Argon2::new(Algorithm::Argon2id, Version::V0x13, params);
        let salt = format!("larder cluster 2 {prefix}");
        slow.hash_password_into(self.0.as_bytes(), salt.as_bytes(), &mut *key)?;
        Ok(key)
    }
}

impl FromStr for Token {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let is_one = text.len() >= Self::SHORTEST && text.bytes().all(|byte| byte.is_ascii_graphic());
        let shortest = Self::SHORTEST;
        is_one.then(|| Self(text.to_owned())).ok_or_else(|| {
            format!("expected at least {shortest} visible ASCII characters without spaces, such as openssl rand -hex 16 prints")
        })
    }
}

debug_as!(Token, |_| "Token(..)");

#[cfg(test)]
mod tests {
    use super::*;

    /// The expected value was computed separately, with argon2-cffi for Python.
    #[test]
    fn a_clusters_key_follows_from_its_token_and_prefix() {
        let token: Token = "0123456789abcdef".parse().expect("a token");
        let hex = |prefix| larder_words::hex(&*token.stretched(prefix).expect("a key"));
        assert_eq!(hex("larder"), "e18b3c1de90bdc8284001b16e03548c552a913b7e72f7c7946ac724ea7a80007");
        assert_ne!(hex("larder"), hex("other"));
    }
}
