//! Limits on the frames that a client may send and on the work that it may cause.

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
    /// The limit of unread content of one stream, in bytes. At least 65,535.
    pub stream_window: u32,
    /// The limit of unread content of all streams together, in bytes. At least 65,535.
    pub connection_window: u32,
    /// The limit of the dynamic table of the client's encoder, in bytes.
    pub table: u32,
}

impl Default for Limits {
    fn default() -> Self {
        let head = Bounds { bytes: 32 << 10, fields: 100 };
        Self { streams: 100, head, stream_window: 128 << 10, connection_window: 512 << 10, table: 4 << 10 }
    }
}

/// The time for which a client may send content of a request whose response is complete, in milliseconds.
pub const LINGER: u64 = 1_000;
/// The maximum number of `CONTINUATION` frames of a field section.
pub(crate) const CONTINUATIONS: usize = 8;
/// The number of settings in one frame that cost a further token: each may change the windows of all streams.
pub(crate) const SETTINGS_OF_A_TOKEN: usize = 16;
/// The maximum number of stored priorities for streams that are not open yet.
pub(crate) const EARLY_PRIORITIES: usize = 16;

impl Limits {
    /// Returns the maximum length of an encoded field section, in bytes. A section that decodes within the bounds is
    /// hardly ever longer.
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

/// Rate limits on client actions without progress: the number at once, and the number per second after that.
#[derive(Debug)]
pub(crate) struct Budgets {
    /// Frames without a request and without content. Requests and content earn tokens: two for each frame of content.
    /// The client may use the first window for frames of one byte each before it answers any of them, so there is room
    /// for that many earned tokens.
    pub(crate) control: Budget,
    /// Requests that the client resets before they are answered.
    pub(crate) resets: Budget,
    /// Streams that the server resets because the client has broken a rule.
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
