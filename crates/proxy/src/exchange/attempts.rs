//! Attempts to send a request to origins: the client may leave meanwhile, and an attempt may be lost.

use std::future::poll_fn;
use std::iter;
use std::pin::{Pin, pin};
use std::sync::atomic::Ordering;
use std::task::Poll;

use crate::exchange::link::{Interim, Link};
use crate::exchange::request::Request;
use crate::http::response;

impl Request {
    /// Records that a try got no answer and may have reached an origin.
    pub(crate) fn lose_try(&self) {
        self.lost_try.store(true, Ordering::Relaxed);
    }

    /// Whether a try got no answer and may have reached an origin: its result is unknown.
    pub(crate) fn has_lost_try(&self) -> bool {
        self.lost_try.load(Ordering::Relaxed)
    }

    /// Returns the outcome of `wanted`; `None` if the client has left before and `deserted` has ended, so that the
    /// outcome has no use.
    pub(crate) async fn unless_left<T>(
        &self,
        mut wanted: Pin<&mut impl Future<Output = T>>,
        deserted: impl Future<Output = ()>,
    ) -> Option<T> {
        let mut deserted = pin!(deserted);
        poll_fn(|cx| {
            if let Poll::Ready(outcome) = wanted.as_mut().poll(cx) {
                return Poll::Ready(Some(outcome));
            }
            match self.link.as_ref().is_some_and(Link::has_left) {
                true => deserted.as_mut().poll(cx).map(|()| None),
                false => Poll::Pending,
            }
        })
        .await
    }

    /// Returns the outcome of `sent`, a future that sends this request. Calls `lost` at once when a try gets no answer
    /// but may have reached an origin, and another try follows: the change by the first try may be in force long before
    /// `sent` ends.
    pub(crate) async fn noticing_lost_try<T>(
        &self,
        mut sent: Pin<&mut impl Future<Output = T>>,
        lost: impl FnOnce(),
    ) -> T {
        let mut lost = Some(lost);
        poll_fn(|cx| {
            let polled = sent.as_mut().poll(cx);
            if polled.is_pending()
                && self.has_lost_try()
                && let Some(lost) = lost.take()
            {
                lost();
            }
            polled
        })
        .await
    }
}

/// Returns a function that forwards interim responses to the client, without the fields that rules hide or replace.
pub(crate) fn interims_of(request: &Request) -> impl FnMut(response::Head) + Send {
    move |mut head: response::Head| {
        if let Some(link) = &request.link {
            let edits = [&request.ruling.response, &request.ruling.reply];
            head.fields.rebuild(|name, value| edits.iter().all(|own| own.keep(name, value)), iter::empty());
            link.forward(Interim { status: head.status, fields: *head.fields });
        }
    }
}
