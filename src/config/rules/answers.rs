//! Answers of rules: redirects and fixed responses.

use http::{HeaderValue, StatusCode};
use larder_proxy::settings::{Placeholder, Template};
use toml::de::DeValue;

use super::values::{entries, unknown};
use crate::config::draft::rule::{Content, Respond};
use crate::config::lists::string;

/// Parses `"https://www.example.com{uri}"`, or `{ to = .., status = 301 }`.
pub(super) fn redirect(value: &DeValue<'_>) -> Result<(Template, StatusCode), String> {
    let Some(table) = value.as_table() else {
        return Ok((location(value)?, StatusCode::FOUND));
    };
    let (mut to, mut status) = (None, StatusCode::FOUND);
    for (key, value) in entries(table) {
        match key {
            "to" => to = Some(location(value)?),
            "status" => status = one_of(value, &[301, 302, 303, 307, 308])?,
            _ => return Err(unknown(key, &["to", "status"])),
        }
    }
    Ok((to.ok_or("it has no 'to', the URL that it leads to")?, status))
}

/// Parses the URL of a redirect. No part of a request may become its host, or a part of its host.
fn location(value: &DeValue<'_>) -> Result<Template, String> {
    let text = string(value)?;
    let shown = text.escape_debug();
    let authority = ["http://", "https://", "{scheme}://"].iter().find_map(|start| text.strip_prefix(start));
    let own =
        ["/", "{uri}", "{path}", "{path:lower}", "{map}", "{1}"].iter().any(|start| text.starts_with(start));
    if !text.bytes().all(|byte| byte.is_ascii_graphic()) || !(own || authority.is_some()) {
        return Err(format!(
            "'{shown}' is not a URL of a redirect: begin it with '/', {{uri}}, {{path}}, {{1}}, http:// or https://"
        ));
    }
    let host = authority.unwrap_or("/").split(['/', '?', '#']).next().unwrap_or_default();
    // `{uri}` and `{path}` begin with a slash, and so end the host.
    let host = host.split("{uri}").next().and_then(|host| host.split("{path").next()).unwrap_or_default();
    let rest = host.replace("{host}", "");
    let rest = (1..=9).fold(rest, |rest, number| rest.replace(&format!("{{{number}}}"), ""));
    let template = match rest.contains(['{', '}', '@', '\\']) {
        true => Err(format!(
            "'{shown}': only {{host}}, and {{1}} of match.host, may stand in the host of a redirect"
        )),
        false => Template::parse_url(&text),
    }?;
    let is_unknown = |own: &&Placeholder| {
        own.is_of_reply() || matches!(own, Placeholder::Field(_) | Placeholder::Cookie(_))
    };
    let unknown = template.placeholders().find(is_unknown).cloned();
    match unknown {
        Some(own) if own.is_of_reply() => {
            Err(format!("'{shown}': {{outcome}}, {{origin}} and {{origin_time}} are known only in replies"))
        }
        Some(_) => Err(format!(
            "'{shown}': a client's fields and cookies stand in no redirect, which caches may keep"
        )),
        None => Ok(template),
    }
}

/// Parses a status code, or a table with `status`, `type`, and `body` or `file`.
pub(super) fn respond(value: &DeValue<'_>) -> Result<Respond, String> {
    let Some(table) = value.as_table() else {
        return Ok(Respond { status: any_status(value)?, content_type: None, content: Content::Status });
    };
    let mut respond =
        Respond { status: StatusCode::OK, content_type: None, content: Content::Text(String::new()) };
    for (key, value) in entries(table) {
        match key {
            "status" => respond.status = any_status(value)?,
            "type" => {
                let text = string(value)?;
                let parsed = HeaderValue::from_str(&text).ok().filter(|_| text.contains('/'));
                let parsed =
                    parsed.ok_or_else(|| format!("'{}' is not a media type", text.escape_debug()))?;
                respond.content_type = Some(parsed);
            }
            "body" => respond.content = Content::Text(string(value)?),
            "file" => respond.content = Content::File(string(value)?.into()),
            _ => return Err(unknown(key, &["status", "type", "body", "file"])),
        }
    }
    if entries(table).filter(|(key, _)| matches!(*key, "body" | "file")).count() > 1 {
        return Err("write either body or file".to_owned());
    }
    if respond.status == StatusCode::NO_CONTENT {
        return Err("a response with status 204 has no content: write respond = 204".to_owned());
    }
    Ok(respond)
}

/// Reads the status of an answer.
pub(super) fn any_status(value: &DeValue<'_>) -> Result<StatusCode, String> {
    let code = value.as_integer().and_then(|number| number.as_str().parse().ok());
    let code = code.filter(|code| (200..=599).contains(code) && !matches!(code, 205 | 206 | 304));
    let status = code.and_then(|code: u16| StatusCode::from_u16(code).ok());
    status.ok_or_else(|| "expected a status code from 200 to 599, but for 205, 206 and 304".to_owned())
}

fn one_of(value: &DeValue<'_>, codes: &[u16]) -> Result<StatusCode, String> {
    let code = value.as_integer().and_then(|number| number.as_str().parse().ok());
    let status = code.filter(|code| codes.contains(code)).and_then(|code| StatusCode::from_u16(code).ok());
    status.ok_or_else(|| {
        let codes: Vec<_> = codes.iter().map(ToString::to_string).collect();
        format!("expected a status code of: {}", codes.join(" "))
    })
}
