//! `Cache-Control` of requests and responses (RFC 9111 section 5.2), `Pragma` (5.4) and targeted fields
//! (RFC 9213) as plain values. Other modules decide their effect.

use http::HeaderName;
use memchr::memchr_iter;
use sfv::{BareItem, Dictionary, ListEntry, Parser};

use crate::fields::{Fields, is_quoted, is_token, joined, list, members};
use crate::groups;
use crate::wire::decimal;

/// A client's directives to caches (RFC 9111 section 5.2.1); the default has none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RequestDirectives {
    /// Stored responses must be validated before use.
    pub no_cache: bool,
    /// Neither the request nor its response may be stored.
    pub no_store: bool,
    /// The cache must answer with a stored response or 504.
    pub only_if_cached: bool,
    /// The greatest acceptable age, in seconds.
    pub max_age: Option<u32>,
    /// The greatest acceptable staleness, in seconds; `u32::MAX`: any.
    pub max_stale: Option<u32>,
    /// The time that a response must stay fresh, in seconds.
    pub min_fresh: Option<u32>,
    /// The acceptable staleness when the origin fails, in seconds (RFC 5861 section 4).
    pub stale_if_error: Option<u32>,
}

impl RequestDirectives {
    /// Returns the directives without the demand for a newer response than the stored one.
    pub fn ignoring_reloads(self) -> Self {
        Self { no_cache: false, max_age: None, min_fresh: None, ..self }
    }

    /// Parses a request's `Cache-Control`, or in its absence `Pragma`. Of repeated directives the first one
    /// counts. What is malformed restricts: it demands a validation, and accepts no stale response.
    pub fn parse(request: &impl Fields) -> Self {
        let mut found = Self::default();
        if !request.contains("cache-control") {
            found.no_cache = request.contains("pragma") && has(request, "pragma", "no-cache");
            return found;
        }
        let number = |value: Option<&[u8]>, malformed| Some(value.and_then(seconds).unwrap_or(malformed));
        members(request, "cache-control").for_each(|member| {
            each(member, |name, value| match name {
                b"no-cache" => found.no_cache = true,
                b"no-store" => found.no_store = true,
                b"only-if-cached" => found.only_if_cached = true,
                b"max-age" => found.max_age = found.max_age.or(number(value, 0)),
                b"max-stale" => {
                    let any = value.filter(|value| value.is_empty()).map(|_| u32::MAX);
                    found.max_stale = found.max_stale.or(any).or(number(value, 0));
                }
                b"min-fresh" => found.min_fresh = found.min_fresh.or(number(value, u32::MAX)),
                b"stale-if-error" => found.stale_if_error = found.stale_if_error.or(number(value, 0)),
                _ => {}
            });
        });
        found
    }
}

/// An origin's directives to caches (RFC 9111 section 5.2.2).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResponseDirectives {
    /// Seconds of freshness; 0 for a value that is not a number.
    pub max_age: Option<u32>,
    /// The same for shared caches.
    pub s_maxage: Option<u32>,
    /// Seconds of staleness allowed while revalidating (RFC 5861 section 3).
    pub stale_while_revalidate: Option<u32>,
    /// Seconds of staleness allowed when the origin fails (RFC 5861 section 4).
    pub stale_if_error: Option<u32>,
    /// The response must not be stored.
    pub no_store: bool,
    /// Each use must be validated. Set by the unqualified form only.
    pub no_cache: bool,
    /// The response is for one user. Set by the unqualified form only.
    pub private: bool,
    /// The response is storable even where it otherwise would not be.
    pub public: bool,
    /// The response must not be used when stale.
    pub must_revalidate: bool,
    /// The same for shared caches.
    pub proxy_revalidate: bool,
    /// The response is stored only if the status code is understood, and then in spite of `no-store`.
    pub must_understand: bool,
    /// The response does not change while fresh (RFC 8246).
    pub immutable: bool,
    /// The content must not be transformed.
    pub no_transform: bool,
    /// The fields named by `no-cache="…"` and `private="…"`, which are not stored.
    pub withheld: Vec<HeaderName>,
    /// Whether they come from a targeted field, so that `Expires` has no effect (RFC 9213 section 2.2).
    pub targeted: bool,
    /// Whether one of them is malformed. Such directives restrict, and the others permit no exceptions then.
    pub malformed: bool,
}

/// The length of the longest directive, `stale-while-revalidate`.
const LONGEST_NAME: usize = 22;

impl ResponseDirectives {
    /// Parses the first valid, non-empty field of `targets` (lower-case names), or else `Cache-Control`. Of
    /// repeated directives the first counts. What is malformed restricts: a lifetime is 0 (RFC 9111 section
    /// 4.2.1), and a prohibition holds. A malformed field of `targets` is ignored (RFC 9213 section 2.2), but a
    /// lifetime from another field does not replace the intended one.
    pub fn parse(response: &impl Fields, targets: &[String]) -> Self {
        let (mut chosen, mut ignored) = (None, Vec::new());
        for target in targets {
            match targeted(response, target) {
                Ok(found) => chosen = found,
                Err(value) => ignored.push(value),
            }
            if chosen.is_some() {
                break;
            }
        }
        let mut found = chosen.unwrap_or_else(|| {
            let mut found = Self::default();
            members(response, "cache-control")
                .for_each(|member| each(member, |name, value| found.set(name, value)));
            found
        });
        for value in ignored {
            let mut about = Self::default();
            words(&value, |name| about.set(name, None));
            if about.malformed {
                words(&value, |name| found.set(name, None));
                found.expire();
            }
        }
        found
    }

    /// Whether the response must not be stored, where its status code is understood (RFC 9111 section 5.2.2.3).
    pub fn forbids_storing(&self) -> bool {
        self.no_store && (self.malformed || !self.must_understand)
    }

    /// Whether a response to a request with `Authorization` may be stored (RFC 9111 section 3.5).
    pub fn permits_sharing(&self) -> bool {
        !self.malformed && (self.public || self.must_revalidate || self.s_maxage.is_some())
    }

    /// Sets the directive called `name`, with its argument; `None` if it is malformed.
    fn set(&mut self, name: &[u8], value: Option<&[u8]>) {
        let is_valid = value.is_some();
        let lifetime = |earlier: &mut Option<u32>| match value.and_then(seconds) {
            Some(seconds) => _ = earlier.get_or_insert(seconds),
            None => *earlier = Some(0),
        };
        match name {
            b"max-age" => lifetime(&mut self.max_age),
            b"s-maxage" => lifetime(&mut self.s_maxage),
            b"stale-while-revalidate" => lifetime(&mut self.stale_while_revalidate),
            b"stale-if-error" => lifetime(&mut self.stale_if_error),
            b"no-cache" => self.no_cache |= !value.is_some_and(|names| self.withhold(names)),
            b"private" => self.private |= !value.is_some_and(|names| self.withhold(names)),
            b"no-store" => self.no_store = true,
            b"public" => self.public |= is_valid,
            b"must-revalidate" => self.must_revalidate = true,
            b"proxy-revalidate" => self.proxy_revalidate = true,
            b"must-understand" => self.must_understand = true,
            b"immutable" => self.immutable |= is_valid,
            b"no-transform" => self.no_transform = true,
            _ => return,
        }
        self.malformed |= !is_valid;
    }

    /// Removes all lifetimes.
    fn expire(&mut self) {
        self.max_age = Some(0);
        self.s_maxage = self.s_maxage.map(|_| 0);
        (self.stale_while_revalidate, self.stale_if_error) = (Some(0), Some(0));
    }

    /// Whether `value` lists field names, and not none, and the response is of use without these fields; they are withheld
    /// then.
    fn withhold(&mut self, value: &[u8]) -> bool {
        let names = names(value).unwrap_or_default();
        let qualified = !names.is_empty() && !names.iter().any(|name| is_needed(name.as_str()));
        if qualified {
            self.withheld.extend(names);
        }
        qualified
    }
}

/// Whether a response means something else without the field of this name (in lower case): one that describes its content,
/// or is for caches. A directive that names one applies to the whole response (RFC 9111 sections 5.2.2.4 and
/// 5.2.2.7 allow that).
fn is_needed(name: &str) -> bool {
    let is_one_of = |names: &[&str]| names.contains(&name);
    name.starts_with("content-")
        || name.ends_with("-control")
        || is_one_of(&["etag", "expires", "last-modified", "location", "no-vary-search", "vary"])
        || is_one_of(&groups::FIELDS)
}

/// Returns [`ResponseDirectives::withheld`]. Few responses withhold fields, and all others need not be parsed for it.
pub(crate) fn withheld(response: &impl Fields, targets: &[String]) -> Vec<HeaderName> {
    let fields = targets.iter().map(String::as_str).chain(["cache-control"]);
    match fields.flat_map(|name| response.lines(name)).any(may_withhold) {
        true => ResponseDirectives::parse(response, targets).withheld,
        false => Vec::new(),
    }
}

/// Whether a directive of this value may list fields: white space before `=` makes it malformed.
fn may_withhold(value: &[u8]) -> bool {
    let ends_in = |start: &[u8], name: &str| {
        let end = start.len().checked_sub(name.len()).map(|from| &start[from..]);
        end.is_some_and(|end| end.eq_ignore_ascii_case(name.as_bytes()))
    };
    memchr_iter(b'=', value).any(|at| ["no-cache", "private"].iter().any(|name| ends_in(&value[..at], name)))
}

/// Parses a list of field names, as a token or quoted. Apostrophes are no quotes, though names may have them.
fn names(value: &[u8]) -> Option<Vec<HeaderName>> {
    let name = |name: &[u8]| HeaderName::from_bytes(name).ok().filter(|name| !name.as_str().contains('\''));
    list(unquoted(value)).map(name).collect()
}

/// Parses a targeted field; `None` without one, or if it is empty. An error with its value unless it is a structured
/// dictionary whose members have the types of their directives (RFC 9213 section 2.1).
fn targeted(response: &impl Fields, name: &str) -> Result<Option<ResponseDirectives>, Vec<u8>> {
    let Some(value) = joined(response, name) else { return Ok(None) };
    let dictionary = Parser::new(&value).parse::<Dictionary>().ok();
    let Some(members) =
        dictionary.filter(|members| members.iter().all(|(name, member)| is_typed(name.as_str(), member)))
    else {
        return Err(value.into_owned());
    };
    let mut found = ResponseDirectives { targeted: true, ..Default::default() };
    for (name, member) in &members {
        let ListEntry::Item(item) = member else { continue };
        let argument = match &item.bare_item {
            BareItem::Integer(seconds) => i64::from(*seconds).max(0).to_string(),
            BareItem::String(names) => names.as_str().to_owned(),
            _ => String::new(),
        };
        found.set(name.as_str().as_bytes(), Some(argument.as_bytes()));
    }
    Ok(Some(found).filter(|_| !members.is_empty()))
}

/// Whether a member of a targeted field has the type of its directive.
fn is_typed(name: &str, member: &ListEntry) -> bool {
    let name = name.as_bytes();
    match member {
        ListEntry::Item(item) => match &item.bare_item {
            BareItem::Integer(_) => is_lifetime(name) || !is_known(name),
            BareItem::String(listed) if takes_names(name) => names(listed.as_str().as_bytes()).is_some(),
            BareItem::Boolean(true) => !is_lifetime(name),
            _ => !is_known(name),
        },
        ListEntry::InnerList(_) => !is_known(name),
    }
}

/// Whether the directive called `name` may list names of fields.
fn takes_names(name: &[u8]) -> bool {
    matches!(name, b"no-cache" | b"private")
}

/// Whether the directive called `name` takes a number of seconds.
pub(crate) fn is_lifetime(name: &[u8]) -> bool {
    matches!(name, b"max-age" | b"s-maxage" | b"stale-while-revalidate" | b"stale-if-error")
}

/// Whether a response's directive called `name` has an effect in this crate.
pub(crate) fn is_known(name: &[u8]) -> bool {
    let is_flag = matches!(
        name,
        b"no-cache"
            | b"private"
            | b"no-store"
            | b"public"
            | b"must-revalidate"
            | b"proxy-revalidate"
            | b"must-understand"
            | b"immutable"
            | b"no-transform"
    );
    is_flag || is_lifetime(name)
}

/// Whether a field has a directive called `wanted`, well-formed or not.
pub(crate) fn has(fields: &impl Fields, field: &str, wanted: &str) -> bool {
    members(fields, field).any(|member| {
        let mut is_found = false;
        each(member, |name, _| is_found |= name == wanted.as_bytes());
        is_found
    })
}

/// Returns name and argument, without quotes, of one member; `None` if it is malformed.
pub(crate) fn split(member: &[u8]) -> Option<(&[u8], &[u8])> {
    directive(member).map(|(name, value)| (name, unquoted(value)))
}

/// Calls `found` for a member with the name of its directive, in lower case, and its argument, empty without one. If it
/// is malformed, calls `found` for each of its words with `None`: a wrong separator or an open quotation mark must not
/// make a response for one user public.
fn each(member: &[u8], mut found: impl FnMut(&[u8], Option<&[u8]>)) {
    let Some((name, value)) = directive(member) else {
        return words(member, |word| found(word, None));
    };
    let mut is_valid = true;
    lowercase(name, |name| {
        is_valid = match name {
            b"max-stale" => value.is_empty() || seconds(value).is_some(),
            name if is_lifetime(name) || name == b"min-fresh" => seconds(value).is_some(),
            name if takes_names(name) => names(value).is_some(),
            name => value.is_empty() || !is_known(name),
        };
        if is_valid {
            found(name, Some(value));
        }
    });
    if !is_valid {
        words(member, |word| found(word, None));
    }
}

/// Calls `found` for each word of a malformed text.
fn words(malformed: &[u8], mut found: impl FnMut(&[u8])) {
    malformed.split(|byte| !is_token(&[*byte])).for_each(|word| lowercase(word, &mut found));
}

/// Calls `found` with a token in lower case, if it may be the name of a directive.
fn lowercase(token: &[u8], found: impl FnOnce(&[u8])) {
    let mut lower = [0; LONGEST_NAME];
    // Longer names have no meaning.
    let Some(lower) = lower.get_mut(..token.len()) else { return };
    lower.copy_from_slice(token);
    lower.make_ascii_lowercase();
    found(lower);
}

/// Returns name and argument (empty without one) of one member: a token, with a token or a quoted string (RFC 9111
/// section 5.2). `None` if it is malformed.
fn directive(member: &[u8]) -> Option<(&[u8], &[u8])> {
    let (name, value) = match member.iter().position(|&byte| byte == b'=') {
        Some(at) => (&member[..at], &member[at + 1..]),
        None => return is_token(member).then_some((member, &[])),
    };
    (is_token(name) && (is_token(value) || is_quoted(value))).then_some((name, value))
}

/// Parses a delta-seconds (RFC 9111 section 1.2.2), as a token or quoted.
fn seconds(value: &[u8]) -> Option<u32> {
    decimal(unquoted(value)).map(|seconds| seconds.min(u32::MAX.into()) as u32)
}

fn unquoted(value: &[u8]) -> &[u8] {
    value.strip_prefix(b"\"").and_then(|rest| rest.strip_suffix(b"\"")).unwrap_or(value)
}

#[cfg(test)]
mod tests;
