//! Requests on streams of HTTP/2, with their retries.

use http::{HeaderMap, Request, StatusCode};
use larder_semantics::methods::is_idempotent;

use super::failure::Failure;
use super::http2::{self, Choice, Exchange};
use super::source::Source;
use super::{Client, Download, OriginError, OriginRequest, error};
use crate::http::response::Head;

/// Maximum of attempts of one request while the origin reports that it has not processed the previous one.
const TRIES: u32 = 4;
/// Length of content from which on an origin that chooses its protocol is asked in HTTP/1.1: a connection of its own
/// carries more than a stream.
const LARGE: u64 = 32 << 20;

impl Client {
    /// Sends a request with this head to an origin that speaks HTTP/2, and waits for the head of the final response.
    ///
    /// A request that the origin has not processed (RFC 9113 section 8.7) is retried while its content is complete.
    /// After the loss of a connection that was used before, a request is retried if it is idempotent.
    pub(super) async fn send_on_stream(
        &self,
        message: Request<()>,
        request: &mut OriginRequest<'_>,
    ) -> Result<(Head, Box<Download>), OriginError> {
        let connector = self.0.connector.within(request.waits.connect);
        let first_byte = request.waits.first_byte.unwrap_or(self.0.first_byte);
        let (to, patience) =
            ((request.https, request.authority), connector.limit().saturating_add(first_byte));
        let has_content = !request.content.is_empty();
        let repeatable = !has_content && is_idempotent(request.method);
        let (mut unsent, mut tries) = (true, 0);
        loop {
            let found = self.0.places.stream(&connector, to, patience).await;
            let stream = found.map_err(|error| OriginError { unsent: unsent && error.unsent, ..error })?;
            let was_used = stream.was_used;
            let failure = match Exchange::ask(stream, request, message.clone(), first_byte).await {
                Ok((head, exchange)) => {
                    let between = self.0.between(&request.waits, &head);
                    let source = Source::Http2(Box::new(exchange));
                    let mut download = Download::new(source, head.framing, between);
                    download.end_if_empty();
                    return Ok((head, download));
                }
                Err(failure) => failure,
            };
            let is_unprocessed = matches!(failure, Failure::Unprocessed(_));
            let is_lost = matches!(failure, Failure::Io(_) | Failure::Closed) && was_used;
            let is_whole = !has_content || !request.content.is_empty();
            tries += 1;
            if tries == TRIES || !(is_unprocessed && is_whole || is_lost && repeatable) {
                let mut error = error(&failure, first_byte);
                let is_other = |error: &h2::Error| error.is_go_away() && error.is_library();
                if !was_used && matches!(&failure, Failure::Stream(error) if is_other(error)) {
                    error.detail = format!("the answer is not HTTP/2: {}", error.detail);
                }
                return Err(OriginError { unsent: unsent && is_unprocessed, ..error });
            }
            if !is_unprocessed {
                unsent = false;
                request.lose_try();
            }
            // Lets the effects of the lost attempt complete before the next one is sent.
            tokio::task::yield_now().await;
        }
    }

    /// Sends a request without content over TLS, with these fields, in HTTP/2 if the origin chooses that in the handshake.
    /// `None`: it is to be sent in HTTP/1.1, as an origin has chosen, demands (RFC 9113 section 7), or shows by its failures.
    ///
    /// # Errors
    /// The reason why there is no answer, whatever the protocol.
    pub async fn send_by_choice(
        &self,
        (host, path, fields): (&str, &str, HeaderMap),
        request: &mut OriginRequest<'_>,
    ) -> Result<Option<(Head, Box<Download>)>, OriginError> {
        let Ok(message) = http2::message(true, request.method, host, path, fields) else { return Ok(None) };
        let (places, authority) = (&self.0.places, request.authority);
        let connector = self.0.connector.within(request.waits.connect);
        let first_byte = request.waits.first_byte.unwrap_or(self.0.first_byte);
        let patience = connector.limit().saturating_add(first_byte);
        let choice = Choice { client: request.client, idle: &self.0.idle, patience };
        for _ in 0..TRIES {
            let found = places.negotiated(&connector, authority, &choice).await?;
            let Some(stream) = found else { return Ok(None) };
            let was_used = stream.was_used;
            match Exchange::ask(stream, request, message.clone(), first_byte).await {
                Ok((head, _)) if head.status == StatusCode::MISDIRECTED_REQUEST => break,
                Ok((head, exchange)) => {
                    let between = self.0.between(&request.waits, &head);
                    let mut download =
                        Download::new(Source::Http2(Box::new(exchange)), head.framing, between);
                    if download.length().is_some_and(|length| length >= LARGE) {
                        places.want_http1(authority);
                    }
                    download.end_if_empty();
                    return Ok(Some((head, download)));
                }
                Err(Failure::Unprocessed(_)) => {}
                // The answer in HTTP/1.1 would be no other, or as late.
                Err(failure @ (Failure::Malformed(_) | Failure::TimedOut)) => {
                    return Err(error(&failure, first_byte));
                }
                Err(failure) => {
                    request.lose_try();
                    let is_lost = matches!(failure, Failure::Io(_) | Failure::Closed) && was_used;
                    if !is_lost {
                        break;
                    }
                }
            }
            // Lets the effects of the lost attempt complete before the next one is sent.
            tokio::task::yield_now().await;
        }
        places.want_http1(authority);
        Ok(None)
    }
}
