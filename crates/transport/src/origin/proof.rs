//! Verification of nodes: a peer on a new connection may have to prove that it is a node before any other request is
//! sent to it.

use std::fmt::Debug;

use http::{Method, StatusCode};
use larder_semantics::status::Why;

use super::exchange::Exchange;
use super::{Client, OriginError, OriginRequest};
use crate::http::body::Upload;
use crate::http::response::Head;

/// Creates challenges and verifies the responses.
pub trait NodeProof: Debug + Send + Sync {
    /// Returns a challenge for the peer at `authority`.
    fn challenge(&self, authority: &str) -> Challenge;

    /// Whether the response with this `head` proves that the peer is a node.
    fn accepts(&self, authority: &str, challenge: &Challenge, head: &Head) -> bool;
}

/// A challenge.
#[derive(Debug)]
pub struct Challenge {
    /// The head of a HEAD request, blank line included.
    pub head: Vec<u8>,
    /// The nonce that the proof has to contain.
    pub nonce: String,
}

impl Client {
    /// Makes the peer of a new connection prove that it is a node, if this client requires that.
    pub(super) async fn prove(
        &self,
        exchange: &mut Exchange,
        https: bool,
        authority: &str,
    ) -> Result<(), OriginError> {
        let Some(prover) = &self.0.prover else { return Ok(()) };
        let challenge = prover.challenge(authority);
        let mut content = Upload::Empty;
        let mut asked = OriginRequest::new(https, authority, &Method::HEAD, &mut content);
        let answered = exchange.ask(&challenge.head, &mut asked, self.0.first_byte, &mut 0).await;
        let head = answered
            .map_err(|failure| OriginError { unsent: true, ..super::error(&failure, self.0.first_byte) })?;
        if prover.accepts(authority, &challenge, &head) {
            return Ok(());
        }
        let detail = format!("{authority} does not prove to be a node of this cluster");
        Err(OriginError::unsent(StatusCode::BAD_GATEWAY, Why::OriginUnreachable, detail))
    }
}
