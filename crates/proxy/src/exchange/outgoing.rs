//! What origins get of a request: its fields and its path, with the changes by its rules.

use std::sync::Arc;

use http::{HeaderMap, HeaderName, HeaderValue, Method, header};
use larder_semantics::fields::Fields;
use larder_semantics::{range, storable};

use crate::base::settings::Edits;
use crate::exchange::forwarded::{is_dropped, is_out_of_place};
use crate::exchange::plan::Plan;
use crate::exchange::route::Route;
use crate::exchange::rulebook::Rulebook;
use crate::exchange::ruling::Ruling;
use crate::http::head::{Refusal, RequestHead};
use crate::http::names;

/// A request before rules have changed it.
#[derive(Clone, Debug)]
pub(crate) struct OriginalRequest {
    pub(crate) fields: HeaderMap,
    /// Path and query.
    pub(crate) path: String,
}

/// Applies the edits of rules to the fields of a request.
pub(super) type Edit = fn(&Edits, &mut HeaderMap);

/// Returns how the edits of rules apply to the fields of a request with this method. TRACE, which some origins accept in
/// any case, shows the request to its client, which must not learn the secrets that rules write.
pub(super) fn edit(method: &Method) -> Edit {
    if is_trace(method) { Edits::remove_from } else { Edits::apply }
}

/// Whether origins may take `method` for TRACE.
pub(crate) fn is_trace(method: &Method) -> bool {
    method.as_str().eq_ignore_ascii_case(Method::TRACE.as_str())
}

/// Changes a request by its rules. Returns its path with the part of its query that counts, and the original request
/// with the `taken` credentials, if it is needed. `filled` are the edits of its fields if they have placeholders. The fields
/// of a request from another node are changed already.
pub(super) fn change(
    rulebook: &Rulebook,
    ruling: &Ruling,
    path: String,
    filled: Option<&Edits>,
    (fields, taken, edit): (&mut HeaderMap, Option<&HeaderValue>, Option<Edit>),
) -> (String, Option<Box<OriginalRequest>>) {
    let counted = counted(ruling, &path).filter(|counted| *counted != path);
    let edit = edit.filter(|_| !ruling.request.is_empty());
    let is_changed = edit.is_some() || taken.is_some() || counted.is_some();
    let is_looked_at =
        rulebook.needs_original() || ruling.limits_by_content() || ruling.reply.has_placeholders;
    let unchanged = (is_changed && is_looked_at).then(|| {
        let taken = taken.map(|value| (header::AUTHORIZATION, value.clone()));
        let fields = fields.iter().map(|(name, value)| (name.clone(), value.clone())).chain(taken);
        Box::new(OriginalRequest { fields: fields.collect(), path: path.clone() })
    });
    edit.into_iter().for_each(|edit| edit(filled.unwrap_or(&ruling.request), fields));
    if rulebook.compresses(ruling) && range::is_resumed_by_date(fields) {
        // The client may have the beginning of another form with the same date.
        fields.remove(header::RANGE);
        fields.remove(header::IF_RANGE);
    }
    (counted.unwrap_or(path), unchanged)
}

/// Takes the credentials for this proxy out of a request whose rules want some; `None` without any, or with several.
pub(super) fn credentials(
    head: &RequestHead<'_>,
    route: &Route,
    ruling: &Ruling,
    fields: &mut HeaderMap,
) -> Option<HeaderValue> {
    ruling.wanted.as_ref()?;
    if let Route::Anywhere = route {
        let mut lines = head.fields.lines("proxy-authorization");
        let line = lines.next().filter(|_| lines.next().is_none())?;
        return HeaderValue::from_bytes(line).ok();
    }
    let is_one = fields.get_all(header::AUTHORIZATION).iter().count() == 1;
    fields.remove(header::AUTHORIZATION).filter(|_| is_one)
}

/// Returns `path` with the part of its query that counts.
fn counted(ruling: &Ruling, path: &str) -> Option<String> {
    let rule = ruling.query.as_ref()?;
    let (start, query) = path.split_once('?')?;
    let mut counted = start.as_bytes().to_vec();
    rule.write(query, &mut counted);
    Some(String::from_utf8_lossy(&counted).into_owned())
}

/// Collects the fields to forward: without those of this connection, those that are written again, and those that tell
/// origins more than the cache key has, except for the one called `own`. The `id` of the request replaces the field of
/// its name.
pub(super) fn collect(
    head: &RequestHead<'_>,
    own: Option<&str>,
    (plan, id): (&Plan, Option<&Arc<str>>),
) -> Result<HeaderMap, Refusal> {
    let concerns_hop = storable::is_hop_by_hop(&head.fields);
    let is_own = |name: &str| own.is_some_and(|own| name.eq_ignore_ascii_case(own));
    let is_written_again = |name: &str| WRITTEN_AGAIN.iter().any(|again| name.eq_ignore_ascii_case(again));
    let stays = |name: &str| is_written_again(name) || (is_dropped(name) && !is_own(name));
    let mut fields = HeaderMap::with_capacity(head.fields.count().saturating_sub(1));
    for (name, value) in head.fields.iter() {
        if stays(name) || concerns_hop(name.as_bytes()) || is_out_of_place(name, head) {
            continue;
        }
        let name = HeaderName::from_bytes(name.as_bytes());
        let name = name.map_err(|_| Refusal::bad("malformed header field name"))?;
        let value = HeaderValue::from_bytes(value);
        fields.append(name, value.map_err(|_| MALFORMED_VALUE)?);
    }
    if let (Some(name), Some(id)) = (&plan.settings.request_id, id) {
        fields.insert(name, HeaderValue::from_str(id).map_err(|_| MALFORMED_VALUE)?);
    }
    Ok(fields)
}

const MALFORMED_VALUE: Refusal = Refusal::bad("malformed header field value");
const WRITTEN_AGAIN: [&str; 3] = ["host", "expect", "content-length"];

/// Returns the Larder field that a request on this route may have: one that is answered here, or one for a gateway,
/// which stores no answers.
pub(super) fn own_field(route: &Route, method: &Method) -> Option<&'static str> {
    match route {
        Route::Site(_) if method.as_str() == names::PURGE => Some(names::PURGE_MORE),
        Route::Site(site) if site.tags.is_some() => Some(names::VALIDATE),
        _ => None,
    }
}
