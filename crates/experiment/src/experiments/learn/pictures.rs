//! Pictures and the table of refreshing ahead.

use larder_lab::plot::{Axis, Plot, Unit};

use super::claims::precision;
use super::{COURSES, LearnResult, Measurements, PLACES, WAYS};
use crate::Interval;
use crate::findings::{Column, Figure, Grid};

/// Returns a picture of mean time against distance for each kind of requests.
pub(super) fn pictures(seen: &Measurements) -> Vec<Figure> {
    COURSES.iter().filter_map(|(course, about)| distances(seen, course, about)).collect()
}

fn distances(seen: &Measurements, course: &str, about: &str) -> Option<Figure> {
    let title = format!("Mean time against distance: {about}");
    let (x, y) =
        (Axis::linear("round trip in ms", Unit::Number), Axis::linear("mean time in ms", Unit::Number));
    let mut plot = Plot::new(&title, x, y);
    let mut data = Grid::new(&title, &["way", "ms away", "mean ms", "margin (95%)", "lists"]);
    for (way, _, said) in WAYS {
        let far = PLACES.iter().filter(|place| place.at_once.is_none());
        let point = |place: &super::OriginModel| {
            let values: Vec<_> = seen.of(place.name, course, way).map(|one| one.mean_ms).collect();
            Some((place.away_ms, Interval::of(&values)?))
        };
        let points: Vec<_> = far.filter_map(point).collect();
        for (away, interval) in &points {
            data.row([
                said.to_owned(),
                away.to_string(),
                format!("{:.2}", interval.mean),
                interval.margin_cell(2),
                interval.count.to_string(),
            ]);
        }
        plot = plot.line(said, points.iter().map(|(away, interval)| (*away as f64, interval.mean)).collect());
    }
    let caption =
        "Requests of the lower line wait less for the origin. The first request for a URL always waits."
            .to_owned();
    let is_measured = !data.rows.is_empty();
    is_measured.then(|| Figure { name: format!("learn-{course}-time"), plot, caption, data })
}

/// Returns a table of all means.
pub(super) fn table<'a>(seen: &'a Measurements) -> Grid {
    /// The origin, the requests, the way, and the measurements.
    type Row<'a> = (&'static str, &'static str, &'static str, Vec<&'a LearnResult>);
    let paid = seen.paid();
    let fees = format!("fees in {} for a million requests", paid.map_or("USD", |(_, currency)| currency));
    let mean = |(.., of): &Row<'_>, value: &dyn Fn(&LearnResult) -> Option<f64>, decimals: usize| {
        Interval::mean_cell(of.iter().filter_map(|one| value(one)), decimals)
    };
    let in_100 = |part: u64, one: &LearnResult| Some(100.0 * part as f64 / one.requests as f64);
    let kib = |one: &LearnResult| Some(one.origin_bytes as f64 / 1024.0 / one.requests as f64);
    let columns: [Column<'_, Row<'a>>; 12] = [
        ("origin", &|(place, ..)| (*place).to_owned()),
        ("requests", &|(_, about, ..)| (*about).to_owned()),
        ("way", &|(_, _, way, _)| (*way).to_owned()),
        ("mean ms", &|row| mean(row, &|one| Some(one.mean_ms), 2)),
        ("p90 ms", &|row| mean(row, &|one| Some(one.p90_ms), 2)),
        ("p99 ms", &|row| mean(row, &|one| Some(one.p99_ms), 2)),
        ("waits in 100", &|row| mean(row, &|one| Some(one.waits * 100.0), 2)),
        ("origin requests in 100", &|row| mean(row, &|one| in_100(one.asked, one), 2)),
        ("origin KiB for a request", &|row| mean(row, &kib, 2)),
        ("refreshes", &|row| mean(row, &|one| Some(one.refreshes[0] as f64), 0)),
        ("of use in 100", &|row| mean(row, &|one| Some(precision(one)? * 100.0), 1)),
        (&fees, &|row| mean(row, &|one| Some(one.fees(paid?.0)), 3)),
    ];
    let mut rows: Vec<Row<'a>> = Vec::new();
    for place in PLACES {
        for (course, about) in COURSES {
            for (way, _, said) in WAYS {
                rows.push((place.about, about, said, seen.of(place.name, course, way).collect()));
            }
        }
    }
    rows.retain(|(.., of)| !of.is_empty());
    Grid::of("Refreshing ahead: means over the repetitions", &columns, rows)
}
