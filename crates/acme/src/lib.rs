//! The client's side of ACME (RFC 8555): accounts, orders, and times of renewal (RFC 9773).
//!
//! Outside this crate: HTTP, files, the answers to challenges, and when to try again. Its functions return boxed futures,
//! and are not inlined: so the code of the library is compiled here, once.

mod account;
mod http;
mod order;
mod problem;
mod renewal;

use std::future::Future;
use std::pin::Pin;

pub use instant_acme::{CertificateIdentifier, ChallengeType};

pub use self::account::{Account, AccountTerms, Credentials};
pub use self::http::{Http, HttpError};
pub use self::order::{Guard, OrderTerms, Responder};
pub use self::problem::Problem;
pub use self::renewal::{Renewal, identifier};

/// A future on the heap.
pub type Boxed<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;
