//! A description as a self-contained page: statistics, and pictures of the trace.

use std::fmt::Write as _;

use super::{Description, Percentiles, TraceCounts, ranked};
use crate::html::escape;
use crate::plot::{Axis, Plot, Unit};
use crate::stack::FIRST;
use crate::trace::Trace;

const STYLE: &str = "\
:root{color-scheme:light dark}\
body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem}\
table{border-collapse:collapse}\
th,td{text-align:left;padding:.2rem 1.5rem .2rem 0;border-bottom:1px solid #8884;font-weight:normal}\
td{font-variant-numeric:tabular-nums}\
figure{margin:2rem 0}\
figcaption{opacity:.8}";

/// Returns a page of parts from [`part`].
pub fn page(title: &str, parts: &[String]) -> String {
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width\">\n<title>{}</title>\n<style>{STYLE}</style>\n\
         </head>\n<body>\n{}</body>\n</html>\n",
        escape(title),
        parts.concat()
    )
}

/// Returns the part of a page about one trace: its statistics, as `rows` of a name and a value, and its pictures.
pub fn part(name: &str, trace: &Trace, found: &Description, rows: &[(String, String)]) -> String {
    let counted = TraceCounts::new(trace);
    let mut text = format!("<h1>{}</h1>\n<table>\n", escape(name));
    for (what, value) in rows {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "<tr><th scope=\"row\">{}</th><td>{}</td></tr>", escape(what), escape(value));
    }
    text += "</table>\n";
    let pictures = [
        Some((pattern(trace), "Each dot is a request. Objects are numbered in the order of their first requests, so the upper edge consists of first requests, and a row is an object that was requested again.")),
        Some((popularity(&counted), "Requests for each object, the most popular first. A straight line is a Zipf distribution.")),
        found.object_size.as_ref().map(|sizes| (size(&counted, sizes), "The share of the objects up to each size.")),
        found.reuse_distance.is_some().then(|| (reuse(&counted), "The number of objects that were requested between two requests for the same object, itself included: an LRU cache must hold that many to serve the second one.")),
        Some((working_set(found), "Objects that were requested in each part of the trace, and those that were requested in it for the first time.")),
    ];
    for (plot, caption) in pictures.into_iter().flatten() {
        let _ = writeln!(text, "<figure>\n{}<figcaption>{caption}</figcaption>\n</figure>", plot.svg());
    }
    text
}

fn pattern(trace: &Trace) -> Plot {
    let dots = trace.ids().iter().enumerate().map(|(at, &id)| (at as f64, f64::from(id))).collect();
    let (x, y) = (Axis::linear("request", Unit::Count), Axis::linear("object", Unit::Count));
    Plot::new("Access pattern", x, y).dots("request", dots)
}

fn popularity(counted: &TraceCounts) -> Plot {
    let counts = ranked(&counted.requests);
    let points = spread(counts.len()).map(|at| ((at + 1) as f64, counts[at] as f64)).collect();
    let (x, y) = (Axis::log("rank of the object", Unit::Count), Axis::log("requests", Unit::Count));
    Plot::new("Accesses per object", x, y).line("object", points)
}

fn size(counted: &TraceCounts, sizes: &Percentiles) -> Plot {
    let mut sorted = counted.sizes.clone();
    sorted.sort_unstable();
    let share = |at: usize| (at + 1) as f64 / sorted.len() as f64;
    // A logarithmic axis cannot show an empty object.
    let points: Vec<_> = evenly(sorted.len()).map(|at| (sorted[at].max(1) as f64, share(at))).collect();
    let x = match sizes.max / sizes.min.max(1) {
        0..10 => Axis::linear("size", Unit::Bytes),
        _ => Axis::log("size", Unit::Bytes),
    };
    Plot::new("Object sizes", x, Axis::linear("share of the objects", Unit::Share)).steps("objects", &points)
}

fn reuse(counted: &TraceCounts) -> Plot {
    let mut bars = [0u64; 64];
    for &distance in counted.distances.iter().filter(|distance| **distance != FIRST) {
        bars[distance.max(1).ilog2() as usize] += 1;
    }
    let all = counted.distances.len() as f64;
    let last = bars.iter().rposition(|count| *count > 0).unwrap_or(0);
    let bar = |(power, count): (i32, &u64)| (2f64.powi(power), 2f64.powi(power + 1), *count as f64 / all);
    let bars = (0..).zip(&bars[..=last]).map(bar).collect();
    let x = Axis::log("reuse distance in objects", Unit::Count);
    Plot::new("Reuse distance", x, Axis::linear("share of the requests", Unit::Share)).bars("requests", bars)
}

fn working_set(found: &Description) -> Plot {
    let timed = found.seconds.is_some();
    let place = |at: usize| {
        let window = &found.working_set[at];
        window.seconds.unwrap_or(window.begin as f64)
    };
    let series = |value: fn(&super::Window) -> u64| {
        let windows = found.working_set.iter().enumerate();
        windows.map(|(at, window)| (place(at), value(window) as f64)).collect::<Vec<_>>()
    };
    let x = if timed { Axis::linear("seconds", Unit::Seconds) } else { Axis::linear("request", Unit::Count) };
    Plot::new("Working set over time", x, Axis::linear("objects", Unit::Count))
        .line("asked for", series(|window| window.objects))
        .line("new", series(|window| window.new_objects))
}

/// Returns some positions of a list of `length`, denser at its start, as on a logarithmic axis.
fn spread(length: usize) -> impl Iterator<Item = usize> {
    std::iter::successors(Some(0usize), |at| Some(at + 1 + at / 100)).take_while(move |at| *at < length)
}

/// Returns some positions of a list of `length`, including the last one.
fn evenly(length: usize) -> impl Iterator<Item = usize> {
    let step = (length / 1000).max(1);
    (0..length).rev().step_by(step).collect::<Vec<_>>().into_iter().rev()
}
