//! Rules of a site or of the forward proxy: when they hold, and what they do.

use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderName, HeaderValue, StatusCode};
use larder_rules::{Networks, Pattern, Query, Rule};
use larder_semantics::coding::Coding;
use larder_semantics::early_hints::EarlyHints;
use larder_semantics::lifetimes::{Ignored, Lifetimes};
use larder_semantics::storable::Prediction;

use super::limit::Limit;
use super::pages::Pages;
use super::upstream::{Tries, Upstream};
use super::users::{Tokens, Users};

/// A rule.
#[derive(Clone, Debug)]
pub struct SiteRule {
    /// Its name in explanations and statistics.
    pub name: String,
    /// Where it begins in the config, such as `larder.toml:12`.
    pub place: String,
    /// When it holds.
    pub rule: Rule,
    /// What it does.
    pub effects: Effects,
    /// Files that it was read from besides the config. A change of one is a reason to read the config again.
    pub files: Vec<PathBuf>,
}

/// What a rule does. What it says nothing about stays as the site, or an earlier rule, has it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Effects {
    /// Whether responses are stored, and stored ones used.
    pub cache: Option<bool>,
    /// The lifetimes of responses.
    pub lifetimes: Lifetimes,
    /// How stale a response may be while it is revalidated, in seconds.
    pub stale_while_revalidate: Option<u32>,
    /// Share of their lifetime, in percent, before the end of which popular responses are refreshed.
    pub refresh_ahead: Option<u8>,
    /// What is prefetched.
    pub prefetch: Option<Vec<Prediction>>,
    /// Share of the traffic of clients, in percent, that prefetches without use may have.
    pub prefetch_traffic: Option<u8>,
    /// Requests in its lifetime that make a response popular.
    pub refresh_ahead_hits: Option<u32>,
    /// Which clients are sent the links of a stored response while the origin is asked.
    pub early_hints: Option<EarlyHints>,
    /// Prefetches of clients are answered from what is stored, or not at all.
    pub declines_prefetches: Option<bool>,
    /// How stale a response may be when the origin fails, in seconds.
    pub stale_if_error: Option<u32>,
    /// Directives of responses without effect.
    pub ignored: Option<Ignored>,
    /// The parameters of queries that count.
    pub query: Option<Query>,
    /// Fields and cookies of requests by which responses are stored apart, as `larder_semantics::vary` names them. Those of
    /// several rules add up.
    pub apart: Vec<String>,
    /// Changes to requests before they are looked up and forwarded.
    pub request: Edits,
    /// Changes to responses of origins before they are stored.
    pub response: Edits,
    /// Changes to each reply.
    pub reply: Edits,
    /// The codings in which stored responses are sent, the preferred one first.
    pub compress: Option<Vec<Coding>>,
    /// The answer in place of the cache's or an origin's.
    pub answer: Option<Arc<Answer>>,
    /// Clients that are served; `None`: all.
    pub allow: Option<Networks>,
    /// Clients that are refused.
    pub deny: Option<Networks>,
    /// Users, one of whose passwords a request has to show; `Some(None)`: it need not, whatever earlier rules say.
    pub users: Option<Option<Arc<Users>>>,
    /// Tokens, one of which it has to show, or else a password of `users`.
    pub tokens: Option<Option<Arc<Tokens>>>,
    /// The realm that clients are told.
    pub realm: Option<Arc<str>>,
    /// Limits, all of which hold.
    pub limits: Option<Vec<Limit>>,
    /// Pages in place of the content of errors.
    pub pages: Pages,
    /// Where requests go, in place of where the site sends them.
    pub upstream: Upstream,
    /// How often and how long they are asked.
    pub tries: Tries,
}

/// Changes to field lines, in this order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Edits {
    /// Removed.
    pub remove: Vec<HeaderName>,
    /// Cookies that are kept or dropped.
    pub cookies: Option<CookieFilter>,
    /// In place of all lines of the name.
    pub set: Vec<(HeaderName, HeaderValue)>,
    /// Where there is no line of the name.
    pub default: Vec<(HeaderName, HeaderValue)>,
    /// Behind those that there are.
    pub add: Vec<(HeaderName, HeaderValue)>,
}

/// Which cookies stay.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CookieFilter {
    /// The names are of those that stay; otherwise of those that go.
    pub keeps: bool,
    /// Their names.
    pub names: Vec<Pattern>,
}

/// An answer of our own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// A redirect.
    Redirect {
        /// 301, 302, 303, 307 or 308.
        status: StatusCode,
        /// Where to, with placeholders ([`Template`]).
        location: Template,
    },
    /// A response with this content.
    Content {
        /// Its status.
        status: StatusCode,
        /// Its media type.
        content_type: HeaderValue,
        /// Its content.
        content: Bytes,
        /// It is only the status in words, since the rule sets no content.
        is_default: bool,
    },
}

/// Text with placeholders: `{uri}`, `{path}`, `{query}`, `{host}`, `{scheme}`, and `{1}` to `{9}` for the stars of the rule's path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Template {
    parts: Vec<Part>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Text(String),
    Value(Placeholder),
}

/// What stands for a part of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placeholder {
    /// Path and query.
    Uri,
    /// The path.
    Path,
    /// The query with its question mark; nothing without one.
    Query,
    /// The host, with its port if one was written.
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
    /// Reads text with placeholders in braces.
    ///
    /// # Errors
    /// What is no placeholder, in one line.
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

    /// The text, with `value` for each placeholder.
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

    /// Whether it says what becomes of a query.
    pub fn is_about_query(&self) -> bool {
        self.parts.iter().any(|part| match part {
            Part::Text(text) => text.contains('?'),
            Part::Value(placeholder) => matches!(placeholder, Placeholder::Uri | Placeholder::Query),
        })
    }

    /// The largest number of a star in it; 0 without one.
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
    /// Whether nothing is changed.
    pub fn is_empty(&self) -> bool {
        let Self { remove, cookies, set, default, add } = self;
        remove.is_empty() && cookies.is_none() && set.is_empty() && default.is_empty() && add.is_empty()
    }

    /// Adds those of a later rule.
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
        // Where a line is added there is one.
        let is_added = |name: &HeaderName| self.add.iter().any(|(own, _)| own == name);
        self.default.extend(later.default.iter().filter(|(name, _)| !is_added(name)).cloned());
        self.set.extend(later.set.iter().cloned());
        self.add.extend(later.add.iter().cloned());
    }
}

impl CookieFilter {
    /// Whether a cookie of this name stays.
    pub fn keeps(&self, name: &[u8]) -> bool {
        self.names.iter().any(|pattern| pattern.matches(name)) == self.keeps
    }
}

impl Effects {
    /// The keys that are set, as the config calls them.
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

    /// Adds those of a later rule, which replace earlier ones.
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
        self.apart.extend(later.apart.iter().cloned());
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
