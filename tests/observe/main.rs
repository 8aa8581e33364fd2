//! Reports about the proxy: the figures of sites, reasons and durations, metrics, access logs, the statistics
//! database, traces, and what a collector of OpenTelemetry gets.

mod figures;
mod log_flush;
mod logs;
mod metrics;
mod statistics;
mod trace;

use larder_testkit::{Larder, Origin};
use serde_json::Value;

/// Returns the figures of a site in `/stats`.
fn site<'s>(stats: &'s Value, name: &str) -> &'s Value {
    let mut sites = stats["sites"].as_array().expect("sites").iter();
    sites.find(|site| site["site"] == name).unwrap_or_else(|| panic!("no site {name} in {stats}"))
}

#[test]
fn the_context_of_a_trace_is_passed_on_untouched() {
    let origin = Origin::always("200 OK\nCache-Control: no-store\n\ntraced");
    let larder = Larder::before(&origin);
    let (parent, state) = ("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", "a=1,b=2");
    for method in ["GET", "POST", "HEAD"] {
        larder.ask(&format!("{method} /\ntraceparent: {parent}\ntracestate: {state}"));
        let seen = origin.last();
        assert_eq!(
            (seen.field("traceparent"), seen.field("tracestate")),
            (Some(parent), Some(state)),
            "{method}"
        );
    }
}
