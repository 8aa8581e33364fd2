//! THE TABLE of metrics: one row each, with its name, type, labels, meaning, and the source of its samples. The page,
//! the reference in `docs/metrics.md` and the check of the dashboard for Grafana all read it.

use std::collections::BTreeMap;

use larder_advise::Report;
use larder_cluster::breaker::BreakerState as Breaker;
use larder_tags::PoolReport;

use super::text::{Metric, MetricKind, Samples};
use super::{Moment, Stats};
use crate::acme::{AcmeReport, OfName};
use crate::admin::Disk;
use crate::admin::sites::Origin;
use crate::base::findings::{SkipCounts, Verdicts};
use crate::base::outcome::{Kind as Outcome, Tier};
use crate::cache::prefetches::PrefetchCounts;
use crate::cluster::ClusterReport;
use crate::cluster::invalidations::InvalidationsReport;
use crate::cluster::members::MemberState;
use crate::cluster::tier::TierReport;
use crate::counts::counters::{Counts, OutcomeCounts};
use crate::counts::histogram::LatencyKind;
use crate::exchange::rule_counts::RuleReport;
use crate::observe::ledger::StatisticsReport;

/// The most rules with counts on the page: each takes four lines.
const MOST_RULES: usize = 1_000;

macro_rules! metric {
    ($kind:ident $name:literal [$($label:literal),*] $about:literal $collect:expr) => {
        Metric { name: $name, kind: MetricKind::$kind, labels: &[$($label),*], about: $about, collect: $collect }
    };
}

/// A metric of which each `$source` has one figure, by the labels of the source.
macro_rules! figure {
    ($kind:ident $name:literal [$($label:literal),*] $source:ident.$($field:ident).+ $about:literal) => {
        figure!($kind $name [$($label),*] $about $source(item) item.$($field).+)
    };
    ($kind:ident $name:literal [$($label:literal),*] $about:literal $source:ident($item:ident) $figure:expr) => {
        metric!($kind $name [$($label),*] $about |moment, to| $source(moment, |labels, $item| to.put(labels, $figure)))
    };
}

/// A metric of which each `$source` has several figures, each with its value of the last label.
macro_rules! figures {
    ($kind:ident $name:literal [$($label:literal),*] $about:literal $source:ident($item:ident)
        $($value:literal: $figure:expr),+) => {
        metric!($kind $name [$($label),*] $about |moment, to| $source(moment, |labels, $item| {
            $(to.put(&[labels, &[$value]].concat(), $figure);)+
        }))
    };
}

/// A metric of which the memory has one figure, and each disk another one.
macro_rules! tiers {
    ($kind:ident $name:literal $memory:ident, $disk:ident $about:literal) => {
        metric!($kind $name ["tier", "directory"] $about |moment, to| {
            to.put(&[MEMORY, ""], moment.stats.$memory);
            disks(moment, |_, disk| to.put(&[DISK, &disk.path], disk.$disk));
        })
    };
}

/// Every metric.
pub(super) const METRICS: &[Metric] = &[
    metric!(Counter "larder_requests_total" ["site", "outcome", "tier"]
        "Requests answered, by outcome."
        |moment, to| ends(moment, to, |ends| ends.requests)),
    metric!(Counter "larder_responses_total" ["site", "code"]
    "Responses to clients, by class of the status: 1xx, 2xx, 3xx, 4xx or 5xx."
    |moment, to| sites(moment, |site, counts| {
        counts.totals().statuses.each().for_each(|(code, responses)| to.put(&[site[0], code], responses));
    })),
    metric!(Counter "larder_sent_bytes_total" ["site", "outcome", "tier"]
        "Bytes sent to clients, heads included."
        |moment, to| ends(moment, to, |ends| ends.bytes)),
    metric!(Counter "larder_http_requests_total" ["version"]
        "Requests of HTTP clients that could be read, by version of HTTP: 1.0, 1.1 or 2."
        |moment, to| moment.stats.http_versions.iter().for_each(|(version, requests)| to.put(&[version], requests))),
    metric!(Counter "larder_reasons_total" ["site", "reason"]
    "Requests answered, by the reason of the decision. Reasons without requests are omitted."
    |moment, to| sites(moment, |site, counts| {
        counts.reasons().for_each(|(why, requests)| to.put(&[site[0], why.token()], requests));
    })),
    metric!(Counter "larder_rule_requests_total" ["site", "rule", "outcome"]
        "Requests for which a rule held: hit, answered by a rule, refused, or other. The first 1,000 rules."
    |moment, to| moment.stats.rules().take(MOST_RULES).for_each(|(site, rule)| {
        let RuleReport { name, requests, hits, answered, refused, .. } = rule;
        let other = requests.saturating_sub(hits + answered + refused);
        for (outcome, number) in [("hit", *hits), ("answered", *answered), ("refused", *refused), ("other", other)] {
            to.put(&[site, name, outcome], number);
        }
    })),
    figure!(Counter "larder_origin_received_bytes_total" ["site"] sites.origin_bytes
        "Bytes of content that origins sent."),
    metric!(Histogram "larder_request_duration_seconds" ["result"]
    "Duration of requests, by result: hit, validated, miss, or other."
    |moment, to| {
        to.put_times(&["hit"], moment.times.of(LatencyKind::Hit));
        to.put_times(&["validated"], moment.times.of(LatencyKind::Validated));
        to.put_times(&["miss"], moment.times.of(LatencyKind::Miss));
        to.put_times(&["other"], moment.times.of(LatencyKind::Other));
    }),
    metric!(Histogram "larder_origin_duration_seconds" []
        "Time until the origin began to answer, for each request to one."
        |moment, to| to.put_times(&[], moment.times.of(LatencyKind::Origin))),
    metric!(Gauge "larder_origin_healthy" ["site", "origin"]
    "1 if the origin answers, 0 while it is down after failures. Absent until the origin is asked for the first time."
    |moment, to| origins(moment, |labels, origin| {
        origin.healthy.iter().for_each(|healthy| to.put(labels, u8::from(*healthy)));
    })),
    figure!(Counter "larder_origin_failures_total" ["site", "origin"] origins.failures
        "Requests that the origin did not answer, or answered with 5xx, since the config was read."),
    metric!(Counter "larder_origin_responses_total" ["site", "origin", "code"]
    "Answers of the origin since the config was read, by status: 304, 401, 403, 404, 429, 500, 502, 503 and 504 by themselves, others by class as 5xx; code=~\"5..\" is the whole class."
    |moment, to| origins(moment, |labels, origin| {
        let was_asked = origin.healthy.is_some();
        let answers = origin.answers.0.iter().filter(|_| was_asked);
        answers.for_each(|(code, sum)| to.put(&[labels, &[code]].concat(), sum));
    })),
    figure!(Gauge "larder_origin_requests" [] stats.in_flight "Requests to origins in progress."),
    figure!(Gauge "larder_origin_queue" [] stats.queued "Requests that wait for a permit."),
    figure!(Gauge "larder_fills" [] stats.fills "Responses in progress that are being stored."),
    figure!(Gauge "larder_filling_bytes" [] stats.bytes_filling
        "Bytes of responses in progress that are being stored."),
    figure!(Gauge "larder_memory_withheld_bytes" [] stats.bytes_withheld
        "Bytes of the memory's capacity that are withheld from responses, since the allocator holds about as many unused."),
    figure!(Counter "larder_memory_file_refusals_total" [] stats.memory_file_refusals
        "Large bodies that were not stored, since the system limited the memory file."),
    metric!(Gauge "larder_advise_hit_ratio" ["tier", "policy", "size"]
    "Hit ratio of a tier that is predicted for a policy and a size, over the last four hours at most."
    |moment, to| advice(moment, |_, advice| for cell in &advice.cells {
        to.put(&[cell.tier.name(), &cell.policy, &cell.size.to_string()], cell.ratios.hit_ratio);
    })),
    figure!(Gauge "larder_advise_difference" []
        "The difference between the predicted hit ratio of the running policy and size, and the measured one."
        advice(advice) advice.check.predicted - advice.check.measured),
    figure!(Gauge "larder_advise_bytes" [] advice.bytes "Bytes of memory that the shadow caches take."),
    figure!(Counter "larder_refreshes_ahead_total" [] stats.refreshes_ahead.started
        "Refreshes of popular responses before they expired."),
    figures!(Counter "larder_refreshes_ahead_measured_total" ["used"]
        "Refreshes that were observed until the response expired again, by whether it was requested after its old expiry."
        stats(stats) "yes": stats.refreshes_ahead.used,
        "no": stats.refreshes_ahead.measured.saturating_sub(stats.refreshes_ahead.used)),
    figure!(Counter "larder_prefetches_total" ["kind"] prefetches.started
        "Prefetches that were started, by the kind of prediction."),
    figures!(Counter "larder_prefetches_measured_total" ["kind", "used"]
        "Prefetches whose use is known, by whether a client got the response within a minute."
        prefetches(kind) "yes": kind.used, "no": kind.unused),
    figure!(Counter "larder_prefetches_refused_total" ["kind"] prefetches.refused
        "Prefetched responses that may not be stored, so that their URLs are not prefetched again."),
    figure!(Counter "larder_prefetched_bytes_total" ["kind"] prefetches.bytes
        "Bytes of content that were prefetched."),
    figure!(Counter "larder_prefetched_unused_bytes_total" ["kind"] prefetches.unused_bytes
        "Bytes of prefetched content that were of no use."),
    figure!(Gauge "larder_prefetches_off" ["kind"] prefetches.off
        "Sites for which prefetches are off at present, since too few were of use."),
    figure!(Counter "larder_refreshes_ahead_skipped_total" [] stats.refreshes_ahead.skipped
        "Popular responses that were not refreshed when their time came because the budget was used up."),
    figure!(Counter "larder_early_hints_total" [] stats.early_hints.sent
        "103 responses with links of responses that are stored, or were stored before their eviction."),
    figure!(Gauge "larder_early_hint_bytes" [] stats.early_hints.bytes
        "Bytes of links that outlive stored responses."),
    figures!(Counter "larder_package_contents_total" ["result"]
        "Contents of packages: compared with the digest of their index or URL, files without a known digest, and contents that were refused because of their digest."
        stats(stats) "verified": stats.packages.verified, "unverified": stats.packages.unverified,
        "refused": stats.packages.refused),
    figure!(Counter "larder_client_prefetches_total" ["site"]
        "Requests that were prefetches of clients, with any outcome." sites(counts) counts.prefetches()),
    figure!(Counter "larder_compressed_forms_total" [] stats.compression.forms
        "Compressed forms of stored responses that were made."),
    figures!(Counter "larder_compressed_form_bytes_total" ["when"]
        "Bytes of the contents of these forms, before and after compression."
        stats(stats) "before": stats.compression.bytes_before, "after": stats.compression.bytes_after),
    figure!(Counter "larder_compression_dropped_total" [] stats.compression.dropped
        "Forms that were not made because too many waited."),
    figures!(Counter "larder_passing_compressions_total" ["result"]
        "Replies that were compressed while they were sent, and those that were not, beyond the limit."
        stats(stats) "compressed": stats.compression.passing, "refused": stats.compression.refused),
    figure!(Counter "larder_compressed_replies_total" [] stats.totals.compressed
        "Replies with stored content that was compressed here."),
    figure!(Counter "larder_compression_saved_bytes_total" [] stats.totals.bytes_saved
        "Bytes by which these replies were shorter."),
    figure!(Gauge "larder_connections" [] stats.connections "Connections of clients that are open."),
    metric!(Gauge "larder_worker_connections" ["worker"]
        "Connections of clients that are open, by the worker that serves them."
        |moment, to| {
        moment.connections.iter().enumerate().for_each(|(worker, open)| to.put(&[&worker.to_string()], *open));
    }),
    figure!(Counter "larder_refused_connections_total" [] stats.connections_refused
        "Connections of clients that were closed on arrival, and tunnels that were refused, because there were too many."),
    metric!(Gauge "larder_cache_info" ["tier", "directory", "policy"]
    "Always 1; the label policy has the eviction policy."
    |moment, to| {
        to.put(&[MEMORY, "", &moment.stats.policy], 1);
        disks(moment, |_, disk| to.put(&[DISK, &disk.path, &disk.policy], 1));
    }),
    tiers!(Gauge "larder_cache_bytes" bytes_stored, bytes_live
        "Bytes of stored responses, including heads, keys and bookkeeping."),
    tiers!(Gauge "larder_cache_objects" objects, objects
        "Stored responses; in memory, all variants of a URL are one, with its slices; on a disk, records, of slices too."),
    metric!(Gauge "larder_cache_capacity_bytes" ["tier", "directory"]
    "Capacity in bytes; absent for a memory that counts entries."
    |moment, to| {
        if moment.stats.by != "entries" {
            to.put(&[MEMORY, ""], moment.stats.capacity);
        }
        disks(moment, |_, disk| to.put(&[DISK, &disk.path], disk.size));
    }),
    tiers!(Counter "larder_cache_evictions_total" evictions, evictions
        "Stored responses that were evicted."),
    figure!(Gauge "larder_disk_ready" ["directory"]
        "1 if the directory is in use, 0 if it is off, full, or paused after failed writes."
        disks(disk) u8::from(matches!(disk.state, "ready" | "scanning"))),
    figure!(Counter "larder_disk_stored_total" ["directory"] disks.stored "Objects written."),
    figure!(Counter "larder_disk_refused_total" ["directory"] disks.refused
        "Objects that the filter or the policy did not admit."),
    figure!(Counter "larder_disk_dropped_total" ["directory"] disks.dropped
        "Objects not written because the disk could not keep up."),
    figure!(Counter "larder_disk_corrupt_total" ["directory"] disks.corrupt
        "Damaged objects that were removed."),
    figure!(Counter "larder_disk_write_errors_total" ["directory"] disks.write_errors "Writes that failed."),
    figure!(Gauge "larder_disk_queued_bytes" ["directory"] disks.bytes_queued
        "Bytes that wait to be written."),
    figure!(Gauge "larder_disk_occupied_bytes" ["directory"] disks.bytes_occupied
        "Bytes of the files, including obsolete records."),
    figure!(Counter "larder_disk_written_bytes_total" ["directory"] disks.bytes_written
        "Bytes written, including moved records."),
    figure!(Gauge "larder_pool_tags" ["site", "pool"] pools.tags
        "Valid tags of a gateway's pool; of the shared pool, all tags."),
    figure!(Gauge "larder_pool_bytes" ["site", "pool"] pools.bytes "Bytes of a pool."),
    figures!(Counter "larder_pool_requests_total" ["site", "pool", "fate"]
        "GETs for a pool, by result: matched: 304 without a request to the backend; equal: 304 because the backend's \
         answer has the client's tag; or forwarded."
        pools(pool) "matched": pool.matched, "equal": pool.equal,
        "forwarded": pool.forwarded.saturating_sub(pool.equal)),
    figure!(Counter "larder_pool_stored_total" ["site", "pool"] pools.stored "Tags stored."),
    figure!(Counter "larder_pool_refused_total" ["site", "pool"] pools.refused
        "Tags that were not stored, since the pool was blanked during the request to the backend."),
    figure!(Counter "larder_pool_blanked_total" ["site", "pool"] pools.blanked "Times a pool was blanked."),
    metric!(Counter "larder_validated_hits_total" ["site", "verdict"]
    "Hits that were fetched again, by verdict: ok, stale, changed-meanwhile, unstable or failed."
    |moment, to| validated(moment, to)),
    metric!(Counter "larder_unvalidated_hits_total" ["cause"]
    "Sampled hits that were not fetched again: beyond the rate, while busy, with credentials, or too large."
    |moment, to| {
        let SkipCounts { rate, busy, credentials, large } = moment.validation.skipped;
        let all = [("rate", rate), ("busy", busy), ("credentials", credentials), ("large", large)];
        all.iter().filter(|(_, hits)| *hits > 0).for_each(|(cause, hits)| to.put(&[cause], hits));
    }),
    figure!(Gauge "larder_cluster_nodes" []
        "Nodes that this node sees, including itself. Without a cluster, this and the following metrics are absent."
        cluster(cluster) cluster.nodes.len()),
    figure!(Gauge "larder_cluster_member" []
        "1 if this node is a member of the cluster; 0 if it serves alone."
        cluster(cluster) u8::from(cluster.standing == MemberState::Member.word())),
    figure!(Gauge "larder_cluster_engine_up" []
        "1 if the engine has answered the last command." cluster(cluster) u8::from(cluster.engine.up)),
    figure!(Counter "larder_cluster_engine_failures_total" [] cluster.engine.failures
        "Commands that the engine did not answer."),
    figures!(Counter "larder_cluster_peer_requests_total" ["result"]
        "Requests sent to the owner of their key, by result: hit, miss, or failed, after which they were sent to the origin."
        cluster(cluster) "hit": cluster.peers.hits,
        "miss": cluster.peers.asked.saturating_sub(cluster.peers.hits + cluster.peers.failed),
        "failed": cluster.peers.failed),
    figure!(Counter "larder_cluster_spilled_requests_total" [] cluster.peers.spilled
        "Requests sent to another node because the owner of their key was too busy."),
    figures!(Counter "larder_cluster_forged_total" ["what"]
        "Messages and connections that were ignored because they were not from a node with the cluster's token: member, entry, record, request, proof \
         of a node's identity, or TLS connection."
        cluster(cluster) "member": cluster.forged.members, "entry": cluster.forged.entries,
        "record": cluster.forged.records, "request": cluster.forged.requests,
        "proof": cluster.forged.proofs, "connection": cluster.forged.connections),
    figure!(Gauge "larder_cluster_copies" [] cluster.copies
        "Copies of popular responses that other nodes own."),
    figure!(Gauge "larder_cluster_trusted" []
        "1 while stored responses may be used; 0 while they have to be revalidated, since the stream of purges cannot be read."
        stream(stream) u8::from(stream.trusted)),
    figure!(Counter "larder_cluster_published_total" [] stream.published
        "Purges and other invalidations that this node has published."),
    figure!(Gauge "larder_cluster_unpublished" [] stream.waiting
        "Invalidations of this node that wait to be published."),
    figure!(Counter "larder_cluster_obeyed_total" [] stream.obeyed
        "Invalidations of other nodes that were applied here."),
    figure!(Counter "larder_cluster_distrusted_total" [] stream.distrusted
        "Times that all stored responses had to be revalidated, since purges may have been missed."),
    metric!(Gauge "larder_cluster_lag_seconds" []
    "Time since this node last had all purges. Absent until it first has them."
    |moment, to| stream(moment, |_, stream| stream.lag_seconds.iter().for_each(|lag| to.put(&[], lag)))),
    figures!(Counter "larder_cluster_tier_requests_total" ["result"]
        "Lookups in the second tier: hit, miss, outdated (purged, or perhaps purged), damaged, failed, or skipped while \
         it is not used. Without a second tier, this and the following metrics are absent."
        tier(tier) "hit": tier.hits,
        "miss": tier.asked.saturating_sub(tier.hits + tier.outdated + tier.damaged + tier.failed),
        "outdated": tier.outdated, "damaged": tier.damaged, "failed": tier.failed, "skipped": tier.skipped),
    figure!(Counter "larder_cluster_tier_written_total" [] tier.written
        "Responses written to the second tier."),
    figure!(Counter "larder_cluster_tier_written_bytes_total" [] tier.written_bytes
        "Bytes of these responses, as written."),
    figure!(Counter "larder_cluster_tier_dropped_total" [] tier.dropped
        "Responses not written to the second tier: it was not used, or failed, or too many waited."),
    figure!(Gauge "larder_cluster_tier_waiting" [] tier.waiting
        "Responses that wait to be written to the second tier."),
    figures!(Gauge "larder_cluster_tier_closed" ["side"]
        "1 while the second tier is used; 0 while it is not used after failures. By side: reads or writes."
        tier(tier) "reads": is_closed(tier.reads), "writes": is_closed(tier.writes)),
    figure!(Gauge "larder_statistics_connected" []
        "1 if the statistics database accepts rows. Without a database, this and the following metrics are absent."
        statistics(statistics) u8::from(statistics.connected)),
    figures!(Counter "larder_statistics_requests_total" ["fate"]
        "Requests for the statistics database, by result: written or dropped."
        statistics(statistics) "written": statistics.written, "dropped": statistics.dropped),
    figure!(Gauge "larder_statistics_queued_requests" [] statistics.queued
        "Requests that wait to be written to the statistics database."),
    figure!(Counter "larder_statistics_failed_writes_total" [] statistics.failed_writes
        "Writes to the statistics database that failed and were repeated."),
    metric!(Counter "larder_trace_spans_total" ["fate"]
    "Spans for the OpenTelemetry collector, by result: sent or dropped. Without one, this and the next metric are absent."
    |moment, to| moment.stats.traces.iter().for_each(|report| {
        report.fates().iter().for_each(|(fate, spans)| to.put(&[fate], *spans));
    })),
    metric!(Gauge "larder_trace_queued_spans" []
        "Spans that wait to be sent to the OpenTelemetry collector."
        |moment, to| moment.stats.traces.iter().for_each(|report| to.put(&[], report.queued()))),
    metric!(Counter "larder_tls_handshakes_total" ["end"]
    "TLS handshakes with clients, by result: full, resumed, or the reason of the failure."
    |moment, to| {
        for (end, handshakes) in moment.stats.tls.iter().flat_map(|tls| &tls.handshakes) {
            to.put(&[end], handshakes);
        }
    }),
    metric!(Gauge "larder_tls_certificate_expiry_timestamp_seconds" ["name"]
    "When the certificate of a listener expires, in UNIX seconds; the label has the first of its names. Of several for one name, the first that expires."
    |moment, to| {
        for certificate in moment.stats.tls.iter().flat_map(|tls| &tls.certificates) {
            to.put(&[&certificate.name], certificate.not_after);
        }
    }),
    figures!(Counter "larder_acme_orders_total" ["result"]
        "Orders of certificates by ACME, by result: issued or failed. Without acme, this and the next two metrics are absent."
        acme(acme) "issued": acme.issued, "failed": acme.failed),
    figure!(Gauge "larder_acme_failures" ["name"] acme_names.failures
        "Consecutive failed orders of a certificate; 0 after a success."),
    metric!(Gauge "larder_acme_renewal_timestamp_seconds" ["name"]
    "When a certificate by ACME is to be renewed, in UNIX seconds."
    |moment, to| acme_names(moment, |labels, name| name.renewal.iter().for_each(|renewal| to.put(labels, renewal)))),
    figure!(Counter "larder_log_lost_lines_total" [] stats.log_lines_lost
        "Lines of the access log that could not be written."),
    metric!(Gauge "larder_build_info" ["version"]
        "Always 1; the label version has the version."
        |_, to| to.put(&[env!("CARGO_PKG_VERSION")], 1)),
];

const MEMORY: &str = "memory";
const DISK: &str = "disk";

// The sources of figures: each calls `show` with the labels of an item, and the item.

fn stats(moment: &Moment, mut show: impl FnMut(&[&str], &Stats)) {
    show(&[], &moment.stats);
}

fn sites(moment: &Moment, mut show: impl FnMut(&[&str], &Counts)) {
    moment.sites.iter().for_each(|(site, counts)| show(&[site], counts));
}

fn origins(moment: &Moment, mut show: impl FnMut(&[&str], &Origin)) {
    moment.stats.origins().for_each(|(site, origin)| show(&[site, &origin.address], origin));
}

fn disks(moment: &Moment, mut show: impl FnMut(&[&str], &Disk)) {
    moment.stats.disks.iter().for_each(|disk| show(&[&disk.path], disk));
}

fn prefetches(moment: &Moment, mut show: impl FnMut(&[&str], &PrefetchCounts)) {
    moment.stats.prefetches.each().iter().for_each(|(kind, done)| show(&[kind], done));
}

fn pools(moment: &Moment, mut show: impl FnMut(&[&str], &PoolReport)) {
    for gateway in &moment.stats.gateways {
        gateway.pools.iter().for_each(|pool| show(&[&gateway.site, &pool.pool], pool));
    }
}

fn advice(moment: &Moment, mut show: impl FnMut(&[&str], &Report)) {
    moment.advice.iter().for_each(|advice| show(&[], advice));
}

fn cluster(moment: &Moment, mut show: impl FnMut(&[&str], &ClusterReport)) {
    moment.stats.cluster.iter().for_each(|cluster| show(&[], cluster));
}

/// The state of this node in the stream of purges, if it is in a cluster.
fn stream(moment: &Moment, mut show: impl FnMut(&[&str], &InvalidationsReport)) {
    cluster(moment, |labels, cluster| show(labels, &cluster.invalidations));
}

/// The second tier, if the engine keeps responses.
fn tier(moment: &Moment, mut show: impl FnMut(&[&str], &TierReport)) {
    cluster(moment, |labels, cluster| cluster.tier.iter().for_each(|tier| show(labels, tier)));
}

fn statistics(moment: &Moment, mut show: impl FnMut(&[&str], &StatisticsReport)) {
    moment.stats.statistics.iter().for_each(|report| show(&[], report));
}

fn acme(moment: &Moment, mut show: impl FnMut(&[&str], &AcmeReport)) {
    moment.stats.acme.iter().for_each(|report| show(&[], report));
}

fn acme_names(moment: &Moment, mut show: impl FnMut(&[&str], &OfName)) {
    acme(moment, |_, report| report.names.iter().for_each(|name| show(&[&name.name], name)));
}

/// Returns 1 for the state of a breaker that lets requests pass.
fn is_closed(word: &str) -> u8 {
    u8::from(word == Breaker::Closed.word())
}

/// Writes a figure of every outcome: of hits by their tier, of the rest without a tier.
fn ends(moment: &Moment, to: &mut Samples<'_>, figure: fn(&OutcomeCounts) -> u64) {
    sites(moment, |site, counts| {
        for ends in counts.ends() {
            match (ends.kind, ends.tier) {
                (Outcome::Hit | Outcome::StaleHit, tier) => {
                    to.put(&[site[0], ends.kind.word(), tier.name()], figure(&ends));
                }
                (_, Tier::Memory) => to.put(&[site[0], ends.kind.word(), ""], figure(&ends)),
                // Only hits have a tier.
                _ => {}
            }
        }
    });
}

/// Writes the outcomes of hits that were validated, by site; sites without such hits are absent.
fn validated(moment: &Moment, to: &mut Samples<'_>) {
    let mut sites: BTreeMap<&str, Verdicts> = BTreeMap::new();
    for route in &moment.validation.routes {
        let sum = sites.entry(&route.site).or_default();
        *sum = sum.and(&route.verdicts);
    }
    for (site, Verdicts { ok, stale, changed_meanwhile, unstable, failed, .. }) in sites {
        to.put(&[site, "ok"], ok);
        to.put(&[site, "stale"], stale);
        to.put(&[site, "changed-meanwhile"], changed_meanwhile);
        to.put(&[site, "unstable"], unstable);
        to.put(&[site, "failed"], failed);
    }
}
