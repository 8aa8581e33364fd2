//! Rules that answer requests: refusals of clients, redirects, and fixed responses.

use http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use larder_semantics::status::Why;

use crate::base::outcome::{Kind, Outcome};
use crate::base::settings::{Answer, Template};
use crate::exchange::placeholders;
use crate::exchange::plan::Plan;
use crate::exchange::reply::{Content, Reply, Source};
use crate::exchange::request::Request;

/// Returns the refusal of a client that the rules for its request do not serve.
pub(crate) fn refusal() -> Reply {
    let outcome = Outcome::forwarded(Kind::Refused, Why::AccessDenied);
    let text = "403: a rule of this proxy does not serve this client\n".to_owned();
    Reply::text(StatusCode::FORBIDDEN, text, outcome)
}

/// Returns the answer of a rule to `request`, if a rule has one.
pub(crate) fn answer(plan: &Plan, request: &Request) -> Option<Reply> {
    let answer = request.ruling.answer.as_deref()?;
    let outcome = Outcome::forwarded(Kind::Pass, Why::ByRule);
    let mut fields = HeaderMap::new();
    let (status, content_type, content) = match answer {
        Answer::Redirect { status, location } => {
            let location = fill(plan, request, location);
            fields.insert(header::LOCATION, HeaderValue::from_str(&location).ok()?);
            let text = format!("{}: see {location}\n", status.as_str());
            (*status, HeaderValue::from_static("text/plain; charset=utf-8"), text.into())
        }
        Answer::Content { status, content_type, content, .. } => {
            (*status, content_type.clone(), content.clone())
        }
    };
    if status != StatusCode::NO_CONTENT {
        fields.insert(header::CONTENT_TYPE, content_type);
    }
    let length = Some(content.len() as u64);
    let content = if request.method == Method::HEAD { Content::None } else { Content::Bytes(content) };
    Some(Reply { length, content, ..Reply::new(status, Source::Fields(fields.into()), outcome) })
}

/// Fills `template` with the parts of `request`. Stars are those in the path of the template's rule: the last rule
/// that answers.
fn fill(plan: &Plan, request: &Request, template: &Template) -> String {
    let rulebook = request.route.rulebook(&plan.forward);
    let mut rules = request.ruling.numbers.iter().rev().filter_map(|number| rulebook.rule(*number));
    let own = rules.find(|rule| rule.effects.answer.is_some());
    placeholders::fill(template, request, own.into_iter().flat_map(|rule| &rule.rule.conditions.path))
}
