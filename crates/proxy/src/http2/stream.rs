//! A stream of HTTP/2 for the task that answers its request.

use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::task::{Context, Poll};

use http::HeaderMap;
use larder_http2::Code;

use super::session::Session;
use crate::exchange::link::Interim;
use crate::exchange::reply::{Banner, Reply};
use crate::net::content::ContentFile;
use crate::wire::content::Piece;
use crate::wire::stream::{RawStream, ReplyHead, Reset};

/// A stream that is registered in its session as having a task.
#[derive(Clone)]
pub(super) struct Stream {
    pub(super) session: Arc<Session>,
    pub(super) id: u32,
}

impl RawStream for Stream {
    fn poll_content(&self, cx: &Context<'_>) -> Poll<Piece> {
        self.session.state().poll_content(cx, self.id)
    }

    fn release(&self, bytes: usize) {
        self.session.state().release(self.id, bytes);
    }

    fn is_gone(&self, cx: &Context<'_>) -> bool {
        self.session.state().is_gone(cx, self.id)
    }

    fn has_left_whole(&self) -> bool {
        self.session.state().has_left_whole(self.id)
    }

    async fn room(&self, length: impl FnOnce() -> usize + Send) -> io::Result<()> {
        self.session.room(self.id, length).await
    }

    fn interim(&self, interim: &Interim) {
        self.session.state().interim(self.id, interim);
    }

    fn accepts(&self, reply: &Reply, banner: &Banner) -> bool {
        self.session.state().accepts_head(reply, banner)
    }

    fn head(&self, reply: &Reply, head_only: bool, banner: &Banner) -> ReplyHead {
        let mut state = self.session.state();
        let before = state.writing.written();
        let is_whole = state.reply(self.id, reply, head_only, banner);
        ReplyHead { bytes: state.writing.written() - before, is_whole }
    }

    fn poll_send(&self, cx: &Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.session.state().poll_send(cx, self.id, bytes)
    }

    fn poll_send_file(
        &self,
        cx: &Context<'_>,
        content: ContentFile<'_>,
        range: Range<u64>,
    ) -> Poll<io::Result<u64>> {
        self.session.state().poll_send_file(cx, self.id, content, range)
    }

    fn is_held_up(&self, now: u64, stall: u64) -> bool {
        let state = self.session.state();
        let is_stalled = state.wire.room(self.id) == 0 && now.saturating_sub(state.sent_at) >= stall;
        state.wire.is_closed(self.id) || is_stalled
    }

    fn end(&self, trailers: &HeaderMap) {
        self.session.state().end(self.id, trailers);
    }

    fn reset(&self, reason: Reset) {
        let code = match reason {
            Reset::Cancel => Code::CANCEL,
            Reset::Connect => Code::CONNECT_ERROR,
            Reset::Overload => Code::ENHANCE_YOUR_CALM,
        };
        self.session.state().reset(self.id, code);
    }

    fn resign(&self) {
        self.session.state().resign(self.id);
    }
}
