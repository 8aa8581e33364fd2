//! Writes that seem to change the responses for other paths: for example, after `POST /users`, responses below `/feeds`
//! differ.
//!
//! Comparisons of a URL's response with its previous response are reported to this module, and so are successful
//! writes. The time between two looks at a URL either contains a write to some first segment or not. Where changes are
//! clearly more frequent with such a write, that is a coupling. Couplings are only reported to the operator; no
//! behaviour depends on them.
//!
//! The distinction from chance, for looks at Q and writes to P:
//! - Long times between two looks contain more writes and more changes, even if the two are unrelated. So looks are
//!   compared within groups whose times are equal to within a doubling, by the test of Mantel and Haenszel (J. Natl.
//!   Cancer Inst. 22, 1959, section "chi-square"), one-sided, with continuity correction.
//! - Some hundred pairs are tested repeatedly, so [`SURE`] deviations are required instead of the usual three.
//! - One event may change many responses at once: changes must follow [`WRITES`] different writes.
//! - A write to Q itself explains a change in Q: times with such a write do not count.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use http::{Method, StatusCode};
use larder_semantics::fields::Fields;
use larder_semantics::revalidate::same_representation;
use larder_store::Entry;
use larder_words::with_defaults;
use parking_lot::Mutex;

use crate::base::findings::{self, Coupling, Proposal};
use crate::exchange::plan::Plan;
use crate::exchange::request::Request;
use crate::exchange::route::{Route, first_segment};
use crate::http::response::Lines;

/// Minimum of looks after a write for a coupling.
const SUPPORT: u64 = 20;
/// Minimum of different writes that changes must follow.
const WRITES: u32 = 5;
/// Minimum of deviations from chance. With the normal distribution, 3 in a million pairs reach it without a cause.
const SURE: f64 = 4.5;
/// Maximum of first segments.
const SEGMENTS: usize = 64;
/// Maximum of bytes of a segment's name.
const LONGEST_NAME: usize = 64;
/// Number of slots for URLs; a URL replaces another one in the same slot.
const PLACES: usize = 1 << 14;
/// Maximum time between two looks that are compared, in microseconds: slightly more than an hour.
const FURTHEST: u64 = 1 << 32;
/// The first group of times between two looks, as a power of two of microseconds: about a millisecond.
const FIRST: u32 = 10;
const GROUPS: usize = 32 - FIRST as usize;
/// Bounds of the times between a write and the look that found the change, in seconds.
const DELAYS: [u32; 10] = [1, 2, 5, 10, 30, 60, 300, 900, 3_600, u32::MAX];

/// The result of a look at a URL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Observation {
    /// Whether the origin reported a change since the last look of this kind.
    Changed(bool),
    /// A number that identifies the content; it is compared with other looks of this kind.
    Content(u64),
}

/// The number of looks, and of those that found a change.
#[derive(Clone, Copy, Debug, Default)]
struct Tally {
    looks: u32,
    changes: u32,
}

impl Tally {
    fn count(&mut self, changed: bool) {
        self.looks = self.looks.saturating_add(1);
        self.changes = self.changes.saturating_add(u32::from(changed));
    }
}

/// Tallies by the time between two looks.
type Groups = [Tally; GROUPS];

/// The observations of a first segment.
#[derive(Debug)]
struct Segment {
    site: Arc<str>,
    name: Box<str>,
    /// The time of the last write.
    written: Option<u64>,
    methods: Vec<Method>,
    /// All looks at the segment.
    all: Groups,
    /// Looks after a write to another segment, by the number of that segment.
    after: BTreeMap<usize, WriteDelays>,
}

/// Looks after a write to another segment.
#[derive(Debug, Default)]
struct WriteDelays {
    groups: Groups,
    /// Changes by the time after the write at which they were found.
    delays: [u32; DELAYS.len()],
    /// Number of different writes that a change followed.
    writes: u32,
    /// The time of the last of these writes.
    last: u64,
}

/// The last look at a URL.
#[derive(Clone, Copy, Debug)]
struct LastView {
    url: u64,
    at: u64,
    content: u64,
}

/// All observations. Times are microseconds since some moment.
#[derive(Debug, Default)]
struct History {
    segments: Vec<Segment>,
    /// Empty until the first look.
    places: Vec<Option<LastView>>,
    looks: u64,
    writes: u64,
    left_out: u64,
}

impl History {
    /// Notes a look at the URL with the hash `url`, under this segment.
    fn looked(&mut self, (site, segment): (&Arc<str>, &str), url: u64, look: Observation, now: u64) {
        let Some(read) = self.segment(site, segment) else { return };
        let (url, content) = match look {
            Observation::Changed(_) => (url, 0),
            // The other kind of look gets its own slot.
            Observation::Content(content) => (!url, content),
        };
        self.places.resize(PLACES, None);
        let before = self.places[url as usize % PLACES].replace(LastView { url, at: now, content });
        let Some(before) = before.filter(|before| before.url == url) else { return };
        let span = now.saturating_sub(before.at);
        if span >= FURTHEST {
            return;
        }
        let changed = match look {
            Observation::Changed(changed) => changed,
            Observation::Content(content) => content != before.content,
        };
        self.looks += 1;
        if self.segments[read].written.is_none_or(|written| written <= before.at) {
            self.compare(read, span, changed, now);
        }
    }

    fn compare(&mut self, read: usize, span: u64, changed: bool, now: u64) {
        let group = (span.max(1).ilog2().max(FIRST) - FIRST) as usize;
        let since = now - span;
        let written: Vec<_> = (0..self.segments.len())
            .filter(|other| *other != read && self.segments[*other].site == self.segments[read].site)
            .filter_map(|other| Some((other, self.segments[other].written.filter(|at| *at > since)?)))
            .collect();
        let segment = &mut self.segments[read];
        segment.all[group].count(changed);
        for (other, at) in written {
            let after = segment.after.entry(other).or_default();
            after.groups[group].count(changed);
            if changed {
                let seconds = now.saturating_sub(at).div_ceil(1_000_000);
                let delay = DELAYS.iter().position(|bound| seconds <= u64::from(*bound));
                after.delays[delay.unwrap_or(DELAYS.len() - 1)] += 1;
                after.writes += u32::from(after.last != at);
                after.last = at;
            }
        }
    }

    /// Notes a write under this segment.
    fn wrote(&mut self, (site, segment): (&Arc<str>, &str), method: &Method, now: u64) {
        let Some(written) = self.segment(site, segment) else { return };
        self.writes += 1;
        let written = &mut self.segments[written];
        written.written = Some(now);
        if !written.methods.contains(method) && written.methods.len() < 4 {
            written.methods.push(method.clone());
        }
    }

    /// Returns the number of a segment; `None` if the maximum is reached or the name is too long.
    fn segment(&mut self, site: &Arc<str>, name: &str) -> Option<usize> {
        let known = |known: &Segment| *known.name == *name && known.site == *site;
        if let Some(number) = self.segments.iter().position(known) {
            return Some(number);
        }
        if self.segments.len() == SEGMENTS || name.len() > LONGEST_NAME {
            self.left_out += 1;
            return None;
        }
        let (site, name) = (Arc::clone(site), name.into());
        let (written, methods, after) = (None, Vec::new(), BTreeMap::new());
        self.segments.push(Segment { site, name, written, methods, all: Groups::default(), after });
        Some(self.segments.len() - 1)
    }

    /// Returns the couplings; `is_configured` tells whether one is configured already.
    fn found(&self, is_configured: impl Fn(&Coupling) -> bool) -> findings::Couplings {
        let all = self.segments.iter().flat_map(|read| {
            let after = read.after.iter();
            after.filter_map(|(written, after)| coupling(&self.segments[*written], read, after))
        });
        let mut couplings: Vec<_> = all.collect();
        couplings.iter_mut().for_each(|coupling| coupling.configured = is_configured(coupling));
        couplings.sort_by(|one, other| other.deviations.total_cmp(&one.deviations));
        let config = proposals(&couplings);
        let Self { looks, writes, left_out, .. } = *self;
        findings::Couplings { looks, writes, left_out, couplings, config }
    }
}

/// A comparison of looks after a write with other looks.
struct Comparison {
    support: u64,
    confidence: f64,
    otherwise: f64,
    deviations: f64,
}

impl Comparison {
    /// Compares the looks in `after` with the rest of `all`. `None` if one of them is empty.
    fn of(after: &Groups, all: &Groups) -> Option<Self> {
        let (mut looks, mut changes, mut otherwise, mut expected, mut variance) = (0.0, 0.0, 0.0, 0.0, 0.0);
        for (after, all) in after.iter().zip(all) {
            let [n, m, with, found] = [all.looks, all.changes, after.looks, after.changes].map(f64::from);
            let without = n - with;
            if with < 1.0 || without < 1.0 {
                continue;
            }
            looks += with;
            changes += found;
            otherwise += with * (m - found) / without;
            expected += with * m / n;
            variance += with * without * m * (n - m) / (n * n * (n - 1.0));
        }
        (variance > 0.0).then(|| Self {
            support: looks as u64,
            confidence: changes / looks,
            otherwise: otherwise / looks,
            deviations: (changes - expected - 0.5) / variance.sqrt(),
        })
    }

    /// Whether the difference is significant and large: twice the share of changes, or half the share of looks without
    /// one.
    fn is_clear(&self) -> bool {
        let Self { support, confidence, otherwise, deviations } = *self;
        let is_much = confidence >= 2.0 * otherwise || 1.0 - confidence <= (1.0 - otherwise) / 2.0;
        support >= SUPPORT && deviations >= SURE && is_much
    }
}

fn coupling(written: &Segment, read: &Segment, after: &WriteDelays) -> Option<Coupling> {
    let clear = Comparison::of(&after.groups, &read.all).filter(Comparison::is_clear)?;
    if after.writes < WRITES {
        return None;
    }
    let Comparison { support, confidence, otherwise, deviations } = clear;
    let methods: Vec<_> = written.methods.iter().map(ToString::to_string).collect();
    let within = nine_in_ten(&after.delays);
    let text = format!(
        "after {} /{}, {:.0}% of GETs under /{} changed within {within} s (support {support}, otherwise {:.0}%)",
        methods.join(", "),
        written.name,
        100.0 * confidence,
        read.name,
        100.0 * otherwise,
    );
    let (site, written, read) = (read.site.to_string(), written.name.to_string(), read.name.to_string());
    let configured = false;
    Some(Coupling {
        site,
        written,
        methods,
        read,
        confidence,
        otherwise,
        support,
        within,
        deviations,
        configured,
        text,
    })
}

/// Returns the bound within which nine of ten delays are.
fn nine_in_ten(delays: &[u32; DELAYS.len()]) -> u32 {
    let all: u64 = delays.iter().copied().map(u64::from).sum();
    let mut within = 0;
    let reached = delays.iter().position(|count| {
        within += u64::from(*count);
        within * 10 >= all * 9
    });
    DELAYS[reached.unwrap_or(DELAYS.len() - 1)]
}

/// Returns the config lines for gateways before each site, as far as they add couplings.
fn proposals(couplings: &[Coupling]) -> Vec<Proposal> {
    let mut sites: BTreeMap<&str, BTreeMap<&str, Vec<String>>> = BTreeMap::new();
    for Coupling { site, written, read, .. } in couplings {
        sites.entry(site).or_default().entry(written).or_default().push(quoted(read));
    }
    let of = |(written, mut read): (&str, Vec<String>)| {
        read.sort_unstable();
        format!("{} = [{}]", key(written), read.join(", "))
    };
    let is_new = |site: &str| couplings.iter().any(|coupling| coupling.site == site && !coupling.configured);
    let line = |(site, all): (&str, BTreeMap<&str, Vec<String>>)| {
        let all: Vec<_> = all.into_iter().map(of).collect();
        Proposal { site: site.to_owned(), line: format!("couple = {{ {} }}", all.join(", ")) }
    };
    sites.into_iter().filter(|(site, _)| is_new(site)).map(line).collect()
}

fn key(name: &str) -> String {
    let is_bare = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    if !name.is_empty() && name.bytes().all(is_bare) { name.to_owned() } else { quoted(name) }
}

/// Returns `name` as a string of TOML, which has the same escapes as JSON.
fn quoted(name: &str) -> String {
    serde_json::Value::from(name).to_string()
}

with_defaults! {
    /// The observations of all workers.
    #[derive(Debug)]
    pub struct Couplings {
        since: Instant = Instant::now(),
        history: Mutex<History> = Mutex::default(),
    }
}

impl Couplings {
    /// Notes the response of an origin to the revalidation of `entry`. Some origins send the whole response again
    /// although it has not changed, and some have no validators, so that no change can be determined.
    pub(crate) fn validated(
        &self,
        plan: &Plan,
        request: &Request,
        entry: &Entry,
        (status, news): (StatusCode, &Lines),
    ) {
        let is_same = same_representation(&entry.fields(), news);
        let changed = match status {
            StatusCode::NOT_MODIFIED if is_same => false,
            StatusCode::NOT_FOUND | StatusCode::GONE => true,
            _ if status.is_success() && has_validator(&entry.fields()) && has_validator(news) => !is_same,
            _ => return,
        };
        self.looked(plan, request, Observation::Changed(changed));
    }

    /// Notes a fetched response; `content` is a number that identifies it.
    pub(crate) fn fetched(&self, plan: &Plan, request: &Request, content: u64) {
        self.looked(plan, request, Observation::Content(content));
    }

    fn looked(&self, plan: &Plan, request: &Request, look: Observation) {
        if let Some(at) = place(plan, request) {
            let url = request.hash;
            self.history.lock().looked(at, url, look, micros(self.since.elapsed()));
        }
    }

    /// Notes the response to an unsafe request. Unless the request failed, it counts as a write.
    pub(crate) fn answered(&self, plan: &Plan, request: &Request, status: StatusCode) {
        let succeeded = status.is_success() || status.is_redirection();
        if let (true, Some(at)) = (succeeded, place(plan, request)) {
            self.history.lock().wrote(at, &request.method, micros(self.since.elapsed()));
        }
    }

    pub fn found(&self, plan: &Plan) -> findings::Couplings {
        let gateways: Vec<_> = plan.settings.sites.iter().filter_map(|site| site.tags.as_ref()).collect();
        let couples = |written: &str, read: &str| {
            gateways.iter().any(|tags| tags.couplings.of(written).iter().any(|coupled| **coupled == *read))
        };
        self.history.lock().found(|coupling| couples(&coupling.written, &coupling.read))
    }
}

fn has_validator(fields: &impl Fields) -> bool {
    fields.contains("etag") || fields.contains("last-modified")
}

/// Returns the site of a request and the first segment of its path. Requests of the forward proxy have no couplings.
fn place<'r>(plan: &'r Plan, request: &'r Request) -> Option<(&'r Arc<str>, &'r str)> {
    let Route::Site(site) = &request.route else { return None };
    Some((plan.sites.account(site.number).site(), first_segment(&request.path)))
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
