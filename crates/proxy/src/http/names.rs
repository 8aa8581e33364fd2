//! Names of methods and fields that Larder gives a meaning of its own, or that it writes itself.

/// The method by which clients purge what is stored for a URL.
pub(crate) const PURGE: &str = "PURGE";
/// The field by which a [`PURGE`] says more: `soft` or `hard`, `prefix` or `host`, `count`, `wait`, with commas between them.
pub(crate) const PURGE_MORE: &str = "larder-purge";
/// The field by which an origin can tell a request of the validator from a client's.
pub(crate) const VALIDATE: &str = "larder-validate";
/// The field that tells a client its position in the stream of purges: position, engine and seal, with dots between them.
pub(crate) const POSITION: &str = "larder-position";
/// The field by which programs tell each other of spans (W3C Trace Context section 3.2).
pub(crate) const TRACEPARENT: &str = "traceparent";
/// The field with the client's own certificate (RFC 9440 section 2).
pub(crate) const CLIENT_CERT: &str = "client-cert";
/// The field with the rest of its chain, which is not sent.
pub(crate) const CLIENT_CERT_CHAIN: &str = "client-cert-chain";
