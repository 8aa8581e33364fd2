//! Rules that answer requests: clients who are refused, redirects, and fixed responses.

use std::borrow::Cow;

use http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use larder_rules::normal_path;
use larder_semantics::status::Why;

use crate::base::outcome::{Kind, Outcome};
use crate::base::settings::{Answer, Placeholder, Template};
use crate::exchange::plan::Plan;
use crate::exchange::reply::{Content, Reply, Source};
use crate::exchange::request::Request;
use crate::features::credentials;

/// The refusal of a client that the rules for `request` do not serve.
pub(crate) fn refuse(request: &Request) -> Option<Reply> {
    let (ruling, client) = (&request.ruling, request.client.ip());
    let is_allowed = ruling.allow.as_ref().is_none_or(|networks| networks.contains(client));
    let is_denied = ruling.deny.as_ref().is_some_and(|networks| networks.contains(client));
    if is_allowed && !is_denied {
        return None;
    }
    let outcome = Outcome::forwarded(Kind::Refused, Why::AccessDenied);
    let text = "403: a rule of this proxy does not serve this client\n".to_owned();
    Some(Reply::text(StatusCode::FORBIDDEN, text, outcome))
}

/// The refusal of a request that the rules do not serve, or that lacks the credentials that they want: for explanations, as
/// passwords are verified in this thread.
pub(crate) fn foresee_refusal(request: &Request) -> Option<Reply> {
    refuse(request).or_else(|| credentials::lacks(request).then(|| *credentials::refusal(request)))
}

/// The answer of a rule for `request`, if one has any.
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
    fields.insert(header::CONTENT_TYPE, content_type);
    let length = Some(content.len() as u64);
    let content = if request.method == Method::HEAD { Content::None } else { Content::Bytes(content) };
    Some(Reply { length, content, ..Reply::new(status, Source::Fields(fields.into()), outcome) })
}

/// `template` with the parts of `request`. What a client has written never becomes another host.
fn fill(plan: &Plan, request: &Request, template: &Template) -> String {
    let stars = stars(plan, request);
    let (path, query) = request.path.split_at(request.path.find('?').unwrap_or(request.path.len()));
    let value = |placeholder| match placeholder {
        Placeholder::Uri => Cow::Borrowed(&*request.path),
        Placeholder::Path => Cow::Borrowed(path),
        Placeholder::Query => Cow::Borrowed(query),
        Placeholder::Host => Cow::Borrowed(&*request.authority),
        Placeholder::Scheme => Cow::Borrowed(request.scheme),
        Placeholder::Star(number) => Cow::Owned(stars.get(number - 1).cloned().unwrap_or_default()),
    };
    let filled = template.fill(value);
    match filled.starts_with(['/', '\\']) {
        // Two slashes at the beginning, or a backslash, lead browsers to another host.
        true => format!("/{}", filled.trim_start_matches(['/', '\\'])),
        false => filled,
    }
}

/// What the stars in the path of the last rule that has them stand for, fit for a URL.
fn stars(plan: &Plan, request: &Request) -> Vec<String> {
    let rulebook = request.route.rulebook(&plan.forward);
    let path = request.path.split('?').next().unwrap_or_default();
    let path = normal_path(path);
    let rules = request.ruling.numbers.iter().rev().filter_map(|number| rulebook.rule(*number));
    let mut found =
        rules.flat_map(|rule| &rule.rule.conditions.path).filter_map(|path_of| path_of.captures(&path));
    let encode = |star: &[u8]| percent_encoding::percent_encode(star, IN_PATH).to_string();
    found.next().into_iter().flatten().map(encode).collect()
}

/// What may stand in a path as it is (RFC 3986 section 3.3).
const IN_PATH: &percent_encoding::AsciiSet = &percent_encoding::NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~')
    .remove(b'/')
    .remove(b'!')
    .remove(b'$')
    .remove(b'&')
    .remove(b'\'')
    .remove(b'(')
    .remove(b')')
    .remove(b'*')
    .remove(b'+')
    .remove(b',')
    .remove(b';')
    .remove(b'=')
    .remove(b':')
    .remove(b'@');
