//! The effects of rules. From one table come the settings, their names, how the effects of several rules combine, and
//! the keys of the config.

use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use http::HeaderName;
use larder_packages::Protocols;
use larder_packages::age::MinAge;
use larder_rules::{Networks, Query};
use larder_semantics::coding::Coding;
use larder_semantics::early_hints::EarlyHints;
use larder_semantics::lifetimes::IgnoredDirectives;
use larder_semantics::storable::{Prediction, Rules};

use super::access_log::LoggedRequests;
use super::auth_request::AuthRequest;
use super::jwt::Jwt;
use super::limit::{Bandwidth, Limit};
use super::pages::Pages;
use super::rule::{Answer, Edits, Value};
use super::signed::SignedUrls;
use super::template::Template;
use super::users::{Tokens, Users};
use super::{Balance, HostHeader, Origin};

/// THE TABLE of effects, for the macro `$then`. A row has
///
/// - the effect's field in [`Effects`], with its type and, behind `=>`, the rule of caching that it replaces;
/// - its [`Phase`], and its name in explanations if that is not the field's;
/// - its keys in the config, in the order of the reference: values, reader, meaning. The crate of the config knows the
///   readers, and what the words before them mean.
#[macro_export]
macro_rules! effects {
    ($then:ident) => {
        $then! {
            cache: Option<bool>, Response { "cache", "true or false", kind[Flag],
                "false: nothing is stored, and nothing stored is used; true: undoes that of an earlier rule"; }
            ttl: Option<u32> => lifetimes.replace, Response { "ttl", "duration, or a table of status codes and durations", with[set_ttl],
                "lifetime of responses in place of the origin's; no-store, no-cache and private still hold"; }
            ttl_default: Option<u32> => lifetimes.default, Response { "ttl_default", "duration", kind[Seconds],
                "lifetime of responses for which the origin sets none, errors other than 404, 405, 410, 414 and 501 excepted"; }
            ttl_min: Option<u32> => lifetimes.least, Response { "ttl_min", "duration", kind[Seconds],
                "least lifetime of responses that have one"; }
            ttl_max: Option<u32> => lifetimes.most, Response { "ttl_max", "duration", kind[Seconds],
                "longest lifetime of responses"; }
            heuristic: Option<u8> => heuristic_percent, Response { "heuristic", "share", kind[Percent],
                "as the site's key of this name"; }
            heuristic_max: Option<u32> => heuristic_max, Response { "heuristic_max", "duration", kind[Seconds],
                "as the site's key of this name"; }
            stale_while_revalidate: Option<u32> => stale_while_revalidate, Response { "stale_while_revalidate", "duration", kind[Seconds],
                "as the site's key of this name"; }
            refresh_ahead: Option<u8> => refresh_ahead, Request { "refresh_ahead", "share", kind[Percent],
                "as the site's key of this name"; }
            refresh_ahead_hits: Option<u32> => refresh_ahead_hits, Request { "refresh_ahead_hits", "number", kind[Count(1..=10_000_000)],
                "as the site's key of this name"; }
            /// `Some(None)`: off.
            slice: Option<Option<u64>> => slice, Request { "slice", "size, or \"off\"", kind[SLICE],
                "as the site's key of this name"; }
            early_hints: Option<EarlyHints> => early_hints, Request { "early_hints", "\"h2\", \"always\" or \"off\"", kind[EARLY_HINTS],
                "as the site's key of this name"; }
            client_prefetch: Option<bool> => declines_prefetches, Request { "client_prefetch", "\"serve\" or \"cached-only\"", kind[PREFETCHES],
                "as the site's key of this name"; }
            prefetch: Option<Vec<Prediction>> => prefetch, Request { "prefetch", "list of: association sequence, or false", read[predictions],
                "as the site's key of this name; false: nothing"; }
            prefetch_traffic: Option<u8> => prefetch_traffic, Request { "prefetch_traffic", "share", kind[Percent],
                "as the site's key of this name"; }
            stale_if_error: Option<u32> => stale_if_error, Response { "stale_if_error", "duration", kind[Seconds],
                "as the site's key of this name"; }
            stale_if_slow: Option<Duration> => stale_if_slow, Request { "stale_if_slow", "duration", kind[AtLeast(1)],
                "as the site's key of this name"; }
            ignore: Option<IgnoredDirectives> => ignored, Response { "ignore", "list of: no-cache no-store private must-revalidate", read[ignored],
                "directives of the origin's Cache-Control that have no effect, against RFC 9111"; }
            packages: Option<Protocols>, Request { "packages", "\"all\", list of: oci go git debian rpm cargo pypi rubygems maven npm, or false", read[packages],
                "protocols of package registries (docs/packages.md): what they never change stays fresh, and content that does not have the digest that its URL or an index names is neither stored nor sent whole; false: none"; }
            min_age: Option<Arc<MinAge>>, Guard { "min_age", "duration, { all = \"7d\", npm = \"14d\", allow = [\"own-*\", \"left-pad@1.3.0\"], dates = \"registry\" }, or false", read[min_age],
                "least age of versions of packages: younger ones are removed from the indexes of npm, PyPI and cargo, and their files are refused (403), but for those in allow. dates: those of the \"registry\", when this proxy has \"first-seen\" the version, or the \"later\" of both; a version without a date is young"; }
            query: Option<Query>, Request { "query", "\"drop\", or { keep = [names] } or { drop = [names] }, with sort = true if wanted", read[query],
                "parameters of the query that stay in the cache key and in the request to the origin; \"@tracking\" stands for those of advertisements (docs/rules.md), and \"!gclid\" behind it keeps one of them"; }
            /// Fields and cookies of requests that select separate stored responses, named as in `larder_semantics::vary`.
            /// The lists of several rules are combined.
            apart: Vec<String>, Request, named "key_fields, key_cookies" {
                "key_fields", "list of field names", with[add_fields],
                "request fields for whose values separate responses are stored, as if Vary named them; replies name them in Vary";
                "key_cookies", "list of cookie names", with[add_cookies],
                "cookies for whose values separate responses are stored; replies have Vary: Cookie"; }
            vary: Option<bool>, Request { "vary", "true or false", kind[Flag],
                "false: replies do not name in Vary what decides by key_fields, key_cookies and classes: a cache between clients and this proxy mixes the responses; true: undoes that of an earlier rule"; }
            /// Changes to requests before the lookup and before they are forwarded.
            request: Edits, Guard { "classes", "{ field = \"X-Device\", of = \"User-Agent\", values = { phone = \"*Mobile*\" }, else = \"desktop\" }, or a list of such tables", draft[classes = classes],
                "a request field with the class of the client, by another field or by its network (of = \"client\"); each class has separate stored responses, and replies name the other field in Vary. No field tells a cache in front the network: keep them from it, as by Cache-Control: private"; }
            /// Cookies for this proxy, which origins do not see.
            own_cookies: Vec<String>, Request, named "split" { "split", "{ field = \"X-Bucket\", values = { stable = 95, canary = 5 }, cookie = \"bucket\", ttl = \"30d\" }", draft[split = split],
                "a request field with the bucket of the client, by weights: its cookie keeps it there, or without cookie its address; each bucket has separate stored responses, and may have its own origin by match.field"; }
            /// Changes to origins' responses before they are stored.
            response: Edits, Response {
                "tags", "list of texts", with[add_tags],
                "tags of stored responses, for purges: added to Cache-Tag; placeholders stand for parts of the request, and {field:NAME} for a field as the origin gets it"; }
            /// Changes to every response to a client.
            reply: Edits, Request {
                "cors", "origins, or { origins = [..], methods = [..], fields = [..], expose = [..], credentials = true, max_age = \"10m\" }", draft[cors = cors],
                "pages of these origins (\"*\": of all) may read the responses; preflight requests are answered";
                "security_headers", "true or false", draft[security_headers = flag],
                "adds X-Content-Type-Options, X-Frame-Options and Referrer-Policy to replies without them"; }
            compress: Option<Vec<Coding>> => compression.codings, Response { "compress", "list of: zstd br gzip, or false", read[codings],
                "codings in which stored responses are sent to clients that accept them, the preferred one first; false: as the origin sent them"; }
            /// The response that is sent instead of a response from the cache or an origin.
            answer: Option<Arc<Answer>>, Guard, named "respond" {
                "redirect", "URL, or { to = URL, status = 301 }", draft[redirect = redirect],
                "redirects to this URL; {uri} {path} {query} {host} {scheme} {client} {id}, {uri:encoded}, {path:lower}, {query:NAME} and {1} to {9} (the stars of match.path) stand for parts of the request";
                "respond", "status code, or { status = 200, type = \"text/plain\", body = text } or with file = path", draft[respond = respond],
                "answers without a request to an origin"; }
            origin: Option<Vec<Origin>>, Guard { "origin", "URL or list of URLs, or {map}", read[origins],
                "origins in place of the site's, written as those; {map}: the URL in the file of match.map; for rules of sites that match only path, extension, host, scheme, query and methods other than GET and HEAD, or fields and cookies by which another rule stores responses apart"; }
            balance: Option<Balance>, Request { "balance", "as the site's key of this name", kind[BALANCE],
                "choice among the origins of this rule"; }
            rewrite: Option<Template>, Guard { "rewrite", "path", read[rewrite],
                "path of the request to the origin; placeholders as for redirect; the query is appended unless the path contains {uri}, {query} or a ?"; }
            host: Option<HostHeader>, Guard { "host", "\"preserve\" or \"origin\" or a host", kind[HOST_HEADER],
                "as the site's key of this name"; }
            max_body: Option<u64>, Guard { "max_body", "size", kind[Size(1..=1 << 50)],
                "longest content of requests, in place of limits.body; a longer one gets 413"; }
            bandwidth: Option<Bandwidth>, Request { "bandwidth", "size, or { rate = size, by = \"client\" or \"all\", after = size }", read[bandwidth],
                "most bytes in a second of each reply; by = \"client\": of all replies to a client's address together, \"all\": of all replies of the site; after: bytes at the beginning of each reply that are sent at any rate; longer content is sent in slices"; }
            retry_on: Option<Vec<RangeInclusive<u16>>>, Request { "retry_on", "list of status codes", read[statuses],
                "answers after which a request without content is sent to another origin of the site, as often as retries allows: 404, \"5xx\""; }
            retries: Option<u32>, Request { "retries", "number", kind[Count(0..=100)],
                "as the site's key of this name"; }
            connect: Option<Duration>, Request { "connect", "duration", kind[AtLeast(1)],
                "for a connection to an origin, TLS included (504), in place of that in [timeouts]"; }
            first_byte: Option<Duration>, Request { "first_byte", "duration", kind[AtLeast(1)],
                "for the origin's answer to begin (504), in place of that in [timeouts]"; }
            origin_idle: Option<Duration>, Request { "origin_idle", "duration", kind[AtLeast(1)],
                "between two reads of that answer (502), in place of that in [timeouts], also of a stream of events"; }
            stall: Option<Duration>, Request { "stall", "duration", kind[AtLeast(1)],
                "without progress in any content (408, or closed), in place of that in [timeouts]"; }
            min_rate: Option<u64>, Request { "min_rate", "number", kind[Count(0..=10_000_000)],
                "bytes a second that clients must send or read after stall (408, or closed), in place of that in [timeouts]; 0: any rate"; }
            tunnel: Option<Duration>, Request { "tunnel", "duration", kind[AtLeast(1)],
                "without a byte in either direction of a tunnel (closed), in place of that in [timeouts]"; }
            error_page: Pages, Request { "error_page", "table of status codes and paths, as { 404 = \"404.html\", 5xx = \"sorry.html\" }", draft[error_pages = error_pages],
                "files that replace the content of errors, of the origin and of this proxy, with another status by { file = \"app.html\", status = 200 }, or the status alone by { status = 410 }; the pages of several rules are combined"; }
            allow: Option<Networks>, Guard { "allow", "list of networks", read[networks],
                "clients that are served; others are refused (403); \"@FILE\" as for match.client"; }
            deny: Option<Networks>, Guard { "deny", "list of networks", read[networks],
                "clients that are refused (403); \"@FILE\" as for match.client"; }
            /// `Some(None)`: no password is required, even if earlier rules require one.
            users: Option<Option<Arc<Users>>>, Guard { "users", "file, or false", read[users_in_file],
                "requires the password of a user in this file, which larder passwd writes (401; 407 of the forward proxy); false: requires none"; }
            /// `Some(None)`: no token is required, even if earlier rules require one.
            tokens: Option<Option<Arc<Tokens>>>, Guard { "tokens", "file, or false", read[tokens_in_file],
                "requires a bearer token in this file, or the password of a user; a line is a token, or a name and a token"; }
            user_field: Option<HeaderName>, Guard { "user_field", "field name", read[user_field],
                "request field in which the origin gets the name of the user or token; clients cannot set it in requests that match, and each user has separate stored responses"; }
            /// `Some(None)`: no signature is required, even if earlier rules require one.
            signed: Option<Option<Arc<SignedUrls>>>, Guard { "signed", "file of keys, { keys = file, in = \"query\", client = true, expires = \"expires\", signature = \"signature\", skew = \"0s\" }, or false", read[signed],
                "requires a URL that one of the keys has signed (HMAC-SHA256) and that has not expired (docs/rules.md); others get 403. in = \"path\": time and signature are the last two segments of the path; \"folder\": they stand behind a folder, for all that is below it; client = true: the URL is for one client's address. Neither is part of the cache key, or reaches origins"; }
            /// `Some(None)`: no service is asked, even if earlier rules name one.
            auth_request: Option<Option<Arc<AuthRequest>>>, Guard { "auth_request", "{ url = URL, send = [fields], take = [fields], cache = \"30s\", by = \"cookie:session\", on_failure = \"closed\" }, or false", read[auth_request],
                "requires 2xx of this service, which is asked before each reply, hits included; clients get its other answers, such as 401 (docs/rules.md); false: asks none"; }
            /// `Some(None)`: no token is required, even if earlier rules require one.
            jwt: Option<Option<Arc<Jwt>>>, Guard { "jwt", "{ jwks = URL or @file, issuer = text, audience = texts, from = \"bearer\", claims = { role = \"admin\" }, send = { X-User = \"sub\" }, skew = \"60s\" }, or false", read[jwt],
                "requires a JSON Web Token with these claims that one of the keys has signed; others get 401, or 403 without a claim (docs/rules.md); false: requires none"; }
            log: Option<LoggedRequests>, Request { "log", "true or false, or { status = [\"4xx\", \"5xx\"], outcome = \"miss\", slower = \"1s\", share = \"1%\" }", read[logged],
                "false: no line in the access log; metrics and statistics count the requests; a table: only lines for these statuses, for these outcomes in the cache, for requests that take this long, and for a share of the others; true: undoes that of an earlier rule"; }
            realm: Option<Arc<str>>, Request { "realm", "text", read[realm],
                "text that clients show when they request the password from their user"; }
            limit: Option<Vec<Limit>>, Guard { "limit", "{ requests = \"10/s\", burst = 20, concurrent = 5, by = \"client\", count = \"misses\" }, a list of such tables, or false", read[limits],
                "limits of the requests in a time, and at once, for each client (or network, host, value of a \"field:NAME\", \"cookie:NAME\" or \"query:NAME\", or all); others get 429. count = \"misses\": only requests to an origin count; false: none of an earlier rule"; }
        }
    };
}

/// The latest phase in which an effect can begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// When the response has arrived.
    Response,
    /// Before there is a response.
    Request,
    /// As [`Request`](Self::Request). It answers, refuses, limits, changes or redirects requests: one to which it does
    /// not apply could do harm.
    Guard,
}

macro_rules! define {
    ($($(#[$doc:meta])* $field:ident: $type:ty $(=> $($rule:ident).+)?, $phase:ident $(, named $name:literal)? {
        $($key:literal, $values:literal, $how:ident[$($reader:tt)*], $about:literal;)*
    })*) => {
        /// The effects of a rule. Those that it does not set stay as the site or an earlier rule sets them.
        // The meanings are written for the reference of the config.
        #[allow(rustdoc::broken_intra_doc_links)]
        #[derive(Clone, Debug, Default, PartialEq)]
        pub struct Effects {
            $($(#[$doc])* $(#[doc = $about])* pub $field: $type,)*
        }

        impl Effects {
            /// Returns the names of the effects that are set, and their phases.
            fn names(&self) -> impl Iterator<Item = (&'static str, Phase)> {
                // A name of the row's own comes before that of the field.
                let each = [$((self.$field.is_set(), [$($name,)? stringify!($field)][0], Phase::$phase)),*];
                each.into_iter().filter(|(is_set, ..)| *is_set).map(|(_, name, phase)| (name, phase))
            }

            /// Adds the effects of a later rule.
            pub fn extend(&mut self, later: &Self) {
                $(self.$field.add(&later.$field);)*
            }

            /// Returns the rules of caching of a site, `own`, with these effects.
            pub fn on(&self, own: &Rules) -> Rules {
                let outlasts_limits = self.packages.is_some_and(|own| !own.is_empty());
                let mut rules = Rules { stores_nothing: self.cache == Some(false), outlasts_limits, ..own.clone() };
                $($(if let Some(value) = &self.$field {
                    rules.$($rule).+ = value.clone().into();
                })?)*
                rules
            }
        }
    };
}

effects!(define);

impl Effects {
    /// Whether they answer, refuse, limit, change or redirect requests: a request to which they do not apply could do harm.
    pub fn protect(&self) -> bool {
        self.names().any(|(_, phase)| phase == Phase::Guard)
    }

    /// Returns the name of an effect that cannot wait for the response, if there is one.
    pub fn before_response(&self) -> Option<&'static str> {
        self.names().find(|(_, phase)| *phase != Phase::Response).map(|(name, _)| self.key(name))
    }

    /// Returns the names of the config's keys for the effects that are set.
    pub fn keys(&self) -> Vec<&'static str> {
        self.names().map(|(name, _)| self.key(name)).collect()
    }

    /// Returns the key for the effect called `name`: an answer has one of two.
    fn key(&self, name: &'static str) -> &'static str {
        match self.answer.as_deref() {
            Some(Answer::Redirect { .. }) if name == "respond" => "redirect",
            _ => name,
        }
    }

    /// Adds the effects of a later rule that hold behind a `stop`, too.
    pub fn extend_apart(&mut self, later: &Self) {
        self.apart.add(&later.apart);
        self.vary.add(&later.vary);
        // No client chooses its response by a field that only the service sets.
        self.request.remove.extend(later.taken().cloned());
    }

    /// Returns the fields that a password, an auth service or a token sets in requests, and no client.
    pub fn taken(&self) -> impl Iterator<Item = &HeaderName> {
        let by_token = self.jwt.iter().flatten().flat_map(|jwt| jwt.send.iter().map(|(name, _)| name));
        self.auth_request.iter().flatten().flat_map(|auth| &auth.take).chain(by_token).chain(&self.user_field)
    }

    /// Whether requests are sent to other origins than the site's, or in another form.
    pub fn redirect_to_origins(&self) -> bool {
        self.origin.is_some() || self.rewrite.is_some() || self.host.is_some()
    }

    /// Whether paths of requests to origins differ from those of clients.
    pub fn changes_paths(&self) -> bool {
        self.rewrite.is_some() || self.origin.iter().flatten().any(|origin| origin.path.is_some())
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn a_later_effect_replaces_an_earlier_one() {
        let rule = |cache, ttl, name: &'static str| Effects {
            cache,
            ttl,
            reply: Edits {
                set: vec![(HeaderName::from_static("x-a"), HeaderValue::from_static(name))],
                ..Edits::default()
            },
            ..Effects::default()
        };
        let mut all = rule(Some(false), Some(60), "one");
        all.extend(&rule(None, Some(5), "two"));
        assert_eq!((all.cache, all.ttl), (Some(false), Some(5)));
        assert_eq!(all.reply.set, [(HeaderName::from_static("x-a"), HeaderValue::from_static("two"))]);
        assert_eq!(all.keys(), ["cache", "ttl", "reply"]);
        assert_eq!((all.before_response(), all.protect()), (Some("reply"), false));
    }

    #[test]
    fn set_effects_replace_the_rules_of_the_site() {
        let own = Rules { stale_if_error: 7, stale_while_revalidate: 8, ..Rules::default() };
        let effects = Effects { ttl_max: Some(5), stale_if_error: Some(9), ..Effects::default() };
        let rules = effects.on(&own);
        assert_eq!((rules.stale_if_error, rules.stale_while_revalidate), (9, 8));
        assert_eq!((rules.lifetimes.most, rules.lifetimes.replace), (Some(5), None));
        assert_eq!(Effects::default().on(&own), own);
    }
}
