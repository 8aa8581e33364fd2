//! Pictures of the datasets, of times and hit rates, and of hits and misses over time.

use larder_lab::plot::{Axis, Plot, Unit};

use super::{COURSES, NONE, POLICIES, RequestList};
use crate::Interval;
use crate::experiments::cell::{CellResult, curves, percents, those};
use crate::experiments::lists::{self, List};
use crate::findings::{Figure, Grid, MeanPlot, colour};

/// The distance between the two rows of dots for a miss, on an axis of shares.
const ROW: f64 = 0.005;

/// Returns pictures of the requests: the pattern, the popularity of URLs, and the sizes of the requested content.
pub(super) fn trace(asked: &RequestList) -> [Figure; 3] {
    let title = |what: &str| format!("Dataset {}: {what}", if asked.course == "one" { 1 } else { 2 });
    let named = |what: &str| format!("browsing-{}-{what}", asked.course);
    let pattern = title("access pattern");
    let mut data = Grid::new(&pattern, &["request", "URL"]);
    (0..).zip(&asked.order).for_each(|(at, url): (u32, _)| data.row([at.to_string(), url.to_string()]));
    let dots = (0..).zip(&asked.order).map(|(at, url)| (f64::from(at), f64::from(*url))).collect();
    let (x, y) = (Axis::linear("request", Unit::Count), Axis::linear("URL, as first seen", Unit::Count));
    let pattern = Figure {
        name: named("pattern"),
        plot: Plot::new(&pattern, x, y).dots("request", dots),
        caption: "Each dot is a request. A row is a URL with several requests; a cache must store it over the gaps. The upper \
         edge shows new URLs: where it is steep, a cache fills quickly."
            .to_owned(),
        data,
    };
    [
        pattern,
        popularity(&title("requests for each URL"), named("popularity"), asked),
        size(&title("sizes of requested pages"), named("sizes"), asked),
    ]
}

fn popularity(title: &str, name: String, asked: &RequestList) -> Figure {
    let mut counts = vec![0_u32; asked.sizes.len()];
    asked.order.iter().for_each(|&url| counts[url as usize] += 1);
    counts.sort_unstable_by(|a, b| b.cmp(a));
    let mut data = Grid::new(title, &["rank", "requests"]);
    (1..).zip(&counts).for_each(|(rank, count): (u32, _)| data.row([rank.to_string(), count.to_string()]));
    let bars = (1..)
        .zip(&counts)
        .map(|(rank, count)| (f64::from(rank) - 0.5, f64::from(rank) + 0.5, f64::from(*count)));
    let (x, y) = (Axis::linear("rank of the URL", Unit::Count), Axis::linear("requests", Unit::Count));
    let top =
        larder_lab::replay::ratio(counts.first().copied().unwrap_or(0).into(), asked.order.len() as f64);
    Figure {
        name,
        plot: Plot::new(title, x, y).bars("requests", bars.collect()),
        caption: format!("The most popular URL has {:.1}% of the requests.", top * 100.0),
        data,
    }
}

fn size(title: &str, name: String, asked: &RequestList) -> Figure {
    let mut sizes: Vec<u64> = asked.order.iter().map(|&url| asked.sizes[url as usize]).collect();
    sizes.sort_unstable();
    let share = |at: usize| (at + 1) as f64 / sizes.len() as f64;
    let points: Vec<_> = sizes.iter().enumerate().map(|(at, size)| (*size as f64, share(at))).collect();
    let mut data = Grid::new(title, &["bytes", "share of requests"]);
    points.iter().for_each(|(size, share)| data.row([size.to_string(), format!("{share:.4}")]));
    let small =
        larder_lab::replay::ratio(sizes.partition_point(|&size| size <= 20_480) as f64, sizes.len() as f64);
    let (x, y) = (Axis::log("page size", Unit::Bytes), Axis::linear("share of requests", Unit::Share));
    Figure {
        name,
        plot: Plot::new(title, x, y).steps("requests", &points),
        caption: format!("{:.0}% of the requests are for pages of at most 20 KiB.", small * 100.0),
        data,
    }
}

/// Returns the pictures of total time and hit rate against cache size.
pub(super) fn sizes(cells: &[CellResult]) -> Vec<Figure> {
    let mut figures = Vec::new();
    for (course, title) in COURSES {
        let all = those(cells, |cell| cell.course == course);
        let cached: Vec<_> = all.iter().filter(|measured| measured.cell.policy != NONE).copied().collect();
        if cached.is_empty() {
            continue;
        }
        let none: Vec<_> =
            all.iter().filter(|measured| measured.cell.policy == NONE).map(|one| one.seconds).collect();
        let none = Interval::of(&none);
        let mut time = curves(
            (&format!("browsing-{course}-time"), &format!("{title}: total time")),
            &cached,
            &POLICIES,
            (Axis::linear("total time in s", Unit::Seconds), 3),
            |measured| measured.seconds,
            String::new(),
        );
        if let Some(none) = none {
            let sizes = percents(&cached);
            let at = |percent: Option<&u32>| f64::from(percent.copied().unwrap_or(0)) / 100.0;
            let (least, most) = (at(sizes.first()), at(sizes.last()));
            time.plot = time.plot.member((7, 1), "no cache", vec![(least, none.mean), (most, none.mean)]);
            time.data.row([
                NONE.to_owned(),
                "0".to_owned(),
                format!("{:.3}", none.mean),
                none.margin_cell(3),
                none.count.to_string(),
            ]);
            time.caption =
                format!("All requests, one after the other. Without a cache, they take {:.2} s.", none.mean);
        }
        figures.push(time);
        figures.push(curves(
            (&format!("browsing-{course}-hits"), &format!("{title}: hit rate")),
            &cached,
            &POLICIES,
            (Axis::linear("hit rate", Unit::Share), 4),
            |measured| measured.hit_ratio,
            "Hits over requests.".to_owned(),
        ));
    }
    figures
}

/// Returns the pictures of LRU's lead over each other policy, against cache size, from simulation.
pub(super) fn leads(all: &[List]) -> Vec<Figure> {
    let lead = |(course, title): (&str, &str)| {
        let of = lists::those(all, course, 0);
        let title = format!("{title}: lead of LRU in hits, simulated");
        let x = Axis::linear("cache size, of all URLs", Unit::Share);
        let y = Axis::linear("hit ratio of LRU minus that of the policy", Unit::Share);
        let mut picture = MeanPlot::new(&title, (x, y), &["policy", "cache size in %"], ("lists", 4));
        for policy in POLICIES.into_iter().filter(|policy| *policy != "lru") {
            let at = |percent: u32| {
                let lead = |list: &&List| {
                    Some(list.run("lru", percent)?.hit_ratio - list.run(policy, percent)?.hit_ratio)
                };
                let values: Vec<f64> = of.iter().filter_map(lead).collect();
                let labels = vec![policy.to_owned(), percent.to_string()];
                Some((labels, f64::from(percent) / 100.0, Interval::of(&values)?))
            };
            picture = picture.line(
                Some((colour(policy), 0)),
                policy,
                lists::percents(&of).into_iter().filter_map(at),
            );
        }
        let caption = "Above 0, LRU has more hits than the policy.".to_owned();
        (!of.is_empty()).then(|| picture.figure(&format!("browsing-{course}-leads"), caption))
    };
    COURSES.into_iter().filter_map(lead).collect()
}

/// Returns the pictures of the times of misses, by policy and size, in the first repetition.
pub(super) fn timelines(cells: &[CellResult]) -> Vec<Figure> {
    let mut figures = Vec::new();
    for (course, title) in COURSES {
        for policy in POLICIES {
            let of = those(cells, |cell| {
                (cell.course.as_str(), cell.policy.as_str(), cell.repetition) == (course, policy, 0)
            });
            if !of.is_empty() {
                figures.push(timeline(
                    &format!("browsing-{course}-{policy}-timeline"),
                    &format!("{title}, {policy}: misses over time"),
                    &of,
                ));
            }
        }
    }
    figures
}

fn timeline(name: &str, title: &str, cells: &[&CellResult]) -> Figure {
    let mut data = Grid::new(
        title,
        &["cache size in %", "room for URLs", "first request to a full cache", "h: hit, m: miss"],
    );
    let (mut misses, mut line) = (Vec::new(), Vec::new());
    for measured in cells {
        let height = f64::from(measured.cell.percent) / 100.0;
        let at =
            measured.outcomes.char_indices().filter(|(_, outcome)| *outcome == 'm').map(|(at, _)| at as f64);
        misses.extend(at.flat_map(|at| [(at, height), (at, height + ROW)]));
        let full = first_beyond(measured);
        line.extend(full.map(|at| (at as f64, height)));
        let full = full.map_or_else(|| "never".to_owned(), |at| at.to_string());
        data.row([
            measured.cell.percent.to_string(),
            measured.capacity.to_string(),
            full,
            measured.outcomes.clone(),
        ]);
    }
    line.sort_by(|a, b| a.1.total_cmp(&b.1));
    let (x, y) = (Axis::linear("request", Unit::Count), Axis::linear("cache size, of all URLs", Unit::Share));
    let caption = "Each dot is a miss; the gaps are hits. The line connects the first requests to a full cache (the initial \
     cache miss line). Left of it, all misses are first requests for a URL.";
    let plot = Plot::new(title, x, y).dots("miss", misses).line("cache is full", line);
    Figure { name: name.to_owned(), plot, caption: caption.to_owned(), data }
}

/// Returns the first miss that caused an eviction: earlier misses filled an empty place.
fn first_beyond(measured: &CellResult) -> Option<usize> {
    let misses = measured.outcomes.char_indices().filter(|(_, outcome)| *outcome == 'm');
    misses.map(|(at, _)| at).nth(measured.capacity as usize)
}
