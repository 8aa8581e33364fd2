//! What the validator counts, and what bounds it: hits that are compared with what the origin answers. How that is done is in
//! `features::validator`.

pub(crate) mod limits;
pub(crate) mod record;

use self::limits::Limits;
use self::record::Record;
use crate::base::findings::Validation;
use crate::base::settings::Validate;
use crate::exchange::plan::Plan;

/// What the validator counts, and what bounds it.
#[derive(Debug, Default)]
pub(crate) struct Validator {
    pub(crate) limits: Limits,
    pub(crate) record: Record,
}

impl Validator {
    /// What was found out, by the settings of `plan`.
    pub(crate) fn report(&self, plan: &Plan) -> Validation {
        let Validate { sample, rate, cookies } = plan.settings.validate;
        let (verdicts, routes) = self.record.report();
        let (under_way, skipped) = (self.limits.under_way(), self.limits.skipped());
        Validation { sample, rate, cookies, under_way, verdicts, skipped, routes }
    }
}
