//! The table of all shadows, as data.

use larder_evict::By;
use serde::{Deserialize, Serialize};

use crate::advice::Advice;
use crate::counts::Counts;
use crate::estimate::Estimate;
use crate::late::LateRoute;
use crate::panel::{FACTORS, Panel, RUNNING};
use crate::prices::Prices;

/// What each policy and size would bring, and how far that can be believed.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Report {
    /// The policies and sizes.
    pub cells: Vec<Cell>,
    /// Whether sizes are numbers of entries; if not, they are in bytes.
    pub by_entries: bool,
    /// The requests that they are about.
    pub window: WindowReport,
    /// The running configuration in reality.
    pub check: Check,
    /// The hit ratios without a limit.
    pub unlimited: Ratios,
    /// The share of the keys that are in the sample.
    pub sample: f64,
    /// Requests of the sample that were lost since the queue was full.
    pub lost: u64,
    /// The bytes of memory that the shadows take.
    pub bytes: usize,
    /// The routes where longer lifetimes would answer the most requests, since the process started.
    pub lifetimes: Vec<LateRoute>,
    /// What requests to origins and memory cost, if that is known.
    pub prices: Option<Prices>,
    /// A better policy at the running size, if there is one.
    pub advice: Option<Advice>,
    /// The reason for which nothing can be recommended.
    pub doubt: Option<String>,
}

/// A tier.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Tier {
    /// Memory.
    Memory,
    /// A disk, beside memory.
    Disk,
}

impl Tier {
    /// Returns the name, as in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Disk => "disk",
        }
    }
}

/// A policy at a size.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Cell {
    /// The tier.
    pub tier: Tier,
    /// The policy.
    pub policy: String,
    /// The size, in bytes or entries.
    pub size: u64,
    /// Its hit ratios.
    #[serde(flatten)]
    pub ratios: Ratios,
    /// Whether it is the running configuration.
    pub current: bool,
}

/// Hit ratios and their standard errors, from 0 to 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize, Serialize)]
pub struct Ratios {
    /// Hits over cacheable requests.
    pub hit_ratio: f64,
    /// Its standard error.
    pub hit_ratio_error: f64,
    /// Bytes of hits over bytes of cacheable requests.
    pub byte_hit_ratio: f64,
    /// Its standard error.
    pub byte_hit_ratio_error: f64,
}

/// The requests that a report is about.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize, Serialize)]
pub struct WindowReport {
    /// Cacheable requests, whether in the sample or not.
    pub requests: u64,
    /// Their bytes.
    pub bytes: u64,
    /// The length of the time.
    pub seconds: u32,
}

/// The hit ratio of the running configuration.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize, Serialize)]
pub struct Check {
    /// That of its shadow.
    pub predicted: f64,
    /// That of the cache.
    pub measured: f64,
}

impl Panel {
    /// Returns the report about the time since `since` (UNIX seconds), in whole intervals of five minutes.
    pub fn report(&self, tier: Tier, since: u32) -> Report {
        let counts = self.sum(since);
        let all = counts.traffic.asked;
        let ratios = |counts: &Counts, share: f64| {
            let hits = Estimate::of(counts, &all, share, |sums| sums.requests);
            let bytes = Estimate::of(counts, &all, share, |sums| sums.bytes);
            Ratios {
                hit_ratio: hits.ratio,
                hit_ratio_error: hits.error,
                byte_hit_ratio: bytes.ratio,
                byte_hit_ratio_error: bytes.error,
            }
        };
        let share = self.sample().share();
        let sizes = self.sizes();
        let configurations = self.policies().enumerate().flat_map(|(policy, spec)| {
            sizes.iter().enumerate().map(move |(at, size)| {
                (spec.to_string(), size.named, policy == self.running() && at == RUNNING)
            })
        });
        let cells: Vec<_> = configurations
            .zip(&counts.shadows)
            .map(|((policy, size, current), counts)| Cell {
                tier,
                policy,
                size,
                ratios: ratios(counts, share),
                current,
            })
            .collect();
        let of_running = cells.get(self.running() * FACTORS.len() + RUNNING);
        let predicted = of_running.map_or(0.0, |cell| cell.ratios.hit_ratio);
        let measured = if all.requests > 0.0 { counts.traffic.hit.requests / all.requests } else { 0.0 };
        let (advice, doubt) = match self.advise(&counts, predicted, measured) {
            Ok(advice) => (advice, None),
            Err(doubt) => (None, Some(doubt.to_string())),
        };
        Report {
            unlimited: counts
                .shadows
                .last()
                .map(|counts| ratios(counts, self.endless_share()))
                .unwrap_or_default(),
            cells,
            by_entries: self.unit() == By::Entries,
            window: WindowReport {
                requests: all.requests as u64,
                bytes: all.bytes as u64,
                seconds: counts.ended.saturating_sub(counts.begun),
            },
            check: Check { predicted, measured },
            sample: share,
            lost: counts.lost,
            bytes: self.bytes(),
            lifetimes: Vec::new(),
            prices: None,
            advice,
            doubt,
        }
    }
}
