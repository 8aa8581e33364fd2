//! Rules that answer requests: refusals of clients, redirects, and fixed responses.

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, StatusCode, header};
use larder_semantics::status::Why;

use crate::base::outcome::{Kind, Outcome};
use crate::base::settings::{Answer, SignatureFault};
use crate::exchange::placeholders;
use crate::exchange::plan::Plan;
use crate::exchange::reply::{Reply, Source};
use crate::exchange::request::Request;

/// Returns the refusal of a client or a URL that the rules for the request do not serve.
pub(crate) fn refusal(request: &Request) -> Reply {
    let outcome = Outcome::forwarded(Kind::Refused, Why::AccessDenied);
    let text = match request.unsigned {
        Some(SignatureFault::Expired) => "403: this link has expired\n",
        Some(SignatureFault::Forged) => "403: this URL needs a valid signature\n",
        None => "403: a rule of this proxy does not serve this client\n",
    }
    .to_owned();
    Reply::text(StatusCode::FORBIDDEN, text, outcome)
}

/// Returns the answer of a rule to `request`, if a rule has one.
pub(crate) fn answer(plan: &Plan, request: &Request) -> Option<Reply> {
    let answer = request.ruling.answer.as_deref()?;
    let outcome = Outcome::forwarded(Kind::Pass, Why::ByRule);
    let mut fields = HeaderMap::new();
    let (status, content_type, content) = match answer {
        Answer::Redirect { status, location } => {
            let rulebook = request.route.rulebook(&plan.forward);
            let rule = rulebook.last_that(&request.ruling.numbers, |effects| effects.answer.is_some());
            let location = placeholders::fill_url(location, &request.parts(), rule);
            fields.insert(header::LOCATION, HeaderValue::from_str(&location).ok()?);
            let text = format!("{}: see {location}\n", status.as_str());
            (*status, HeaderValue::from_static("text/plain; charset=utf-8"), text.into())
        }
        Answer::Content { status, content_type, content, is_filled, .. } => {
            let content = if *is_filled { filled(content, request) } else { content.clone() };
            (*status, content_type.clone(), content)
        }
    };
    if status != StatusCode::NO_CONTENT {
        fields.insert(header::CONTENT_TYPE, content_type);
    }
    let reply = Reply::new(status, Source::Fields(fields.into()), outcome);
    Some(reply.with_bytes(&request.method, content))
}

/// Returns `content` with the client's address and the id of the request in the places of their placeholders. Neither
/// has characters with a meaning in HTML or JSON.
fn filled(content: &Bytes, request: &Request) -> Bytes {
    let text = String::from_utf8_lossy(content).replace("{client}", &request.client.ip().to_string());
    text.replace("{id}", request.id.as_deref().unwrap_or_default()).into()
}
