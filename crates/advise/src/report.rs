//! The table of all shadows, as data.

use larder_evict::By;
use serde::{Deserialize, Serialize};

use crate::advice::Advice;
use crate::counts::{Counts, Sums, Traffic};
use crate::estimate::{Survey, Unit};
use crate::late::LateRoute;
use crate::panel::{FACTORS, Panel, RUNNING};
use crate::prices::Prices;
use crate::window::{Interval, SampleCounts};

/// The usual standard deviation of the sizes of objects, as a multiple of their mean.
const SPREAD: f64 = 1.5;

/// What each policy and size would bring, and how far that can be believed.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Report {
    /// The policies and sizes.
    pub cells: Vec<Cell>,
    /// The policy of the config, if another one was applied.
    #[serde(default)]
    pub policy_of_config: Option<String>,
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
    /// The share of the requests that were for responses that may not be stored.
    #[serde(default)]
    pub unstorable: f64,
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
    /// Bytes from the cache, also after a validation, over bytes of cacheable requests.
    pub byte_hit_ratio: f64,
    /// Its standard error.
    pub byte_hit_ratio_error: f64,
    /// The mean time that hits save a cacheable request: that of the fetches of their responses, in milliseconds.
    #[serde(default)]
    pub saved_ms: f64,
    /// Its standard error.
    #[serde(default)]
    pub saved_ms_error: f64,
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
        let Traffic { asked, hit } = counts.traffic;
        let share = counts.seen.share();
        let measured = Ratios::measured(&asked, &hit);
        let configurations = self.policies().enumerate().flat_map(|(policy, spec)| {
            self.sizes().iter().enumerate().map(move |(at, size)| {
                (spec.to_string(), size.named, policy == self.running() && at == RUNNING)
            })
        });
        let cells = configurations.zip(&counts.shadows).map(|((policy, size, current), shadow)| {
            let ratios = self.ratios(&counts, shadow, counts.seen);
            let ratios = if current { measured.with_time_of(&ratios) } else { ratios };
            Cell { tier, policy, size, ratios, current }
        });
        let mut cells: Vec<_> = cells.collect();
        let errors = self.residents().zip(self.errors_of_giant(share));
        for (row, (residents, of_giant)) in cells.chunks_mut(FACTORS.len()).zip(errors) {
            self.add_errors_of_room(row, residents, share);
            for (cell, error) in row.iter_mut().zip(of_giant).filter(|(cell, _)| !cell.current) {
                cell.ratios.byte_hit_ratio_error = cell.ratios.byte_hit_ratio_error.hypot(error);
            }
        }
        let survey = self.survey(&counts, share, |sums| sums.requests);
        let predicted = (measured.hit_ratio + survey.excess()).clamp(0.0, 1.0);
        let (advice, doubt) = match self.advise(&counts, &survey, predicted, measured.hit_ratio) {
            Ok(advice) => (advice, None),
            Err(doubt) => (None, Some(doubt.to_string())),
        };
        let endless = counts.shadows.last();
        Report {
            unlimited: endless
                .map_or_else(Ratios::default, |shadow| self.ratios(&counts, shadow, counts.seen_endless)),
            cells,
            policy_of_config: None,
            by_entries: self.unit() == By::Entries,
            window: WindowReport {
                requests: asked.requests as u64,
                bytes: asked.bytes as u64,
                seconds: counts.ended.saturating_sub(counts.begun),
            },
            check: Check { predicted, measured: measured.hit_ratio },
            sample: self.sample().share(),
            unstorable: counts.unstorable / survey.running.asked().requests.max(1.0),
            lost: counts.lost,
            bytes: self.bytes(),
            lifetimes: Vec::new(),
            prices: None,
            advice,
            doubt,
        }
    }

    /// Adds the error that follows from the sizes of the objects in the sample: if they happen to be larger than others, fewer of them
    /// fit than should. The hit ratios of the next sizes tell how much that matters.
    fn add_errors_of_room(&self, row: &mut [Cell], residents: [usize; FACTORS.len()], share: f64) {
        let ratios: Vec<_> = row.iter().map(|cell| cell.ratios).collect();
        for (at, cell) in row.iter_mut().enumerate().filter(|(_, cell)| !cell.current) {
            let (less, more) = (at.saturating_sub(1), (at + 1).min(ratios.len() - 1));
            let growth = (self.sizes()[more].named as f64 / self.sizes()[less].named as f64).ln();
            let room = SPREAD * ((1.0 - share) / residents[at].max(1) as f64).sqrt();
            let error = |ratio: fn(&Ratios) -> f64| {
                (ratio(&ratios[more]) - ratio(&ratios[less])) / growth.max(0.1) * room
            };
            let Ratios { hit_ratio_error, byte_hit_ratio_error, .. } = &mut cell.ratios;
            *hit_ratio_error = hit_ratio_error.hypot(error(|ratios| ratios.hit_ratio));
            *byte_hit_ratio_error = byte_hit_ratio_error.hypot(error(|ratios| ratios.byte_hit_ratio));
        }
    }

    fn survey<'c>(&self, counts: &'c Interval, share: f64, of: Unit) -> Survey<'c> {
        let running = &counts.shadows[self.running() * FACTORS.len() + RUNNING];
        Survey { traffic: &counts.traffic, running, wrong: &counts.wrong, share, of }
    }

    /// Returns the ratios of a shadow that has `seen` so much.
    fn ratios(&self, counts: &Interval, shadow: &Counts, seen: SampleCounts) -> Ratios {
        let share = seen.share();
        let estimate = |of: Unit| {
            let survey = self.survey(counts, share, of);
            // The running configuration corrects only what has the same sample.
            if seen == counts.seen { survey.estimate(shadow) } else { survey.uncorrected(shadow) }
        };
        let (hits, bytes) = (estimate(|sums| sums.requests), estimate(|sums| sums.bytes));
        // How long all fetches would take is known from the shadows alone.
        let asked = shadow.asked();
        let traffic = Traffic { asked, hit: Sums::default() };
        let time = Survey { traffic: &traffic, ..self.survey(counts, share, |sums| sums.micros) };
        let (time, mean) = (time.uncorrected(shadow), asked.micros / asked.requests.max(1.0) / 1_000.0);
        Ratios {
            saved_ms: time.ratio * mean,
            saved_ms_error: time.error * mean,
            hit_ratio: hits.ratio,
            hit_ratio_error: hits.error,
            byte_hit_ratio: bytes.ratio,
            byte_hit_ratio_error: bytes.error,
        }
    }
}

impl Ratios {
    fn measured(asked: &Sums, hit: &Sums) -> Self {
        let ratio = |hit: f64, asked: f64| if asked > 0.0 { hit / asked } else { 0.0 };
        Self {
            hit_ratio: ratio(hit.requests, asked.requests),
            byte_hit_ratio: ratio(hit.bytes, asked.bytes),
            ..Self::default()
        }
    }

    fn with_time_of(self, shadow: &Self) -> Self {
        Self { saved_ms: shadow.saved_ms, saved_ms_error: shadow.saved_ms_error, ..self }
    }
}
