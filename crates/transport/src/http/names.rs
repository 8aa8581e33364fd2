//! Names of methods and fields that Larder defines, or writes itself.

/// The method with which clients purge the stored responses of a URL.
pub const PURGE: &str = "PURGE";
/// The field with the options of a [`PURGE`], separated by commas: `soft` or `hard`, `prefix`, `glob` or `host`, `count`,
/// `wait`.
pub const PURGE_MORE: &str = "larder-purge";
/// The field by which an origin distinguishes requests of the validator from those of clients.
pub const VALIDATE: &str = "larder-validate";
/// The field with a client's position in the stream of purges: position, engine and seal, separated by dots.
pub const POSITION: &str = "larder-position";
/// The field that carries the trace context between programs (W3C Trace Context section 3.2).
pub const TRACEPARENT: &str = "traceparent";
/// The field with what programs add to it.
pub const TRACESTATE: &str = "tracestate";
/// The field with the client's own certificate (RFC 9440 section 2).
pub const CLIENT_CERT: &str = "client-cert";
/// The field with the rest of its chain, which is not sent.
pub const CLIENT_CERT_CHAIN: &str = "client-cert-chain";
