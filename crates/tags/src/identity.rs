//! The client's identity, as far as responses may depend on it: part of the key of tags.

use std::hash::{BuildHasher, Hasher, RandomState};

use larder_semantics::fields::Fields;
use larder_semantics::key;

/// The fields with secrets that may identify a client to a backend.
const CREDENTIALS: [&str; 2] = ["authorization", "cookie"];
/// The field with the certificate that the client presented on its connection.
const CERTIFICATE: &str = "client-cert";

/// Creates keys. They are meaningless outside of this process: no secret can be derived from them.
#[derive(Debug, Default)]
pub(crate) struct Keys {
    index: RandomState,
    identities: [RandomState; 2],
}

/// A key, and its hash.
#[derive(Clone, Debug)]
pub(crate) struct Key {
    pub(crate) bytes: Box<[u8]>,
    pub(crate) hash: u64,
}

/// The keys of a request's target.
#[derive(Debug)]
pub(crate) struct TargetKeys {
    /// The key of responses that all clients may share.
    pub(crate) anyone: Key,
    /// The key for the client with these credentials or this certificate, if there are any.
    pub(crate) own: Option<Key>,
}

impl Keys {
    pub(crate) fn place(&self, authority: &[u8], target: &[u8], request: &impl Fields) -> TargetKeys {
        let key = |identity: &[u8]| {
            let mut bytes = Vec::with_capacity(authority.len() + target.len() + identity.len() + 16);
            bytes.push(identity.len() as u8);
            bytes.extend_from_slice(identity);
            key::write(&mut bytes, "http", authority, target);
            Key { hash: self.index.hash_one(&bytes), bytes: bytes.into() }
        };
        let own = identifies_client(request).then(|| key(&self.identity(request)));
        TargetKeys { anyone: key(&[]), own }
    }

    fn identity(&self, request: &impl Fields) -> [u8; 16] {
        let half = |state: &RandomState| {
            let mut hasher = state.build_hasher();
            for name in CREDENTIALS.into_iter().chain([CERTIFICATE]) {
                for value in request.lines(name) {
                    hasher.write_usize(value.len());
                    hasher.write(value);
                }
                hasher.write_usize(usize::MAX);
            }
            hasher.finish().to_le_bytes()
        };
        let mut identity = [0; 16];
        identity[..8].copy_from_slice(&half(&self.identities[0]));
        identity[8..].copy_from_slice(&half(&self.identities[1]));
        identity
    }
}

pub(crate) fn has_credentials(request: &impl Fields) -> bool {
    CREDENTIALS.into_iter().any(|name| request.contains(name))
}

/// Whether a backend may identify the client of a request: by credentials, or by a certificate.
pub(crate) fn identifies_client(request: &impl Fields) -> bool {
    has_credentials(request) || request.contains(CERTIFICATE)
}

#[cfg(test)]
mod tests {
    use larder_semantics::fields::HeadLines;

    use super::*;

    #[test]
    fn other_credentials_are_another_client() {
        let keys = Keys::default();
        let own =
            |fields: &str| keys.place(b"a", b"/", &HeadLines(fields.as_bytes())).own.map(|key| key.bytes);
        assert_eq!(own("Accept: x\r\n"), None);
        let all = [
            "Cookie: a\r\n",
            "Cookie: b\r\n",
            "Cookie: a\r\nCookie: b\r\n",
            "Cookie: ab\r\n",
            "Authorization: a\r\n",
            "Authorization: a\r\nCookie: a\r\n",
            "Authorization: \r\n",
            "Client-Cert: :YQ==:\r\n",
            "Client-Cert: :Yg==:\r\n",
            "Cookie: :YQ==:\r\n",
            "Cookie: a\r\nClient-Cert: :YQ==:\r\n",
        ];
        for (at, one) in all.iter().enumerate() {
            assert!(own(one).is_some() && own(one) == own(one));
            assert!(all[..at].iter().all(|other| own(one) != own(other)), "{one}");
        }
    }

    #[test]
    fn targets_and_hosts_have_keys_of_their_own() {
        let keys = Keys::default();
        let of = |host: &str, target: &str| {
            keys.place(host.as_bytes(), target.as_bytes(), &HeadLines(b"")).anyone.bytes
        };
        assert_eq!(of("A.test", "/x"), of("a.test:80", "/x"));
        assert!(of("a.test", "/x") != of("a.test", "/y") && of("a.test", "/x") != of("b.test", "/x"));
    }
}
