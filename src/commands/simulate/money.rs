//! What a month of a trace's traffic costs, by the prices of a config.

use std::path::Path;

use larder_advise::{Prices, Ratios, Tier, WindowReport};
use larder_evict::{By, Spec};
use larder_lab::subject::Subject;
use larder_lab::sweep::Cell;

use crate::cli::Failure;
use crate::config;
use crate::config::flags::Flags;

/// Returns the prices in a config file. Errors: it cannot be read, or has no prices.
pub(super) fn prices(file: &Path) -> Result<Prices, Failure> {
    let settings = config::load(Some(file), &Flags::default());
    let prices = settings.map_err(|error| Failure::Refused(error.to_string()))?.cost;
    match prices.is_set() {
        true => Ok(prices),
        false => Err(Failure::Refused(format!("{}: no prices; write some in [cost]", file.display()))),
    }
}

/// Returns the length of a trace, in requests, bytes and seconds.
pub(super) fn window(subject: &Subject) -> WindowReport {
    let trace = &subject.trace;
    let span = trace.span();
    let bytes: f64 = (0..trace.len()).map(|at| trace.size(at) as f64).sum();
    let requests = subject.requests;
    // In a sample, requests have the same mean size as all.
    let bytes = (bytes / trace.len().max(1) as f64 * requests as f64) as u64;
    WindowReport {
        requests,
        bytes,
        seconds: ((span.end - span.start) / 1_000_000).try_into().unwrap_or(u32::MAX),
    }
}

/// Sets the costs of cells, if the trace has times.
pub(super) fn add(prices: &Prices, subject: &Subject, cells: &mut [Cell]) {
    let window = window(subject);
    if window.seconds == 0 {
        return eprintln!("larder: {}: without times, the cost of a month is unknown", subject.name);
    }
    for cell in cells {
        let Cell { hit_ratio, byte_hit_ratio, .. } = *cell;
        let size = if cell.capacity.by == By::Bytes { cell.capacity.amount } else { 0 };
        let ratios = Ratios { hit_ratio, byte_hit_ratio, ..Ratios::default() };
        cell.cost_a_month = Some(prices.bill(&window, &ratios, Tier::Memory, size).sum());
    }
}

/// Sets the fee of policies with `cost=money`.
pub(super) fn set_fees(prices: &Prices, specs: &mut [Spec]) {
    specs.iter_mut().for_each(|spec| *spec = prices.priced(spec.clone()));
}
