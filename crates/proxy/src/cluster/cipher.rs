//! Encryption of the secrets that the nodes of a cluster share: certificates with their keys, and keys of session tickets.
//! The engine, and anyone who can read or change its data, can neither learn a key nor make nodes use a foreign one.

use std::sync::Arc;

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use aws_lc_rs::error::Unspecified;
use aws_lc_rs::hkdf::{HKDF_SHA256, KeyType, Salt};
use aws_lc_rs::rand;
use larder_words::debug_as;

use super::engine::EngineError;
use crate::base::settings::ClusterKey;

/// Encrypts with a key derived from the cluster's key.
#[derive(Clone)]
pub(crate) struct Cipher(Arc<LessSafeKey>);

impl Cipher {
    /// Derives the cipher of the cluster with this `key`, whose keys on the engine begin with `prefix`; `None` if the
    /// derivation fails.
    pub(super) fn new(key: &ClusterKey, prefix: &str) -> Option<Self> {
        let secret = Salt::new(HKDF_SHA256, b"larder cluster 2 secrets").extract(&**key);
        let mut key = ClusterKey::default();
        secret.expand(&[prefix.as_bytes()], Bytes32).ok()?.fill(&mut *key).ok()?;
        Some(Self(Arc::new(LessSafeKey::new(UnboundKey::new(&AES_256_GCM, &*key).ok()?))))
    }

    /// Encrypts `plain` as the value of `field`. It cannot be decrypted as the value of another field. Fails when the
    /// system has no random numbers.
    pub(crate) fn seal(&self, field: &str, plain: &[u8]) -> Result<Vec<u8>, Unspecified> {
        let mut nonce = [0; NONCE_LEN];
        rand::fill(&mut nonce)?;
        let mut sealed = plain.to_vec();
        let once = Nonce::assume_unique_for_key(nonce);
        self.0.seal_in_place_append_tag(once, Aad::from(field.as_bytes()), &mut sealed)?;
        sealed.splice(0..0, nonce);
        Ok(sealed)
    }

    /// Decrypts the value of `field`; `None` if it is not authentic.
    pub(crate) fn open(&self, field: &str, sealed: &[u8]) -> Option<Vec<u8>> {
        let (nonce, rest) = sealed.split_first_chunk::<NONCE_LEN>()?;
        let mut plain = rest.to_vec();
        let once = Nonce::assume_unique_for_key(*nonce);
        let length = self.0.open_in_place(once, Aad::from(field.as_bytes()), &mut plain).ok()?.len();
        plain.truncate(length);
        Some(plain)
    }
}

/// Returns the error of a command that lacks random numbers.
pub(crate) fn no_numbers(_: Unspecified) -> EngineError {
    EngineError::Refused("the system has no random numbers".into())
}

debug_as!(Cipher, |_| "Cipher(..)");

/// The length of a key, for HKDF.
#[derive(Clone, Copy)]
struct Bytes32;

impl KeyType for Bytes32 {
    fn len(&self) -> usize {
        32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_nodes_with_the_token_can_read_and_write_a_field() {
        let cipher = |key, prefix| Cipher::new(&ClusterKey::new([key; 32]), prefix).expect("a cipher");
        let one = cipher(1, "larder");
        let sealed = one.seal("certificate a.test", b"a key").expect("sealed");
        assert_eq!(one.open("certificate a.test", &sealed).as_deref(), Some(&b"a key"[..]));
        assert!(!sealed.windows(5).any(|part| part == b"a key"));
        assert_eq!(one.open("certificate b.test", &sealed), None, "another field");
        assert_eq!(cipher(2, "larder").open("certificate a.test", &sealed), None);
        assert_eq!(cipher(1, "other").open("certificate a.test", &sealed), None);
        for length in 0..sealed.len() {
            assert_eq!(one.open("certificate a.test", &sealed[..length]), None, "{length} bytes");
        }
        for at in 0..sealed.len() {
            let mut spoilt = sealed.clone();
            spoilt[at] ^= 1;
            assert_eq!(one.open("certificate a.test", &spoilt), None, "byte {at}");
        }
    }
}
