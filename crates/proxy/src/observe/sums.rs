//! Sums of requests that share a row of the statistics with equal requests of the same second.
//!
//! Up to the configured rate, each request of a worker gets its own row. Beyond that rate, the worker sums requests
//! whose values are all equal. The values are represented as numbers, so a hit needs no text and no read of the clock.

use std::hash::BuildHasher;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use http::{Method, Version};
use larder_stats::{BatchSums, Mark, Measures, Transaction};

use super::ledger::{COMMON, Ledger};
use super::memo::{self, RequestRecord, RequestResult};
use crate::base::clock;
use crate::base::settings::{ClientDetail, Door, Role};
use crate::counts::versions;
use crate::exchange::plan::Plan;
use crate::http::head::RequestHead;
use crate::net::tls::client_certificates::ClientIdentity;

/// Replaces the URL and the route if a worker has reached its maximum of URLs.
const ANY: &str = "*";

/// A hit that was served without waiting, while its head is available.
pub(crate) struct Hit<'h> {
    pub(crate) role: Role,
    pub(crate) head: &'h RequestHead<'h>,
    pub(crate) client: SocketAddr,
    /// The client's identity on listeners that request certificates.
    pub(crate) identity: Option<&'h Arc<ClientIdentity>>,
    /// The id of the request, if requests have ids.
    pub(crate) id: Option<&'h Arc<str>>,
    /// The arrival (UNIX seconds).
    pub(crate) now: u32,
    /// The precise arrival, if the request is timed.
    pub(crate) begun: Option<Instant>,
}

impl Hit<'_> {
    pub(crate) fn memo(&self, plan: &Plan) -> RequestRecord {
        let begun = self.begun.unwrap_or_else(Instant::now);
        let memo = RequestRecord::begin(plan, self.role, self.head, (self.client, self.identity), begun);
        RequestRecord { id: self.id.cloned(), ..memo }
    }
}

impl Ledger {
    /// Records a hit that was served without waiting.
    pub(crate) fn record_hit(
        &self,
        plan: &Plan,
        sheet: &mut BatchSums,
        hit: &Hit<'_>,
        ended: &RequestResult,
    ) {
        let service = hit.begun.map(|begun| begun.elapsed());
        let row = || self.row(hit.memo(plan), ended, service.unwrap_or_default());
        if sheet.takes_apart(hit.now) {
            return self.recorder.record(row());
        }
        let mark = Mark {
            second: hit.now,
            url: ended.hash,
            words: words(ended, None, &hit.head.method, Some(hit.head.version)),
            client: client(hit.client.ip(), self.client),
        };
        let of = Measures { bytes: ended.bytes, service, origin: None, age: ended.age };
        if !sheet.add(&mark, &of) {
            let general = || self.hasher.hash_one(memo::site(plan, hit.role, hit.head));
            self.sum(sheet, mark, &of, general, row);
        }
    }

    /// Records a request that took `took`.
    pub(crate) fn record(
        &self,
        sheet: &mut BatchSums,
        memo: RequestRecord,
        ended: &RequestResult,
        took: Duration,
    ) {
        if sheet.takes_apart(clock::now()) {
            return self.recorder.record(self.row(memo, ended, took));
        }
        let came = clock::unix_millis().saturating_sub(took.as_millis() as u64);
        let mark = Mark {
            second: (came / 1_000) as u32,
            url: self.hasher.hash_one((&memo.target, memo.method.as_str())),
            words: words(ended, memo.door, &memo.method, memo.version),
            client: client(memo.client.ip(), self.client),
        };
        let origin = ended.outcome.origin_time;
        let of = Measures { bytes: ended.bytes, service: Some(took), origin, age: ended.age };
        if !sheet.add(&mark, &of) {
            let general = self.hasher.hash_one((&memo.site, memo.method.as_str()));
            self.sum(sheet, mark, &of, || general, || self.row(memo, ended, took));
        }
    }

    /// Begins a sum. If the maximum of URLs is reached, all requests of a site share a sum, under the hash `general`.
    fn sum(
        &self,
        sheet: &mut BatchSums,
        mut mark: Mark,
        of: &Measures,
        general: impl FnOnce() -> u64,
        row: impl FnOnce() -> Transaction,
    ) {
        if !sheet.is_full() {
            return sheet.insert(mark, of, row());
        }
        mark.url = general();
        if !sheet.add(&mark, of) {
            sheet.insert(mark, of, Transaction { url: ANY.to_owned(), route: ANY.into(), ..row() });
        }
    }
}

/// Hashes all values of a row except its site, URL and client.
fn words(ended: &RequestResult, door: Option<Door>, method: &Method, version: Option<Version>) -> u64 {
    let RequestResult { status, outcome, .. } = ended;
    let method = COMMON.iter().position(|common| *common == method.as_str()).unwrap_or(COMMON.len());
    let version = version.map_or(0, |version| versions::position(version) as u8 + 1);
    let numbers = [
        method as u8,
        door.map_or(0, |door| door as u8 + 1),
        outcome.kind as u8,
        outcome.why as u8,
        outcome.tier as u8,
        version << 1 | u8::from(outcome.origin_time.is_some()),
    ];
    let [low, high] = status.to_le_bytes();
    let [a, b, c, d, e, f] = numbers;
    u64::from_le_bytes([low, high, a, b, c, d, e, f])
}

/// Returns the stored part of a client's address.
fn client(address: IpAddr, detail: ClientDetail) -> u128 {
    let address = match address {
        IpAddr::V4(address) => address.to_ipv6_mapped(),
        IpAddr::V6(address) => address,
    };
    let is_v4 = address.to_ipv4_mapped().is_some();
    match detail {
        ClientDetail::Off => 0,
        ClientDetail::Whole => address.to_bits(),
        ClientDetail::Truncated if is_v4 => address.to_bits() >> 8,
        ClientDetail::Truncated => address.to_bits() >> 80 << 80,
    }
}
