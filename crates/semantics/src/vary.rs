//! Selection among the variants of a URI (RFC 9111 section 4.1).
//!
//! A signature consists of the request fields that a response's `Vary` names, with their normalised values,
//! in a self-describing form: an entry stores its signature, and a request is matched against it without the
//! response. Normalisation depends on the field (RFC 9110 section 12.5):
//! - `Accept`: white space around commas, empty members and the distribution over lines do not count;
//! - `Accept-Encoding`, `Accept-Language`, `Accept-Charset`: letter case and order, apart from weights, do
//!   not count either. Origins that prefer the first of equally weighted languages indicate so by
//!   `Content-Language`: for such responses the order of equal languages counts;
//! - `Authorization`, `Cookie`, `Origin`, `Referer`, `User-Agent`: each byte counts;
//! - all others count line by line as written, except for white space around commas outside of quoted strings.

use http::{HeaderName, header};

use crate::choices::Choices;
use crate::cookies::{COOKIE, CookieFields};
use crate::fields::{Fields, between_commas, is_open, members, trim};
use crate::status::Why;
use crate::wire::{put_length, put_part, take_length, take_part};

/// Whether the response varies by properties that no request field shows: `Vary` contains `*`, or a member
/// that is not a field name.
pub fn is_any(response: &impl Fields) -> bool {
    members(response, "vary").any(|member| field_name(member).is_none())
}

/// Whether the response varies by fields in which proxies describe the client, which the client's request
/// does not have.
pub fn is_by_client(response: &impl Fields) -> bool {
    let told = [&b"x-forwarded-for"[..], b"forwarded"];
    members(response, "vary").any(|name| told.iter().any(|told| name.eq_ignore_ascii_case(told)))
}

/// Returns the field name of a member; `*` is a token, and would count as a name.
fn field_name(member: &[u8]) -> Option<HeaderName> {
    HeaderName::from_bytes(member).ok().filter(|_| member != b"*")
}

/// The first byte of a value in which the order of equal choices counts: no field value contains it.
const ORDERED: &[u8] = b"\x01";
/// The most names in a `Vary`; a response with more is not stored.
const MOST_NAMES: usize = 64;
/// The most bytes of a normalised field; longer ones count as written.
const LONGEST: usize = 1024;

/// Appends the signature of `request` for `response`: nothing if the response does not vary.
///
/// # Errors
/// [`Why::VaryAny`] if no signature could ever match, or `Vary` lists too many names (nothing is appended then).
pub fn write(response: &impl Fields, request: &impl Fields, out: &mut Vec<u8>) -> Result<(), Why> {
    let mut names = Vec::new();
    for member in members(response, "vary") {
        names.push(field_name(member).filter(|_| names.len() < MOST_NAMES).ok_or(Why::VaryAny)?);
    }
    names.sort_unstable_by(|one, other| one.as_str().cmp(other.as_str()));
    names.dedup();
    let is_ordered = response.contains("content-language");
    for name in names {
        write_field(request, name.as_str(), is_ordered && name == header::ACCEPT_LANGUAGE, out);
    }
    Ok(())
}

/// Appends the name and the value of a field of `request`, or of a cookie as `cookie:NAME`.
pub(crate) fn write_field(request: &impl Fields, name: &str, is_ordered: bool, out: &mut Vec<u8>) {
    if name.starts_with(COOKIE) {
        put_field(&CookieFields(request), name, is_ordered, out)
    } else {
        put_field(request, name, is_ordered, out)
    }
}

fn put_field(request: &impl Fields, name: &str, is_ordered: bool, out: &mut Vec<u8>) {
    put_part(out, name.as_bytes());
    if !request.contains(name) {
        return put_length(out, 0);
    }
    let order = if is_ordered { ORDERED } else { b"" };
    let mut length = order.len() + 1;
    normalise(request, name, is_ordered, &mut |piece| {
        length += piece.len();
        true
    });
    put_length(out, length);
    out.extend_from_slice(order);
    normalise(request, name, is_ordered, &mut |piece| {
        out.extend_from_slice(piece);
        true
    });
}

/// Returns the signature of `request` for a response that varies by the same fields as the one with this `signature`.
pub fn again(mut signature: &[u8], request: &impl Fields) -> Vec<u8> {
    let mut out = Vec::with_capacity(signature.len());
    while let Some((name, stored)) = take_field(&mut signature) {
        let is_ordered = stored.is_some_and(|stored| stored.starts_with(ORDERED));
        write_field(request, name, is_ordered, &mut out);
    }
    out
}

/// Returns the signature of a stored response whose fields are now those of `response`, since the origin has confirmed
/// it for `request`, which selected it by the signature `stored`.
///
/// While the response varies by the same fields, its signature stays. Otherwise the values that other fields had in
/// the request that fetched it are not known, so it answers only requests that select like the confirmed one.
///
/// # Errors
/// The same as for [`write`].
pub fn confirmed(stored: &[u8], response: &impl Fields, request: &impl Fields) -> Result<Vec<u8>, Why> {
    let mut signature = Vec::new();
    write(response, request, &mut signature)?;
    Ok(if again(stored, request) == signature { stored.to_vec() } else { signature })
}

/// Whether `response` varies by a field that `signature` does not have.
pub fn adds_fields(signature: &[u8], response: &impl Fields) -> bool {
    let is_known =
        |member: &[u8]| fields(signature).any(|(name, _)| member.eq_ignore_ascii_case(name.as_bytes()));
    members(response, "vary").any(|member| !is_known(member))
}

/// Iterates over the request fields in a signature: their names, and their normalised values if the request had them.
pub fn fields(mut signature: &[u8]) -> impl Iterator<Item = (&str, Option<&[u8]>)> {
    let shown = |value| <[u8]>::strip_prefix(value, ORDERED).unwrap_or(value);
    std::iter::from_fn(move || take_field(&mut signature).map(|(name, value)| (name, value.map(shown))))
}

/// Whether two signatures are of responses that vary by the same fields.
pub fn same_fields(mut one: &[u8], mut other: &[u8]) -> bool {
    let name = |signature: &mut &[u8]| take_field(signature).map(|(name, _)| name.to_owned());
    while !one.is_empty() && !other.is_empty() {
        match (name(&mut one), name(&mut other)) {
            (Some(one), Some(other)) if one == other => {}
            _ => return false,
        }
    }
    one.is_empty() && other.is_empty()
}

/// Whether a request selects the response with this signature.
///
/// `content_language` is the response's: a response in the language that the client prefers to all others
/// also matches a request that expresses this differently from the one it was stored for.
pub fn matches<'l>(
    mut signature: &[u8],
    request: &impl Fields,
    content_language: impl Fn() -> Option<&'l [u8]>,
) -> bool {
    while !signature.is_empty() {
        let Some((name, stored)) = take_field(&mut signature) else { return false };
        let same = match name.starts_with(COOKIE) {
            true => is_same(stored, &CookieFields(request), name),
            false => is_same(stored, request, name),
        };
        let language =
            || name == "accept-language" && content_language().is_some_and(|l| prefers(request, l));
        if !same && !language() {
            return false;
        }
    }
    true
}

/// Whether the request's field `name` equals `stored`.
fn is_same(stored: Option<&[u8]>, request: &impl Fields, name: &str) -> bool {
    let mut lines = request.lines(name);
    match (lines.next(), lines.next()) {
        (Some(line), None) => stored.is_some_and(|stored| equals(stored, &OneLine(line), name)),
        (first, _) => stored.map_or(first.is_none(), |stored| {
            equals(stored, request, name) && (!stored.is_empty() || first.is_some())
        }),
    }
}

/// The only line of a field, so that it is not looked for among all lines again.
struct OneLine<'l>(&'l [u8]);

impl Fields for OneLine<'_> {
    fn lines<'a>(&'a self, _name: &'a str) -> impl Iterator<Item = &'a [u8]> + 'a {
        std::iter::once(self.0)
    }
}

/// Takes a name and its value, if the request had one, from the start.
fn take_field<'a>(signature: &mut &'a [u8]) -> Option<(&'a str, Option<&'a [u8]>)> {
    let name = std::str::from_utf8(take_part(signature)?).ok()?;
    let length = take_length(signature)?;
    let Some(length) = length.checked_sub(1) else { return Some((name, None)) };
    let (value, rest) = signature.split_at_checked(length)?;
    *signature = rest;
    Some((name, Some(value)))
}

/// Whether the request's field, normalised, equals `stored`.
fn equals(stored: &[u8], request: &impl Fields, name: &str) -> bool {
    let ordered = stored.strip_prefix(ORDERED);
    let mut rest = Some(ordered.unwrap_or(stored));
    normalise(request, name, ordered.is_some(), &mut |piece| {
        rest = rest.and_then(|rest| rest.strip_prefix(piece));
        rest.is_some()
    });
    rest.is_some_and(<[u8]>::is_empty)
}

/// Emits the normal form of a field, piece by piece, while `emit` returns true.
///
/// A form that counts as written begins with NUL where another form could equal it: no value contains that byte.
fn normalise(request: &impl Fields, name: &str, is_ordered: bool, emit: &mut impl FnMut(&[u8]) -> bool) {
    let is_long = || request.lines(name).map(<[u8]>::len).sum::<usize>() > LONGEST;
    // A quoted string without an end could extend over the comma between two lines.
    let is_literal = || is_long() || request.lines(name).any(is_open);
    match name {
        // The value of a cookie counts as written.
        name if name.starts_with(COOKIE) => _ = join(request.lines(name), b"\n", emit),
        "authorization" | "cookie" | "origin" | "referer" | "user-agent" => {
            join(request.lines(name).map(trim), b"\n", emit);
        }
        _ if is_literal() => _ = emit(b"\0") && join(request.lines(name), b"\n", emit),
        "accept" => _ = join(members(request, name), b",", emit),
        "accept-encoding" | "accept-language" | "accept-charset" => {
            match Choices::of(request, name, is_ordered) {
                Some(choices) => choices.emit(emit),
                None => _ = join(members(request, name), b",", emit),
            }
        }
        _ => {
            let mut lines = request.lines(name).enumerate();
            lines.all(|(index, line)| (index == 0 || emit(b"\n")) && join(between_commas(line), b",", emit));
        }
    }
}

/// Emits `parts` with `separator` in between; returns false if `emit` returned false.
fn join<'a>(
    parts: impl Iterator<Item = &'a [u8]>,
    separator: &[u8],
    emit: &mut impl FnMut(&[u8]) -> bool,
) -> bool {
    let mut parts = parts.enumerate();
    parts.all(|(index, part)| (index == 0 || emit(separator)) && emit(part))
}

/// Whether `language` has the highest weight for the client, and no other language has the same.
fn prefers(request: &impl Fields, language: &[u8]) -> bool {
    if request.lines("accept-language").map(<[u8]>::len).sum::<usize>() > LONGEST {
        return false;
    }
    let Some(choices) = Choices::of(request, "accept-language", true) else { return false };
    match choices.sorted() {
        [] => false,
        [best, rest @ ..] => {
            let only = rest.first().is_none_or(|next| next.weight < best.weight);
            only && best.weight > 0 && best.name.eq_ignore_ascii_case(trim(language))
        }
    }
}

#[cfg(test)]
mod tests;
