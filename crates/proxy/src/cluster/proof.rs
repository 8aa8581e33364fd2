//! A node proves to others that it has the cluster's token, without sending it: it seals the nonce of the challenge
//! and the address at which it was asked. So a host that has taken over the address of a former node gets no request,
//! even if it forwards the challenge to another node.

use std::sync::Arc;

use larder_cluster::seal::MessageKind;
use larder_semantics::fields::Fields;
use larder_store::lines::write_line;
use larder_words::{debug_as, hex};

use super::Cluster;
use super::peer_request::FIELD;
use super::probe::NO_CLIENT;
use super::sealed::ForgeryCounts;
use crate::http::head::{RequestHead, Target};
use crate::http::response;
use crate::origin::{Challenge, NodeProof};

/// Bytes of a nonce, and the length of the longest nonce that is answered, as text.
const NONCE: (usize, usize) = (16, 64);

/// Requires nodes to prove that they have the token.
pub(crate) struct Prover(pub(crate) Arc<Cluster>);

debug_as!(Prover, |_| "Prover(..)");

impl NodeProof for Prover {
    fn challenge(&self, authority: &str) -> Challenge {
        let nonce = nonce();
        let mut head = b"HEAD / HTTP/1.1\r\n".to_vec();
        write_line(&mut head, b"host", authority.as_bytes());
        write_line(&mut head, FIELD.as_bytes(), &[NO_CLIENT, b" ", nonce.as_bytes()].concat());
        head.extend_from_slice(b"\r\n");
        Challenge { head, nonce }
    }

    fn accepts(&self, authority: &str, challenge: &Challenge, head: &response::Head) -> bool {
        let Self(cluster) = self;
        let parts = [authority.as_bytes(), challenge.nonce.as_bytes()];
        let shown = head.fields.lines(FIELD).next().unwrap_or_default();
        let is_proof = cluster.seal.is(MessageKind::Proof, &parts, shown);
        if !is_proof {
            ForgeryCounts::count(&cluster.forged.proofs, "an answer at a node's address");
        }
        is_proof
    }
}

impl Cluster {
    /// Returns the proof for the challenge in `head`, if there is one and it is meant for this node.
    pub(super) fn proof(&self, head: &RequestHead<'_>) -> Option<String> {
        let nonce = head.fields.first(FIELD)?.strip_prefix(NO_CLIENT)?.strip_prefix(b" ")?;
        let Target::Origin { host, .. } = head.target else { return None };
        let is_here = *self.reached_at.lock() == host;
        let is_meant = is_here && nonce.len() <= NONCE.1 && self.seal.is_on();
        is_meant.then(|| self.seal.text(MessageKind::Proof, &[host.as_bytes(), nonce]))
    }
}

/// Returns a nonce that cannot be predicted.
fn nonce() -> String {
    let mut bytes = [0; NONCE.0];
    // Without the system's random numbers there is no TLS either; the proof still includes the address.
    if aws_lc_rs::rand::fill(&mut bytes).is_err() {
        fastrand::fill(&mut bytes);
    }
    hex(&bytes)
}
