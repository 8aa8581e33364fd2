//! Results and limits of the validator, which compares hits with the origin's current responses. `features::validator`
//! makes the comparisons.

pub(crate) mod limits;
pub(crate) mod record;

use self::limits::Limits;
use self::record::Record;
use crate::base::findings::Validation;
use crate::base::settings::ValidatorSettings;
use crate::exchange::plan::Plan;

/// The results and limits of the validator.
#[derive(Debug, Default)]
pub struct Validator {
    pub(crate) limits: Limits,
    pub(crate) record: Record,
}

impl Validator {
    /// Returns the results, with the settings of `plan`.
    pub fn report(&self, plan: &Plan) -> Validation {
        let ValidatorSettings { sample, rate, cookies } = plan.settings.validate;
        let (verdicts, routes) = self.record.report();
        let (under_way, skipped) = (self.limits.under_way(), self.limits.skipped());
        Validation { sample, rate, cookies, under_way, verdicts, skipped, routes }
    }
}
