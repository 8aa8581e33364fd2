//! The formats of the access log: one line per request.
//!
//! Text from a client is escaped, so that it cannot end a line or a quotation.

use std::io::Write as _;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::atomic::Ordering;
use std::time::Duration;

use http::Version;
use serde::Serialize;

use super::super::memo::{RequestRecord, RequestResult};
use super::stamp::Stamp;
use crate::base::networks::network;
use crate::base::outcome::{Kind, Tier};
use crate::base::settings::{AccessLog, ClientDetail, Door};
use crate::base::shown::{is_hidden, write_json};
use crate::counts::versions;

/// The time as in RFC 3339, with milliseconds.
const RFC_3339: &str = "%FT%T%.3fZ";
const NCSA: &str = "%d/%b/%Y:%H:%M:%S +0000";

/// A request that has ended, and the time of its end.
pub(super) struct Entry<'e> {
    pub(super) memo: &'e RequestRecord,
    pub(super) ended: &'e RequestResult,
    pub(super) took: Duration,
    /// Milliseconds since the UNIX epoch.
    pub(super) millis: u64,
    /// The part of the client's address that is shown.
    pub(super) client: ClientDetail,
}

#[derive(Serialize)]
struct Json<'l> {
    time: &'l str,
    client: IpAddr,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<&'l str>,
    method: &'l str,
    url: &'l str,
    #[serde(skip_serializing_if = "Option::is_none")]
    http_version: Option<&'l str>,
    /// The site of the request, if it has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    site: Option<&'l str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    door: Option<&'l str>,
    /// The subject of the client's certificate.
    #[serde(skip_serializing_if = "Option::is_none")]
    client_subject: Option<&'l str>,
    /// The user whose password or token a rule has accepted.
    #[serde(skip_serializing_if = "Option::is_none")]
    user: Option<&'l str>,
    status: u16,
    bytes: u64,
    micros: u64,
    cache: &'l str,
    outcome: &'l str,
    reason: &'l str,
    /// The tier of the stored response.
    #[serde(skip_serializing_if = "Option::is_none")]
    tier: Option<&'l str>,
    /// Seconds since the response was generated or validated.
    #[serde(skip_serializing_if = "Option::is_none")]
    age: Option<u32>,
    /// Time until the first byte of origins' responses.
    #[serde(skip_serializing_if = "Option::is_none")]
    origin_micros: Option<u64>,
    /// The origin that has answered.
    #[serde(skip_serializing_if = "Option::is_none")]
    origin: Option<&'l str>,
    /// Bytes of a response in slices that were not stored.
    #[serde(skip_serializing_if = "Option::is_none")]
    fetched_bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    referer: Option<&'l str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    user_agent: Option<&'l str>,
    /// `prefetch`, if the client sent that purpose.
    #[serde(skip_serializing_if = "Option::is_none")]
    purpose: Option<&'l str>,
}

impl Entry<'_> {
    /// Appends the line in this format, with its line end.
    pub(super) fn write(&self, form: AccessLog, line: &mut Vec<u8>, stamp: &mut Stamp) {
        match form {
            AccessLog::Off => return,
            AccessLog::Text => self.text(line, stamp.at(self.millis, RFC_3339)),
            AccessLog::Json => self.json(line, stamp.at(self.millis, RFC_3339)),
            AccessLog::Combined => self.combined(line, stamp.at(self.millis, NCSA)),
            AccessLog::Squid => self.squid(line),
        }
        line.push(b'\n');
    }

    // Writing to a vector does not fail.

    fn text(&self, line: &mut Vec<u8>, time: &str) {
        let Self {
            memo: RequestRecord { method, target, .. },
            ended: RequestResult { status, bytes, .. },
            ..
        } = self;
        let (client, micros, cache) = (self.client(), self.took.as_micros(), self.cache());
        let _ = write!(line, "{time} {client} {method} {target} {status} {bytes}B {micros}us {cache}");
        for (name, value) in [("client-cert", self.memo.subject()), ("user", self.memo.user.as_deref())] {
            let Some(value) = value else { continue };
            let _ = write!(line, " {name}=\"");
            quote(line, value);
            line.push(b'"');
        }
        if let Some(purpose) = self.ended.outcome.purpose() {
            let _ = write!(line, " purpose={purpose}");
        }
        if let Some(id) = &self.memo.id {
            let _ = write!(line, " id={id}");
        }
    }

    fn json(&self, line: &mut Vec<u8>, time: &str) {
        let Self { memo, ended: RequestResult { status, outcome, age, bytes, .. }, took, .. } = self;
        let fetched = memo.visit.fetched.as_ref().map(|bytes| bytes.load(Ordering::Relaxed));
        let json = Json {
            time,
            client: self.client(),
            id: memo.id.as_deref(),
            method: memo.method.as_str(),
            url: &memo.target,
            http_version: memo.version.map(versions::name),
            site: memo.site.as_deref(),
            door: memo.door.map(Door::name),
            client_subject: memo.subject(),
            user: memo.user.as_deref(),
            status: *status,
            bytes: *bytes,
            micros: took.as_micros() as u64,
            cache: &self.cache(),
            outcome: outcome.kind.word(),
            reason: outcome.why.token(),
            tier: outcome.is_hit().then(|| outcome.tier.name()),
            age: *age,
            origin_micros: outcome.origin_time.map(|time| time.as_micros() as u64),
            origin: memo.visit.origin.as_deref(),
            fetched_bytes: fetched.filter(|bytes| *bytes > 0),
            referer: memo.visit.referer.as_deref(),
            user_agent: memo.visit.agent.as_deref(),
            purpose: outcome.purpose(),
        };
        let start = line.len();
        if write_json(line, &json).is_err() {
            line.truncate(start);
        }
    }

    /// Appends the line in the combined log format of NCSA's httpd. The request line contains the whole URL, so that it
    /// shows the host.
    fn combined(&self, line: &mut Vec<u8>, time: &str) {
        let Self { memo, ended: RequestResult { status, bytes, .. }, .. } = self;
        let _ = write!(line, "{} - ", self.client());
        word(line, memo.user_or_subject().unwrap_or("-"));
        let _ = write!(line, " [{time}] \"");
        match memo.is_read() {
            true => {
                let version = memo.version.unwrap_or(Version::HTTP_10);
                let _ = write!(line, "{} ", memo.method);
                quote(line, &memo.target);
                let _ = write!(line, " {version:?}");
            }
            false => line.push(b'-'),
        }
        let _ = write!(line, "\" {status} {bytes} \"");
        quote(line, memo.visit.referer.as_deref().unwrap_or("-"));
        line.extend_from_slice(b"\" \"");
        quote(line, memo.visit.agent.as_deref().unwrap_or("-"));
        line.push(b'"');
    }

    /// Appends the line in Squid's native format: time, milliseconds, client, result and status, bytes, method, URL,
    /// user, hierarchy, media type.
    fn squid(&self, line: &mut Vec<u8>) {
        let Self { memo, ended: RequestResult { status, bytes, .. }, took, .. } = self;
        let (seconds, millis, took) = (self.millis / 1_000, self.millis % 1_000, took.as_millis());
        let (client, result) = (self.client(), self.result());
        let (method, url) = match memo.is_read() {
            true => (memo.method.as_str(), memo.target.as_str()),
            false => ("NONE", "error:invalid-request"),
        };
        let _ =
            write!(line, "{seconds}.{millis:03} {took:6} {client} {result}/{status:03} {bytes} {method} ");
        word(line, url);
        line.push(b' ');
        word(line, memo.user_or_subject().unwrap_or("-"));
        line.push(b' ');
        match (self.ended.outcome.origin_time, memo.site.as_deref()) {
            (None, _) => line.extend_from_slice(b"HIER_NONE/-"),
            (Some(_), Some(site)) if !memo.is_forward() => {
                let _ = write!(line, "FIRSTUP_PARENT/{site}");
            }
            (Some(_), _) => {
                line.extend_from_slice(b"HIER_DIRECT/");
                word(line, memo.host());
            }
        }
        line.push(b' ');
        word(line, memo.visit.content_type.as_deref().unwrap_or("-"));
    }

    /// Returns Squid's result code for the outcome.
    fn result(&self) -> &'static str {
        let RequestResult { status, outcome, .. } = self.ended;
        match (outcome.kind, outcome.tier) {
            (Kind::Hit, _) if *status == 304 => "TCP_IMS_HIT",
            (Kind::Hit, Tier::Memory) => "TCP_MEM_HIT",
            (Kind::Hit, _) => "TCP_HIT",
            (Kind::StaleHit, _) => "TCP_STALE_HIT",
            (Kind::Coalesced, _) => "TCP_CF_HIT",
            (Kind::Revalidated, _) => "TCP_REFRESH_UNMODIFIED",
            (Kind::Pass, _) if self.memo.method == http::Method::CONNECT => "TCP_TUNNEL",
            (Kind::Miss | Kind::Pass | Kind::Failed, _) => "TCP_MISS",
            (Kind::Refused, _) => "NONE",
        }
    }

    fn client(&self) -> IpAddr {
        let address = self.memo.client.ip().to_canonical();
        match self.client {
            ClientDetail::Whole => address,
            ClientDetail::Truncated => network(address, 24, 48),
            ClientDetail::Off => Ipv4Addr::UNSPECIFIED.into(),
        }
    }

    /// Returns the parameters of `Cache-Status`, without the cache's name.
    fn cache(&self) -> String {
        let mut cache = Vec::with_capacity(64);
        self.ended.outcome.cache_status("").write_parameters(&mut cache);
        cache.drain(..cache.len().min(b"; ".len()));
        String::from_utf8(cache).unwrap_or_default()
    }
}

/// Appends text between quotation marks, without the marks.
fn quote(line: &mut Vec<u8>, text: &str) {
    escape(line, text, |c| matches!(c, '"' | '\\'));
}

/// Appends text as a single word, which is not empty.
fn word(line: &mut Vec<u8>, text: &str) {
    escape(line, if text.is_empty() { "-" } else { text }, |c| c == ' ');
}

fn escape(line: &mut Vec<u8>, text: &str, also: fn(char) -> bool) {
    if text.bytes().all(|byte| matches!(byte, b' '..=b'~') && !also(char::from(byte))) {
        return line.extend_from_slice(text.as_bytes());
    }
    for c in text.chars() {
        let mut bytes = [0; 4];
        let bytes = c.encode_utf8(&mut bytes).as_bytes();
        match c {
            '"' | '\\' if also(c) => line.extend([b'\\', bytes[0]]),
            c if is_hidden(c) || also(c) => bytes.iter().for_each(|byte| _ = write!(line, "%{byte:02X}")),
            _ => line.extend_from_slice(bytes),
        }
    }
}

#[cfg(test)]
mod tests {
    use larder_semantics::status::Why;

    use super::*;
    use crate::base::outcome::Outcome;
    use crate::exchange::route::SiteNumber;

    fn line(form: AccessLog, memo: &RequestRecord, ended: &RequestResult) -> String {
        let mut line = Vec::new();
        let (took, millis) = (Duration::from_micros(12_345), 1_700_000_000_042);
        let entry = Entry { memo, ended, took, millis, client: ClientDetail::Whole };
        entry.write(form, &mut line, &mut Stamp::default());
        String::from_utf8(line).unwrap()
    }

    fn ended(outcome: Outcome, status: u16) -> RequestResult {
        RequestResult { status, site: SiteNumber::NONE, hash: 0, outcome, age: None, bytes: 99, saved: None }
    }

    fn memo(target: &str) -> RequestRecord {
        let client = ([192, 0, 2, 7], 1).into();
        let mut memo = RequestRecord::unread(client);
        memo.target = target.to_owned();
        memo.method = http::Method::GET;
        memo.version = Some(Version::HTTP_11);
        memo
    }

    #[test]
    fn each_form_is_that_of_its_readers() {
        let mut memo = memo("http://a.example/b?c=\"d\"");
        memo.visit.referer = Some("http://r/ \"q\"".to_owned());
        memo.visit.agent = Some("browser\n/1\u{202e}".to_owned());
        memo.visit.content_type = Some("text/html; charset=utf-8".to_owned());
        let miss = Outcome {
            origin_time: Some(Duration::from_millis(3)),
            ..Outcome::forwarded(Kind::Miss, Why::Absent)
        };
        for (form, expected) in [
            (
                AccessLog::Text,
                "2023-11-14T22:13:20.042Z 192.0.2.7 GET http://a.example/b?c=\"d\" 200 99B 12345us fwd=uri-miss\n",
            ),
            (
                AccessLog::Combined,
                "192.0.2.7 - - [14/Nov/2023:22:13:20 +0000] \"GET http://a.example/b?c=\\\"d\\\" HTTP/1.1\" 200 99 \
                 \"http://r/ \\\"q\\\"\" \"browser%0A/1%E2%80%AE\"\n",
            ),
            (
                AccessLog::Squid,
                "1700000000.042     12 192.0.2.7 TCP_MISS/200 99 GET http://a.example/b?c=\"d\" - \
                 HIER_DIRECT/a.example text/html;%20charset=utf-8\n",
            ),
            (
                AccessLog::Json,
                "{\"time\":\"2023-11-14T22:13:20.042Z\",\"client\":\"192.0.2.7\",\"method\":\"GET\",\
                 \"url\":\"http://a.example/b?c=\\\"d\\\"\",\"http_version\":\"1.1\",\"status\":200,\"bytes\":99,\"micros\":12345,\
                 \"cache\":\"fwd=uri-miss\",\"outcome\":\"miss\",\"reason\":\"absent\",\"origin_micros\":3000,\
                 \"referer\":\"http://r/ \\\"q\\\"\",\"user_agent\":\"browser\\n/1\\u202e\"}\n",
            ),
            (AccessLog::Off, ""),
        ] {
            assert_eq!(line(form, &memo, &ended(miss, 200)), expected);
        }
    }

    #[test]
    fn an_unreadable_request_has_a_line_in_the_access_log() {
        let memo = RequestRecord::unread(([192, 0, 2, 7], 1).into());
        let refused = ended(Outcome::forwarded(Kind::Refused, Why::Refused), 400);
        let combined = line(AccessLog::Combined, &memo, &refused);
        assert_eq!(combined, "192.0.2.7 - - [14/Nov/2023:22:13:20 +0000] \"-\" 400 99 \"-\" \"-\"\n");
        let squid = line(AccessLog::Squid, &memo, &refused);
        let expected = "192.0.2.7 NONE/400 99 NONE error:invalid-request - HIER_NONE/- -\n";
        assert!(squid.ends_with(expected), "{squid}");
    }

    #[test]
    fn an_empty_media_type_leaves_no_column_out() {
        let mut memo = memo("http://a/");
        memo.visit.content_type = Some(String::new());
        let squid = line(AccessLog::Squid, &memo, &ended(Outcome::hit(Kind::Hit, Why::Fresh, 1), 200));
        assert!(squid.ends_with(" HIER_NONE/- -\n"), "{squid}");
    }

    #[test]
    fn outcomes_have_the_words_of_squid() {
        let (hit, stale) =
            (Outcome::hit(Kind::Hit, Why::Fresh, 1), Outcome::hit(Kind::StaleHit, Why::MaxStale, 1));
        for (outcome, status, word) in [
            (hit, 200, "TCP_MEM_HIT/200"),
            (hit, 304, "TCP_IMS_HIT/304"),
            (hit.from(Tier::Disk), 200, "TCP_HIT/200"),
            (stale, 200, "TCP_STALE_HIT/200"),
            (Outcome::forwarded(Kind::Coalesced, Why::Absent), 200, "TCP_CF_HIT/200"),
            (Outcome::forwarded(Kind::Revalidated, Why::Expired), 200, "TCP_REFRESH_UNMODIFIED/200"),
            (Outcome::forwarded(Kind::Failed, Why::OriginTimeout), 504, "TCP_MISS/504"),
        ] {
            let line = line(AccessLog::Squid, &memo("http://a/"), &ended(outcome, status));
            assert_eq!(line.split_whitespace().nth(3), Some(word), "{line}");
        }
    }
}
