//! From a URL to a page: sends requests like those of a client of the forward proxy, and follows redirects.
//!
//! The request passes the checks of all requests, so that calls find the same cache entries.

use std::sync::Arc;

use http::{Method, StatusCode};
use larder_rpc::Failure;
use larder_semantics::fields::Fields;
use larder_semantics::status::Why;
use url::Url;

use super::{Visitor, failure};
use crate::base::outcome::{Kind, Outcome};
use crate::counts::span::Trace;
use crate::exchange::plan::Plan;
use crate::exchange::reply::{Content, Reply, Source};
use crate::exchange::request::Request;
use crate::exchange::target::HashedKey;
use crate::features::arrive::{Client, Entrance, NO_REPLY, PendingRequest, Step};
use crate::features::dispatch;
use crate::http::head::{Line, Refusal, RequestHead};

/// The result of looking up a URL without waiting.
pub(super) struct PageLookup {
    url: Url,
    step: PageStep,
    /// The span of the call, if it is traced.
    trace: Option<Arc<Trace>>,
}

enum PageStep {
    Reply(Box<Reply>),
    Ask(Box<Request>),
}

/// A response with a page, or the reason why there is none; and the outcome of the call.
pub(super) struct Page {
    pub(super) found: Result<Box<Reply>, Failure>,
    pub(super) outcome: Outcome,
}

impl Page {
    /// Returns the seconds since the page was generated or validated, if it was stored.
    pub(super) fn age(&self) -> Option<u32> {
        self.found.as_ref().ok().and_then(|reply| reply.age)
    }
}

impl PageLookup {
    /// Whether the page requires a request to an origin.
    pub(super) fn waits(&self) -> bool {
        matches!(self.step, PageStep::Ask(_))
    }
}

/// Looks up the page at `text`, without waiting. Errors: the problem with the URL.
pub(super) fn look(
    visitor: &Visitor,
    plan: &Plan,
    text: &str,
    trace: Option<Arc<Trace>>,
) -> Result<PageLookup, Failure> {
    let url = parse(text).map_err(|why| failure(text, 400, why))?;
    step(visitor, plan, url, trace).map_err(|refusal| refused(text, refusal))
}

/// Returns the page for `look`. `text` is its URL as the client sent it.
pub(super) async fn follow(visitor: &Visitor, plan: &Arc<Plan>, text: &str, look: PageLookup) -> Page {
    let PageLookup { mut url, mut step, trace } = look;
    let mut seen: Vec<Url> = Vec::new();
    let mut first: Option<Outcome> = None;
    loop {
        let mut reply = match step {
            PageStep::Reply(reply) => reply,
            PageStep::Ask(request) => {
                Box::new(dispatch::serve(&visitor.worker, plan, request).await.unnegotiated())
            }
        };
        // A call is a hit only if no redirect on its way required a request to an origin.
        let times =
            first.and_then(|outcome| outcome.origin_time).into_iter().chain(reply.outcome.origin_time);
        let origin_time = times.reduce(|sum, time| sum + time);
        let outcome = first.filter(|outcome| !from_cache(outcome)).unwrap_or(reply.outcome);
        let outcome = Outcome { origin_time, ..outcome };
        let stopped = |failure| Page { found: Err(failure), outcome: undelivered(outcome) };
        let Some(next) = target(&url, &reply) else {
            reply.outcome = outcome;
            return match reply.status.is_success() {
                true => Page { found: Ok(reply), outcome },
                false => Page { found: Err(unsuccessful(text, &url, &reply)), outcome },
            };
        };
        let checked = next.and_then(|next| {
            check(plan, &seen, &url, &next)?;
            Ok(next)
        });
        let next = match checked {
            Ok(next) => next,
            Err(why) => return stopped(failure(text, 502, why)),
        };
        seen.push(std::mem::replace(&mut url, next));
        first = Some(outcome);
        match self::step(visitor, plan, url.clone(), trace.clone()) {
            Ok(look) => step = look.step,
            Err(refusal) => return stopped(refused(text, refusal)),
        }
    }
}

/// Returns the outcome of a call that was refused because of its URL.
pub(super) fn refusal() -> Outcome {
    Outcome::forwarded(Kind::Refused, Why::Refused)
}

/// Returns the outcome of a call whose page was not delivered although the flow returned it: neither a hit nor a miss.
pub(super) fn undelivered(outcome: Outcome) -> Outcome {
    Outcome { kind: Kind::Failed, why: Why::Undelivered, ttl: None, ..outcome }
}

fn from_cache(outcome: &Outcome) -> bool {
    matches!(outcome.kind, Kind::Hit | Kind::StaleHit | Kind::Coalesced)
}

/// Parses a URL as users write it, and completes it.
fn parse(text: &str) -> Result<Url, String> {
    if text.trim().is_empty() {
        return Err("the url is empty".to_owned());
    }
    let mut url = Url::parse(text.trim()).map_err(|error| match error {
        url::ParseError::RelativeUrlWithoutBase => {
            "no url: write the scheme too, such as http://example.com/".to_owned()
        }
        error => format!("no url: {error}"),
    })?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(format!("scheme '{}' is neither http nor https", url.scheme()));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err("user names and passwords are not sent to origins".to_owned());
    }
    url.set_fragment(None);
    Ok(url)
}

/// Looks up `url` as a request of a client of the forward proxy.
fn step(visitor: &Visitor, plan: &Plan, url: Url, trace: Option<Arc<Trace>>) -> Result<PageLookup, Refusal> {
    let lines = lines(&url, &plan.settings.doors.user_agent);
    let mut head = RequestHead::compose(&Method::GET, url.as_str(), &lines, &plan.settings.limits)?;
    let client = Client { entrance: Entrance::Calls, address: visitor.client, identity: None, tunnel: None };
    let mut place = None;
    let room = (&mut HashedKey::default(), &mut place);
    let step = match client.step(&visitor.worker, plan, &mut head, None, room) {
        Step::Answer(_) => PageStep::Reply(Box::new(place.ok_or(NO_REPLY)?.unnegotiated())),
        Step::Ask(PendingRequest { mut request, .. }) => {
            (request.trace, request.accepted) = (trace.clone(), None);
            PageStep::Ask(request)
        }
        Step::Refuse(refusal, _) => return Err(refusal),
    };
    Ok(PageLookup { url, step, trace })
}

/// Returns the fields of a request for `url`.
fn lines<'b>(url: &'b Url, user_agent: &'b str) -> [Line<'b>; 4] {
    let authority = &url[url::Position::BeforeHost..url::Position::AfterPort];
    let fields =
        [("host", authority), ("user-agent", user_agent), ("accept", "*/*"), ("accept-encoding", "identity")];
    fields.map(|(name, value)| Line { name, value: value.as_bytes() })
}

/// Returns the target of a redirect; `None` if `reply` is not a redirect.
fn target(url: &Url, reply: &Reply) -> Option<Result<Url, String>> {
    if !matches!(reply.status.as_u16(), 301 | 302 | 303 | 307 | 308) {
        return None;
    }
    let location = location(&reply.fields)?;
    let Ok(text) = std::str::from_utf8(&location) else {
        return Some(Err(format!("the redirect of {url} is not utf-8")));
    };
    let next = url.join(text.trim()).map_err(|error| error.to_string());
    let next = next.and_then(|next| parse(next.as_str()));
    Some(next.map_err(|why| format!("{url} redirects to '{}': {why}", text.escape_debug())))
}

fn location(fields: &Source) -> Option<Vec<u8>> {
    field(fields, "location").filter(|location| !location.is_empty())
}

/// Returns the value of a field; several lines are joined by commas.
pub(super) fn field(fields: &Source, name: &str) -> Option<Vec<u8>> {
    fn joined(fields: &impl Fields, name: &str) -> Option<Vec<u8>> {
        let lines: Vec<_> = fields.lines(name).collect();
        (!lines.is_empty()).then(|| lines.join(&b", "[..]))
    }
    match fields {
        Source::Entry(entry) | Source::NotModified(entry) => joined(&entry.fields(), name),
        Source::Fill(head) => joined(&head.fields.view(), name),
        Source::Answer(lines) => joined(&**lines, name),
        Source::Fields(fields) => joined(&**fields, name),
    }
}

/// Checks whether the redirect from `url` to `next` may be followed after the redirects in `seen`.
fn check(plan: &Plan, seen: &[Url], url: &Url, next: &Url) -> Result<(), String> {
    let doors = &plan.settings.doors;
    if next == url || seen.contains(next) {
        return Err(format!("redirects form a loop at {next}"));
    }
    if seen.len() >= doors.redirects {
        return Err(format!("more than {} redirects, the last one to {next}", doors.redirects));
    }
    if !doors.cross_scheme && next.scheme() != url.scheme() {
        return Err(format!("redirect from {url} to {next}: changes of scheme are not allowed"));
    }
    Ok(())
}

fn refused(text: &str, refusal: Refusal) -> Failure {
    failure(text, refusal.status.as_u16(), refusal.reason)
}

/// Returns the failure for a response that is not a page. For a response that this proxy generated, the reason is its
/// content.
fn unsuccessful(text: &str, url: &Url, reply: &Reply) -> Failure {
    let status = reply.status;
    let own = matches!(reply.outcome.kind, Kind::Failed | Kind::Refused);
    let why = match &reply.content {
        Content::Bytes(bytes) if own => own_words(status, bytes),
        _ => format!("{url} answered {} {}", status.as_str(), status.canonical_reason().unwrap_or_default()),
    };
    failure(text, status.as_u16(), why.trim_end())
}

/// Returns the text of an error such as `502: why` without the status, which is reported separately.
fn own_words(status: StatusCode, text: &[u8]) -> String {
    let text = String::from_utf8_lossy(text);
    let words = text.strip_prefix(status.as_str()).and_then(|rest| rest.strip_prefix(": "));
    words.unwrap_or(&text).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::settings::Limits;
    use crate::http::head::Framing;

    #[test]
    fn urls_are_made_sendable_or_refused() {
        for (text, expected) in [
            ("http://example.com", Ok("http://example.com/")),
            (" HTTP://Example.com:80/a b?c d#e ", Ok("http://example.com/a%20b?c%20d")),
            ("https://b\u{fc}cher.example/\u{e4}", Ok("https://xn--bcher-kva.example/%C3%A4")),
            ("http://[::1]:8080/", Ok("http://[::1]:8080/")),
            ("", Err("the url is empty")),
            (" ", Err("the url is empty")),
            ("example.com/a", Err("no url: write the scheme too, such as http://example.com/")),
            ("http://", Err("no url: empty host")),
            ("ftp://a/", Err("scheme 'ftp' is neither http nor https")),
            ("http://u:p@a/", Err("user names and passwords are not sent to origins")),
        ] {
            let got = parse(text).map(String::from);
            assert_eq!(got.as_deref().map_err(String::as_str), expected, "{text}");
        }
    }

    #[test]
    fn nothing_in_a_url_becomes_another_line_or_request() {
        for text in
            ["http://a/\r\nX: y", "http://a/ HTTP/1.1\r\n\r\nGET http://b/", "http://a/?\t\n'\"<>`{}|^\\"]
        {
            let url = parse(text).unwrap();
            let lines = lines(&url, "test");
            let head = RequestHead::compose(&Method::GET, url.as_str(), &lines, &Limits::default()).unwrap();
            assert_eq!(head.framing, Framing::Length(0), "{text:?}");
            assert!(url.as_str().bytes().all(|byte| byte.is_ascii_graphic()), "{text:?}");
        }
    }
}
