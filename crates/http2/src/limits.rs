//! What a client may send and cause.

use crate::budget::Budget;
use crate::frame::FIRST_WINDOW;
use crate::hpack::Bounds;

/// Bounds of one connection.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Streams that are open at the same time (`SETTINGS_MAX_CONCURRENT_STREAMS`); further ones are refused.
    pub streams: usize,
    /// The largest field section (`SETTINGS_MAX_HEADER_LIST_SIZE`); a larger one is [`Event::TooLarge`](crate::Event).
    pub head: Bounds,
    /// Bytes of content of one stream that wait for their reader. At least 65,535.
    pub stream_window: u32,
    /// Bytes of content of all streams together that wait for their readers. At least 65,535.
    pub connection_window: u32,
    /// Bytes of the dynamic table that the client's encoder may use.
    pub table: u32,
}

impl Default for Limits {
    fn default() -> Self {
        let head = Bounds { bytes: 32 << 10, fields: 100 };
        Self { streams: 100, head, stream_window: 128 << 10, connection_window: 512 << 10, table: 4 << 10 }
    }
}

/// `CONTINUATION` frames of one field section.
pub(crate) const CONTINUATIONS: usize = 8;
/// Settings in one frame that cost a further token: each may change the windows of all streams.
pub(crate) const SETTINGS_OF_A_TOKEN: usize = 16;
/// Priorities of streams that are not open yet.
pub(crate) const EARLY_PRIORITIES: usize = 16;

impl Limits {
    /// Bytes of an encoded field section. One that decodes within the bounds is hardly ever longer than these.
    pub(crate) fn block(&self) -> usize {
        2 * self.head.bytes
    }

    pub(crate) fn stream_window(&self) -> i64 {
        i64::from(self.stream_window).clamp(FIRST_WINDOW, i64::from(i32::MAX))
    }

    pub(crate) fn connection_window(&self) -> i64 {
        i64::from(self.connection_window).clamp(FIRST_WINDOW, i64::from(i32::MAX))
    }
}

/// How often a client may do what brings nothing forward: at once, and in a second after that.
#[derive(Debug)]
pub(crate) struct Budgets {
    /// Frames that carry no request and no content. Requests and content earn some: two for each frame of content, of which
    /// the first window takes one for each of its bytes before the client has answered any.
    pub(crate) control: Budget,
    /// Requests that the client itself resets before they are answered.
    pub(crate) resets: Budget,
    /// Streams that are reset here, as the client has broken a rule.
    pub(crate) faults: Budget,
}

impl Default for Budgets {
    fn default() -> Self {
        Self {
            control: Budget::new(4_000, 200).earning(2 * FIRST_WINDOW as u32),
            resets: Budget::new(300, 50),
            faults: Budget::new(100, 10),
        }
    }
}
