//! What the protocols of clients share, above the flow.
//!
//! A request that memory cannot answer is answered while its content is carried to its reader ([`content`]), and its
//! client gets interim responses and is watched ([`answer`]). A protocol with many streams on a connection implements
//! [`RawStream`](stream::RawStream); its requests are tasks ([`exchange`]), which may end as tunnels ([`tunnel`]).

pub(crate) mod answer;
pub(crate) mod content;
pub(crate) mod exchange;
pub(crate) mod request;
pub(crate) mod stream;
pub(crate) mod tunnel;
