//! Rules of a site or of the forward proxy: their conditions and effects.

use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderName, HeaderValue, StatusCode};
use larder_rules::{Networks, Pattern, Query, Rule};
use larder_semantics::coding::Coding;
use larder_semantics::early_hints::EarlyHints;
use larder_semantics::lifetimes::{Ignored, Lifetimes};
use larder_semantics::readings;
use larder_semantics::storable::Prediction;

use super::limit::Limit;
use super::pages::Pages;
use super::upstream::{Tries, Upstream};
use super::users::{Tokens, Users};

/// A rule.
#[derive(Clone, Debug)]
pub struct SiteRule {
    /// The name in explanations and statistics.
    pub name: String,
    /// The beginning of the rule in the config, such as `larder.toml:12`.
    pub place: String,
    /// The conditions.
    pub rule: Rule,
    /// The effects.
    pub effects: Effects,
    /// Further files that the rule was read from. A change of one of them causes a reload of the config.
    pub files: Vec<PathBuf>,
}

/// The effects of a rule. Those that it does not set stay as the site or an earlier rule sets them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Effects {
    /// Whether responses are stored and reused.
    pub cache: Option<bool>,
    /// The lifetimes of responses.
    pub lifetimes: Lifetimes,
    /// Maximum staleness of a response while it is revalidated, in seconds.
    pub stale_while_revalidate: Option<u32>,
    /// The remaining share of the lifetime, in percent, in which popular responses are refreshed.
    pub refresh_ahead: Option<u8>,
    /// The predictions that are prefetched.
    pub prefetch: Option<Vec<Prediction>>,
    /// Maximum of prefetched bytes without use, in percent of the traffic of clients.
    pub prefetch_traffic: Option<u8>,
    /// Requests within its lifetime that make a response popular.
    pub refresh_ahead_hits: Option<u32>,
    /// The clients that get the links of a stored response as early hints while the request is sent to the origin.
    pub early_hints: Option<EarlyHints>,
    /// Whether clients' prefetches are answered from the cache only, and declined otherwise.
    pub declines_prefetches: Option<bool>,
    /// Maximum staleness of a response when the origin fails, in seconds.
    pub stale_if_error: Option<u32>,
    /// Directives of responses that are ignored.
    pub ignored: Option<Ignored>,
    /// The query parameters that are part of the cache key.
    pub query: Option<Query>,
    /// Fields and cookies of requests that select separate stored responses, named as in `larder_semantics::vary`. The
    /// lists of several rules are combined.
    pub apart: Vec<String>,
    /// Whether `Vary` of replies names the request fields that decide between responses that rules store apart.
    pub vary: Option<bool>,
    /// Changes to requests before the lookup and before they are forwarded.
    pub request: Edits,
    /// Changes to origins' responses before they are stored.
    pub response: Edits,
    /// Changes to every response to a client.
    pub reply: Edits,
    /// The codings in which stored responses are sent, the preferred one first.
    pub compress: Option<Vec<Coding>>,
    /// The response that is sent instead of a response from the cache or an origin.
    pub answer: Option<Arc<Answer>>,
    /// Clients that are allowed; `None`: all.
    pub allow: Option<Networks>,
    /// Clients that are denied.
    pub deny: Option<Networks>,
    /// Users, one of whose passwords a request has to contain; `Some(None)`: no password is required, even if earlier
    /// rules require one.
    pub users: Option<Option<Arc<Users>>>,
    /// Tokens, one of which a request has to contain, unless it has a password of `users`.
    pub tokens: Option<Option<Arc<Tokens>>>,
    /// The realm of the challenge to clients.
    pub realm: Option<Arc<str>>,
    /// Limits, all of which apply.
    pub limits: Option<Vec<Limit>>,
    /// Pages that replace the content of error responses.
    pub pages: Pages,
    /// The origins and targets that replace those of the site.
    pub upstream: Upstream,
    /// Retries and timeouts for origins.
    pub tries: Tries,
}

/// Changes to field lines, applied in this order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Edits {
    /// Fields to remove.
    pub remove: Vec<HeaderName>,
    /// Cookies to keep or to drop.
    pub cookies: Option<CookieFilter>,
    /// Fields that replace all lines of the same name.
    pub set: Vec<(HeaderName, HeaderValue)>,
    /// Fields to add if there is no line of the same name.
    pub default: Vec<(HeaderName, HeaderValue)>,
    /// Field lines to add behind existing ones.
    pub add: Vec<(HeaderName, HeaderValue)>,
    /// Names that `Vary` of replies must have.
    pub vary: Vec<String>,
}

/// A filter of cookies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CookieFilter {
    /// Whether `names` are the cookies to keep, rather than those to drop.
    pub keeps: bool,
    /// The names of the cookies.
    pub names: Vec<Pattern>,
}

/// A response that the rule defines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// A redirect.
    Redirect {
        /// The status: 301, 302, 303, 307 or 308.
        status: StatusCode,
        /// The target, with placeholders ([`Template`]).
        location: Template,
    },
    /// A response with this content.
    Content {
        /// The status.
        status: StatusCode,
        /// The media type.
        content_type: HeaderValue,
        /// The content.
        content: Bytes,
        /// Whether the content is only the status in words, since the rule sets none.
        is_default: bool,
    },
}

/// Text with placeholders: `{uri}`, `{path}`, `{query}`, `{host}`, `{scheme}`, and `{1}` to `{9}` for the stars of the
/// rule's path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Template {
    parts: Vec<Part>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Text(String),
    Value(Placeholder),
}

/// A part of the request that replaces a placeholder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placeholder {
    /// Path and query.
    Uri,
    /// The path.
    Path,
    /// The query with its question mark; empty without a query.
    Query,
    /// The host, with its port if the request contains one.
    Host,
    /// `http` or `https`.
    Scheme,
    /// The star or group of this number, counted from 1.
    Star(usize),
}

const PLACEHOLDERS: [(&str, Placeholder); 5] = [
    ("uri", Placeholder::Uri),
    ("path", Placeholder::Path),
    ("query", Placeholder::Query),
    ("host", Placeholder::Host),
    ("scheme", Placeholder::Scheme),
];

impl Template {
    /// Parses text with placeholders in braces.
    ///
    /// # Errors
    /// The description of an invalid placeholder, in one line.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (mut parts, mut rest) = (Vec::new(), text);
        while let Some((before, after)) = rest.split_once('{') {
            let (name, behind) = after
                .split_once('}')
                .ok_or_else(|| format!("'{}': a '{{' has no '}}'", text.escape_debug()))?;
            if !before.is_empty() {
                parts.push(Part::Text(before.to_owned()));
            }
            parts.push(Part::Value(placeholder(name)?));
            rest = behind;
        }
        if !rest.is_empty() {
            parts.push(Part::Text(rest.to_owned()));
        }
        Ok(Self { parts })
    }

    /// Returns the text with `value` in the place of each placeholder.
    pub fn fill<'v>(&self, value: impl Fn(Placeholder) -> std::borrow::Cow<'v, str>) -> String {
        let mut text = String::new();
        for part in &self.parts {
            match part {
                Part::Text(own) => text.push_str(own),
                Part::Value(placeholder) => text.push_str(&value(*placeholder)),
            }
        }
        text
    }

    /// Whether the text contains a question mark or a placeholder for the query.
    pub fn is_about_query(&self) -> bool {
        self.parts.iter().any(|part| match part {
            Part::Text(text) => text.contains('?'),
            Part::Value(placeholder) => matches!(placeholder, Placeholder::Uri | Placeholder::Query),
        })
    }

    /// Returns the largest number of a star in the text; 0 without one.
    pub fn stars(&self) -> usize {
        let star = |part: &Part| match part {
            Part::Value(Placeholder::Star(number)) => *number,
            _ => 0,
        };
        self.parts.iter().map(star).max().unwrap_or(0)
    }
}

fn placeholder(name: &str) -> Result<Placeholder, String> {
    if let Some((_, placeholder)) = PLACEHOLDERS.iter().find(|(known, _)| *known == name) {
        return Ok(*placeholder);
    }
    match name.parse() {
        Ok(number @ 1..=9) => Ok(Placeholder::Star(number)),
        _ => Err(format!(
            "unknown placeholder '{{{}}}'; known: {{uri}} {{path}} {{query}} {{host}} {{scheme}} {{1}} to {{9}}",
            name.escape_debug()
        )),
    }
}

impl Edits {
    /// Whether there are no changes.
    pub fn is_empty(&self) -> bool {
        !self.changes_lines() && self.vary.is_empty()
    }

    /// Whether there are changes other than further names in `Vary`.
    pub(crate) fn changes_lines(&self) -> bool {
        let Self { remove, cookies, set, default, add, vary: _ } = self;
        !(remove.is_empty() && cookies.is_none() && set.is_empty() && default.is_empty() && add.is_empty())
    }

    /// Adds the changes of a later rule.
    fn extend(&mut self, later: &Self) {
        self.remove.extend(later.remove.iter().cloned());
        self.cookies = later.cookies.clone().or_else(|| self.cookies.take());
        self.set.retain(|(name, _)| {
            !later.set.iter().any(|(new, _)| new == name) && !later.remove.contains(name)
        });
        self.default.retain(|(name, _)| {
            !later.default.iter().any(|(new, _)| new == name) && !later.remove.contains(name)
        });
        self.add.retain(|(name, _)| {
            !later.set.iter().any(|(new, _)| new == name) && !later.remove.contains(name)
        });
        // A field that an earlier rule adds exists already, so it needs no default.
        let is_added = |name: &HeaderName| self.add.iter().any(|(own, _)| own == name);
        self.default.extend(later.default.iter().filter(|(name, _)| !is_added(name)).cloned());
        self.set.extend(later.set.iter().cloned());
        self.add.extend(later.add.iter().cloned());
    }
}

impl CookieFilter {
    /// Whether `part`, a part of `Cookie` between two semicolons, is kept: no origin may read a cookie in it that is not
    /// kept, or that is dropped.
    pub fn keeps(&self, part: &[u8]) -> bool {
        let one_matches = |name: &[u8]| self.names.iter().any(|pattern| pattern.matches(name));
        let is_listed = |name: &[u8]| {
            self.names.iter().any(|own| own.literal() == (str::from_utf8(name).unwrap_or_default(), true))
        };
        readings::cookies(part).all(|(name, _)| match self.keeps {
            true => is_listed(name) || !readings::any_name(name, |name| !one_matches(name)),
            false => !self.names.iter().any(|pattern| pattern.matches_name(name)),
        })
    }
}

impl Effects {
    /// Whether they answer, refuse, limit, change or redirect requests: a request to which they do not apply could do harm.
    pub(crate) fn protect(&self) -> bool {
        self.answer.is_some()
            || self.allow.is_some()
            || self.deny.is_some()
            || self.users.is_some()
            || self.tokens.is_some()
            || self.limits.is_some()
            || !self.request.is_empty()
            || self.upstream != Upstream::default()
    }

    /// Returns the names of the config's keys for the effects that are set.
    pub fn keys(&self) -> Vec<&'static str> {
        let lifetimes = &self.lifetimes;
        let each = [
            ("cache", self.cache.is_some()),
            ("ttl", lifetimes.replace.is_some()),
            ("ttl_default", lifetimes.default.is_some()),
            ("ttl_min", lifetimes.least.is_some()),
            ("ttl_max", lifetimes.most.is_some()),
            ("stale_while_revalidate", self.stale_while_revalidate.is_some()),
            ("refresh_ahead", self.refresh_ahead.is_some()),
            ("prefetch", self.prefetch.is_some()),
            ("prefetch_traffic", self.prefetch_traffic.is_some()),
            ("refresh_ahead_hits", self.refresh_ahead_hits.is_some()),
            ("early_hints", self.early_hints.is_some()),
            ("client_prefetch", self.declines_prefetches.is_some()),
            ("stale_if_error", self.stale_if_error.is_some()),
            ("ignore", self.ignored.is_some()),
            ("query", self.query.is_some()),
            ("key_fields, key_cookies", !self.apart.is_empty()),
            ("vary", self.vary.is_some()),
            ("request", !self.request.is_empty()),
            ("response", !self.response.is_empty()),
            ("reply", !self.reply.is_empty()),
            ("compress", self.compress.is_some()),
            ("redirect", matches!(self.answer.as_deref(), Some(Answer::Redirect { .. }))),
            ("respond", matches!(self.answer.as_deref(), Some(Answer::Content { .. }))),
            ("allow", self.allow.is_some()),
            ("deny", self.deny.is_some()),
            ("users", self.users.is_some()),
            ("tokens", self.tokens.is_some()),
            ("realm", self.realm.is_some()),
            ("limit", self.limits.is_some()),
            ("error_page", !self.pages.is_empty()),
            ("origin", !self.upstream.origins.is_empty()),
            ("rewrite", self.upstream.rewrite.is_some()),
            ("host", self.upstream.host.is_some()),
            ("retries", self.tries.retries.is_some()),
            ("first_byte", self.tries.first_byte.is_some()),
            ("origin_idle", self.tries.origin_idle.is_some()),
        ];
        each.into_iter().filter(|(_, is_set)| *is_set).map(|(key, _)| key).collect()
    }

    /// Adds the effects of a later rule that hold behind a `stop`, too.
    pub(crate) fn extend_apart(&mut self, later: &Self) {
        self.apart.extend(later.apart.iter().cloned());
        self.vary = later.vary.or(self.vary);
    }

    /// Adds the effects of a later rule, which replace earlier ones.
    pub fn extend(&mut self, later: &Self) {
        fn replace<T: Clone>(own: &mut Option<T>, later: &Option<T>) {
            if let Some(later) = later {
                *own = Some(later.clone());
            }
        }
        replace(&mut self.cache, &later.cache);
        replace(&mut self.lifetimes.replace, &later.lifetimes.replace);
        replace(&mut self.lifetimes.default, &later.lifetimes.default);
        replace(&mut self.lifetimes.least, &later.lifetimes.least);
        replace(&mut self.lifetimes.most, &later.lifetimes.most);
        replace(&mut self.stale_while_revalidate, &later.stale_while_revalidate);
        replace(&mut self.refresh_ahead, &later.refresh_ahead);
        replace(&mut self.prefetch, &later.prefetch);
        replace(&mut self.prefetch_traffic, &later.prefetch_traffic);
        replace(&mut self.refresh_ahead_hits, &later.refresh_ahead_hits);
        replace(&mut self.early_hints, &later.early_hints);
        replace(&mut self.declines_prefetches, &later.declines_prefetches);
        replace(&mut self.stale_if_error, &later.stale_if_error);
        replace(&mut self.ignored, &later.ignored);
        replace(&mut self.query, &later.query);
        self.extend_apart(later);
        replace(&mut self.compress, &later.compress);
        replace(&mut self.answer, &later.answer);
        replace(&mut self.allow, &later.allow);
        replace(&mut self.deny, &later.deny);
        replace(&mut self.users, &later.users);
        replace(&mut self.tokens, &later.tokens);
        replace(&mut self.realm, &later.realm);
        replace(&mut self.limits, &later.limits);
        self.pages.extend(&later.pages);
        self.upstream.extend(&later.upstream);
        self.tries.extend(&later.tries);
        self.request.extend(&later.request);
        self.response.extend(&later.response);
        self.reply.extend(&later.reply);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placeholders_are_filled() {
        let template = Template::parse("https://www.{host}{1}?a={query}").unwrap();
        let value = |placeholder| match placeholder {
            Placeholder::Host => "a.example".into(),
            Placeholder::Star(1) => "/x".into(),
            _ => "-".into(),
        };
        assert_eq!(template.fill(value), "https://www.a.example/x?a=-");
        assert_eq!(template.stars(), 1);
        for (text, error) in [
            ("{ur}", "unknown placeholder '{ur}'; known: {uri} {path} {query} {host} {scheme} {1} to {9}"),
            ("{0}", "unknown placeholder '{0}'; known: {uri} {path} {query} {host} {scheme} {1} to {9}"),
            ("/a{uri", "'/a{uri': a '{' has no '}'"),
        ] {
            assert_eq!(Template::parse(text), Err(error.to_owned()));
        }
    }

    #[test]
    fn a_later_effect_replaces_an_earlier_one() {
        let rule = |cache, replace, name: &'static str| Effects {
            cache,
            lifetimes: Lifetimes { replace, ..Lifetimes::default() },
            reply: Edits {
                set: vec![(HeaderName::from_static("x-a"), HeaderValue::from_static(name))],
                ..Edits::default()
            },
            ..Effects::default()
        };
        let mut all = rule(Some(false), Some(60), "one");
        all.extend(&rule(None, Some(5), "two"));
        assert_eq!((all.cache, all.lifetimes.replace), (Some(false), Some(5)));
        assert_eq!(all.reply.set, [(HeaderName::from_static("x-a"), HeaderValue::from_static("two"))]);
    }
}
