//! A trace to simulate, and the capacities of caches for it.

use larder_evict::{By, Capacity};

use crate::trace::Trace;

/// A capacity as users write it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Size {
    /// A share of the trace's distinct bytes or objects, above 0.
    Share(f64),
    /// Bytes: invalid if entries are counted.
    Bytes(u64),
    /// Bytes or entries, according to the counted unit.
    Units(u64),
}

/// A trace with the properties of its file.
#[derive(Debug)]
pub struct Subject {
    /// The name.
    pub name: String,
    /// Its requests, or a sample of them.
    pub trace: Trace,
    /// The intended share of the objects in the sample: 1 for all.
    pub sample: f64,
    /// The number of requests before sampling.
    pub requests: u64,
}

/// The reason why a plan does not suit a trace: one line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct PlanMismatch(String);

impl Subject {
    /// Returns a subject with a whole trace.
    pub fn whole(name: &str, trace: Trace) -> Self {
        let requests = trace.len() as u64;
        Self { name: name.into(), trace, sample: 1.0, requests }
    }

    /// Returns the weight of all objects, in the unit `by`; for a sample, an estimate for the whole trace.
    pub fn distinct(&self, by: By) -> u64 {
        let kept = match by {
            By::Bytes => self.trace.distinct_bytes(),
            By::Entries => u64::from(self.trace.shape().objects),
        };
        (kept as f64 / self.sample).round() as u64
    }

    /// Returns the default unit of capacities.
    pub fn usual_unit(&self) -> By {
        if self.trace.has_sizes() { By::Bytes } else { By::Entries }
    }

    /// Returns `size` as a capacity for the whole trace, counted in `by`. It is at most the total of all objects, since
    /// everything fits in more than that.
    ///
    /// # Errors
    /// If it is 0, or in the wrong unit.
    pub fn capacity(&self, size: Size, by: By) -> Result<Capacity, PlanMismatch> {
        let unsuitable = |why: String| Err(PlanMismatch(format!("{}: {why}", self.name)));
        let all = self.distinct(by);
        let unit = by.name();
        let amount = match size {
            Size::Share(share) => (share * all as f64) as u64,
            Size::Bytes(bytes) if by == By::Entries => {
                return unsuitable(format!(
                    "a capacity of {bytes} bytes, but entries are counted; write it without a unit, or use --by bytes"
                ));
            }
            Size::Bytes(amount) | Size::Units(amount) => amount.min(all),
        };
        match (amount, size) {
            (0, Size::Share(share)) => {
                unsuitable(format!("{}% of its {all} {unit} is a capacity of 0", share * 100.0))
            }
            (0, _) => unsuitable("a capacity of 0 keeps nothing".into()),
            _ if self.scaled(amount) == 0 => unsuitable(format!(
                "a capacity of {amount} {unit} is 0 in a sample of {}; take a larger sample",
                self.sample
            )),
            _ => Ok(Capacity { by, amount }),
        }
    }

    /// Returns the sample's part of `amount` of the whole trace.
    pub(crate) fn scaled(&self, amount: u64) -> u64 {
        if self.sample < 1.0 { (amount as f64 * self.sample).round() as u64 } else { amount }
    }
}
