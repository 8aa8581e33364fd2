//! Observability: the access log, the statistics database, the live log, traces, and findings about origins.

pub(crate) mod access;
pub mod contents;
pub(crate) mod couplings;
pub(crate) mod ended;
pub(crate) mod failures;
pub mod ledger;
pub(crate) mod memo;
pub mod otlp;
pub(crate) mod repeats;
pub(crate) mod sums;
pub(crate) mod tap;
pub mod top;
pub mod trace;
pub mod transaction;
pub(crate) mod validation;
pub(crate) mod verdicts;
pub mod watch;

use std::fs::File;
use std::sync::Arc;

use larder_advise::Sample;

use self::couplings::Couplings;
use self::failures::Failures;
use self::ledger::Ledger;
use self::repeats::Repeats;
use self::tap::Selection;
use self::trace::Tracer;
use self::validation::Validator;
use self::verdicts::Verdicts;
use self::watch::Watch;
use crate::base::error::Error;
use crate::base::settings::Settings;
use crate::counts::accounts::Accounts;

/// The logs and statistics of requests, and the findings from them.
pub struct Observers {
    /// The counts of each site.
    pub accounts: Accounts,
    /// The access log.
    pub access: access::Log,
    /// The statistics database, if there is one.
    pub ledger: Option<Arc<Ledger>>,
    /// The spans of requests, if they are traced.
    pub tracer: Option<Tracer>,
    /// The live log.
    pub watch: Watch,
    /// The requests that failed in the last minutes.
    pub failures: Failures,
    /// The reasons why responses were not stored.
    pub(crate) verdicts: Verdicts,
    /// Repeated warnings, which are counted instead of logged.
    pub(crate) repeats: Repeats,
    /// Writes that seem to change other responses.
    pub couplings: Couplings,
    /// The results of comparing hits with the origin's current responses.
    pub validator: Validator,
    /// The requests that shadow caches see, if there are any.
    pub(crate) selection: Option<Arc<Selection>>,
}

impl Observers {
    /// Opens the access log and the statistics database, whose lock the process before this one may have handed over.
    /// Errors: which of them could not be opened, and the reason.
    pub(crate) fn new(settings: &Settings, statistics_lock: Option<File>) -> Result<Self, Error> {
        Ok(Self {
            access: access::Log::open(settings)?,
            ledger: Ledger::open(&settings.statistics, statistics_lock)?.map(Arc::new),
            tracer: Tracer::start(settings)?,
            accounts: Accounts::new(settings.threads.max(1)),
            watch: Watch::default(),
            failures: Failures::default(),
            verdicts: Verdicts::default(),
            repeats: Repeats::default(),
            couplings: Couplings::default(),
            validator: Validator::default(),
            selection: settings.advise.then(|| Selection::new(Sample::all(fastrand::u64(..)))),
        })
    }
}
