//! The responses to challenges in progress, by which an authority verifies that a name leads to this process.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use super::shared::SharedState;
use crate::base::settings::AcmeChallenge;
use crate::net::tls::certificates::Certificates;

/// The directory of challenge files (RFC 8555 section 8.3).
const FOLDER: &[u8] = b"/.well-known/acme-challenge/";

/// The challenge responses of this node and of other nodes.
#[derive(Debug)]
pub(super) struct Answers {
    by_token: Mutex<HashMap<String, String>>,
    /// The number of entries in `by_token`.
    count: AtomicUsize,
    certificates: Arc<Certificates>,
}

/// A challenge response, in the form that nodes exchange.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Answer {
    /// The name of the challenge type.
    pub(super) kind: String,
    /// The host name to verify.
    pub(super) name: String,
    pub(super) token: String,
    /// The key authorization, which proves control of the account (RFC 8555 section 8.1).
    pub(super) key_authorization: String,
    /// The end of its validity, in UNIX seconds.
    pub(super) until: u64,
}

impl Answers {
    pub(super) fn new(certificates: &Arc<Certificates>) -> Self {
        Self {
            by_token: Mutex::default(),
            count: AtomicUsize::new(0),
            certificates: Arc::clone(certificates),
        }
    }

    /// Whether there are no challenge files. Requests check this without a lock.
    pub(super) fn is_empty(&self) -> bool {
        self.count.load(Ordering::Acquire) == 0
    }

    /// Returns the content of the file at `path`, if it is a challenge file.
    pub(super) fn find(&self, path: &[u8]) -> Option<String> {
        let token = std::str::from_utf8(path.strip_prefix(FOLDER)?).ok()?;
        self.by_token.lock().get(token).cloned()
    }

    /// Starts to serve this challenge response. The error is the reason why it cannot be served.
    pub(super) fn give(&self, answer: &Answer) -> Result<(), String> {
        if answer.kind == AcmeChallenge::TlsAlpn01.name() {
            return self.certificates.challenges.offer(&answer.name, &answer.key_authorization);
        }
        let mut by_token = self.by_token.lock();
        by_token.insert(answer.token.clone(), answer.key_authorization.clone());
        self.count.store(by_token.len(), Ordering::Release);
        Ok(())
    }

    /// Stops serving this challenge response.
    pub(super) fn withdraw(&self, answer: &Answer) {
        if answer.kind == AcmeChallenge::TlsAlpn01.name() {
            return self.certificates.challenges.withdraw(&answer.name);
        }
        let mut by_token = self.by_token.lock();
        by_token.remove(&answer.token);
        self.count.store(by_token.len(), Ordering::Release);
    }
}

/// A challenge response that all nodes serve until this is dropped.
pub(super) struct Offer {
    pub(super) answers: Arc<Answers>,
    pub(super) answer: Answer,
    pub(super) shared: Option<Arc<SharedState>>,
}

impl Drop for Offer {
    fn drop(&mut self) {
        self.answers.withdraw(&self.answer);
        if let Some(shared) = &self.shared {
            shared.remove_later(&challenge_field(&self.answer.name));
        }
    }
}

/// Returns the field of the challenge response for `name` on the engine.
pub(super) fn challenge_field(name: &str) -> String {
    format!("challenge {name}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_tokens_in_progress_are_answered() {
        let answers = Answers::new(&Arc::default());
        let answer = Answer {
            kind: "http-01".to_owned(),
            name: "a.test".to_owned(),
            token: "t0k_en-".to_owned(),
            key_authorization: "t0k_en-.thumb".to_owned(),
            until: 0,
        };
        let path = b"/.well-known/acme-challenge/t0k_en-";
        assert_eq!(answers.find(path), None);
        answers.give(&answer).expect("given");
        assert_eq!(answers.find(path).as_deref(), Some("t0k_en-.thumb"));
        for other in
            [&b"/.well-known/acme-challenge/"[..], b"/.well-known/acme-challenge/other", b"/t0k_en-", b"\xff"]
        {
            assert_eq!(answers.find(other), None, "{other:?}");
        }
        answers.withdraw(&answer);
        assert_eq!(answers.find(path), None);
    }
}
