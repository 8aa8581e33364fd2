//! What the proxy says about itself: counters, access lines, figures, rows of the statistics database, the live log,
//! traces.

pub(crate) mod access;
pub(crate) mod contents;
pub(crate) mod couplings;
pub(crate) mod ledger;
pub(crate) mod memo;
pub(crate) mod repeats;
pub(crate) mod sums;
pub(crate) mod top;
#[cfg_attr(not(feature = "otlp"), path = "untraced.rs")]
pub(crate) mod trace;
pub(crate) mod transaction;
pub(crate) mod validation;
pub(crate) mod verdicts;
pub(crate) mod watch;

use std::sync::Arc;

use self::couplings::Couplings;
use self::ledger::Ledger;
use self::repeats::Repeats;
use self::trace::Tracer;
use self::validation::Validator;
use self::verdicts::Verdicts;
use self::watch::Watch;
use crate::base::error::Error;
use crate::base::settings::Settings;
use crate::counts::accounts::Accounts;

/// What is told of requests, and what was found out by them.
pub(crate) struct Observers {
    /// What was counted of each site.
    pub(crate) accounts: Accounts,
    /// The access log.
    pub(crate) access: access::Log,
    /// The statistics database, if there is one.
    pub(crate) ledger: Option<Arc<Ledger>>,
    /// What makes spans of requests, if they are traced.
    pub(crate) tracer: Option<Tracer>,
    /// The live log.
    pub(crate) watch: Watch,
    /// What was said of answers that were not stored.
    pub(crate) verdicts: Verdicts,
    /// Warnings that are counted rather than logged again.
    pub(crate) repeats: Repeats,
    /// What writes seem to change.
    pub(crate) couplings: Couplings,
    /// What hits were worth when they were compared with what the origin answers.
    pub(crate) validator: Validator,
}

impl Observers {
    /// Opens the access log and the statistics database.
    ///
    /// # Errors
    /// Which of them could not be opened, and why.
    pub(crate) fn new(settings: &Settings) -> Result<Self, Error> {
        Ok(Self {
            access: access::Log::open(settings.access_log_file.as_deref())?,
            ledger: Ledger::open(&settings.statistics)?.map(Arc::new),
            tracer: Tracer::start(settings)?,
            accounts: Accounts::new(settings.threads.max(1)),
            watch: Watch::default(),
            verdicts: Verdicts::default(),
            repeats: Repeats::default(),
            couplings: Couplings::default(),
            validator: Validator::default(),
        })
    }
}
