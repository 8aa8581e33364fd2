//! `auth_request`: a service that decides whether clients are served.

use std::sync::Arc;
use std::time::Duration;

use http::{HeaderName, header};
use larder_proxy::settings::{AuthRequest, Effects, Pattern, PermissionBy, Placeholder};
use toml::de::DeValue;

use super::values::{each, entries, field, template, unknown, word, written_field};
use crate::config::draft::rule::RuleDraft;
use crate::config::kinds::{AtLeast, Kind};
use crate::config::lists::string;
use crate::config::places;

/// The keys of the table.
const KEYS: [&str; 6] = ["url", "send", "take", "cache", "by", "on_failure"];

/// Parses `{ url = "http://127.0.0.1:9000/check", .. }`, or `false`.
pub(super) fn auth_request(value: &DeValue<'_>) -> Result<Option<Arc<AuthRequest>>, String> {
    if value.as_bool() == Some(false) {
        return Ok(None);
    }
    let Some(table) = value.as_table() else {
        return Err("expected { url = \"http://127.0.0.1:9000/check\" }, or false".to_owned());
    };
    let url = entries(table).find(|(key, _)| *key == "url").ok_or("it has no 'url', that of the service")?.1;
    let mut auth = AuthRequest {
        service: places::service(&string(url)?)?,
        send: Vec::new(),
        take: Vec::new(),
        cache: Duration::ZERO,
        by: Vec::new(),
        fails_open: false,
    };
    for (key, value) in entries(table) {
        match key {
            "url" => {}
            "send" => auth.send = each(value, field_name)?,
            "take" => auth.take = each(value, written_field)?,
            "cache" => auth.cache = AtLeast(0).read(value)?,
            "by" => auth.by = each(value, permission_by)?,
            "on_failure" => {
                auth.fails_open = word(&string(value)?, &[("closed", false), ("open", true)])?;
            }
            _ => return Err(unknown(key, &KEYS)),
        }
    }
    let has_send = entries(table).any(|(key, _)| key == "send");
    if !has_send && auth.by.is_empty() {
        auth.send = vec![header::AUTHORIZATION, header::COOKIE];
    }
    checked(auth).map(|auth| Some(Arc::new(auth)))
}

fn checked(auth: AuthRequest) -> Result<AuthRequest, String> {
    let is_credential = |by: &PermissionBy| matches!(by, PermissionBy::Field(_) | PermissionBy::Cookie(_));
    let has_cookies = auth.by.iter().any(|by| matches!(by, PermissionBy::Cookie(_)));
    match auth.cache.is_zero() {
        false if !auth.by.iter().any(is_credential) => {
            Err("cache needs 'by', the credential for which a permission is remembered, such as \
             by = \"cookie:session\" or by = \"field:Authorization\""
                .to_owned())
        }
        true if !auth.by.is_empty() => {
            Err("by has no meaning without cache, since the service is asked for each request".to_owned())
        }
        _ if has_cookies && auth.send.contains(&header::COOKIE) => {
            Err("send has all cookies, and by some of them: write one of them".to_owned())
        }
        _ => Ok(auth),
    }
}

/// Parses a part of requests for which a permission holds.
fn permission_by(text: &str) -> Result<PermissionBy, String> {
    match text.split_once(':') {
        Some(("field", name)) => field_name(name).map(PermissionBy::Field),
        Some(("cookie", name)) => Pattern::parse(name).map(PermissionBy::Cookie),
        _ => {
            let words = [("uri", PermissionBy::Uri), ("client", PermissionBy::Client)];
            let known = words.into_iter().find(|(word, _)| *word == text).map(|(_, by)| by);
            known.ok_or_else(|| {
                format!("'{}' is none of: field:NAME cookie:NAME uri client", text.escape_debug())
            })
        }
    }
}

fn field_name(text: &str) -> Result<HeaderName, String> {
    let name = field(text)?;
    HeaderName::from_bytes(name.as_bytes()).map_err(|_| format!("'{name}' is not a field name"))
}

/// Adds to `effects` what follows from the fields that a service, a token or a password sets: separate stored responses for their values, and
/// none of them from clients.
pub(super) fn add_taken(draft: &RuleDraft, effects: &mut Effects) -> Result<(), String> {
    add_parts(draft, effects)?;
    let taken: Vec<_> = effects.taken().cloned().collect();
    if !taken.is_empty() && !draft.conditions.are_about_resource() {
        return Err("auth_request.take, jwt.send and user_field store separate responses for all requests of a path: match only \
                    path, extension, host and scheme"
            .to_owned());
    }
    effects.apart.extend(taken.iter().map(|name| name.as_str().to_owned()));
    effects.request.remove.extend(taken);
    Ok(())
}

/// Stores separate responses for the values of fields in which origins get the subject of a certificate, a field or a
/// cookie; or none, if only some of the requests for a URL have them.
fn add_parts(draft: &RuleDraft, effects: &mut Effects) -> Result<(), String> {
    let names = |is: fn(&Placeholder) -> bool| -> Vec<_> {
        let has = |value| template(value).is_some_and(|own| own.placeholders().any(is));
        let lines = effects.request.written_lines().filter(|(_, value)| has(value));
        lines.map(|(name, _)| name.as_str().to_owned()).collect()
    };
    let subjects = names(|own| *own == Placeholder::Certificate);
    let parts = names(|own| matches!(own, Placeholder::Field(_) | Placeholder::Cookie(_)));
    let is_of_all = draft.conditions.are_about_resource();
    if !subjects.is_empty() && !is_of_all {
        return Err("request: {client_cert} stores separate responses for all requests of a path: match only path, extension, \
                    host and scheme; it is empty without a certificate"
            .to_owned());
    }
    if !parts.is_empty() && !is_of_all {
        effects.cache = effects.cache.or(Some(false));
        return Ok(());
    }
    effects.apart.extend(subjects.into_iter().chain(parts));
    Ok(())
}
