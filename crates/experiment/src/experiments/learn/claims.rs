//! Claims about refreshing ahead, and their verdicts.

use larder_lab::replay::ratio;

use super::{COURSES, LearnResult, Measurements, OriginModel, PLACES};
use crate::experiments::LARDER;
use crate::findings::{Finding, Ruling};
use crate::{Bound, ClaimKind, Samples};

/// The minimum reduction of the mean time by refreshing ahead.
const FASTER: f64 = 0.1;
/// The maximum increase of the requests to the origin.
const MORE: f64 = 0.15;
/// The minimum share of useful refreshes.
const OF_USE: f64 = 0.75;

const REQUESTS: ClaimKind = ClaimKind::DependsOn("the requests");
const PERCENT: (f64, &str) = (100.0, "%");

pub(super) fn claims(seen: &Measurements) -> Vec<Finding> {
    let [far, weak] = [false, true].map(|is_weak| {
        PLACES.into_iter().filter(|place| place.at_once.is_some() == is_weak).collect::<Vec<_>>()
    });
    let unpopular = "A response that is requested less than twice in its lifetime is not refreshed. Where requests are \
         spread over many URLs, most requests that wait are for such responses.";
    let popular = "The requested responses are requested in each of their lifetimes. So they are validated before they \
         expire, and clients do not wait.";
    let faster = |title: &str, places: &[OriginModel]| {
        let claim =
            format!("{title}: refreshing ahead takes at least {:.0}% off the mean time", FASTER * 100.0);
        let samples = samples(seen, places, |plain, ahead| saved(plain.mean_ms, ahead.mean_ms));
        Finding::sampled(claim, LARDER, REQUESTS, (samples, Bound::Above(FASTER)), PERCENT)
    };
    let mut claims = vec![
        faster("Far away", &far)
            .saying("By kind of requests, over all distances.")
            .because(&[Ruling::Holds, Ruling::Depends], popular)
            .because(&[Ruling::Depends, Ruling::Fails], unpopular),
        faster("Weak", &weak)
            .saying("By kind of requests. The origin makes two answers at once, 40 ms each.")
            .because(&[Ruling::Depends, Ruling::Fails], unpopular),
        Finding::sampled(
            "Refreshing ahead means that fewer requests wait for the origin",
            LARDER,
            REQUESTS,
            (samples(seen, &PLACES, |plain, ahead| Some(plain.waits - ahead.waits)), Bound::Above(0.0)),
            (100.0, "points of requests"),
        )
        .saying("By kind of requests, over all origins."),
        Finding::sampled(
            format!("Refreshing ahead adds at most {:.0}% to the requests to the origin", MORE * 100.0),
            LARDER,
            REQUESTS,
            (
                samples(seen, &PLACES, |plain, ahead| Some(-saved(plain.asked as f64, ahead.asked as f64)?)),
                Bound::Below(MORE),
            ),
            PERCENT,
        )
        .saying("By kind of requests, over all origins. A 304 counts as a request."),
        Finding::sampled(
            format!("At least {:.0}% of the refreshes are of use", OF_USE * 100.0),
            LARDER,
            REQUESTS,
            (samples(seen, &PLACES, |_, ahead| precision(ahead)), Bound::Above(OF_USE)),
            PERCENT,
        )
        .saying("A refresh is of use if the response is requested after it would have expired, and before it expires again."),
    ];
    claims.extend(fees(seen));
    claims
}

/// The claim about an origin that is paid for its answers, if the price table has one.
fn fees(seen: &Measurements) -> Option<Finding> {
    let (fees, _) = seen.paid()?;
    let more = |plain: &LearnResult, ahead: &LearnResult| Some(-saved(plain.fees(fees), ahead.fees(fees))?);
    let claim = format!("Paid: refreshing ahead adds at most {:.0}% to the fees of the origin", MORE * 100.0);
    let compared = (samples(seen, &PLACES, more), Bound::Below(MORE));
    let finding = Finding::sampled(claim, LARDER, REQUESTS, compared, PERCENT)
        .saying("By kind of requests, over all origins.");
    let cheap = "A refresh is a request without content, and most of the fees are for content.";
    Some(finding.because(&[Ruling::Holds], cheap))
}

/// Returns the results of `compare` for each pair of measurements, by kind of requests.
fn samples(
    seen: &Measurements,
    places: &[OriginModel],
    compare: impl Fn(&LearnResult, &LearnResult) -> Option<f64>,
) -> Samples {
    let mut samples = Samples::default();
    for (course, about) in COURSES {
        let pairs = places.iter().flat_map(|place| seen.beside(place.name, course, &compare));
        samples.add(about, pairs);
    }
    samples
}

/// Returns the share of `before` that `after` saves.
fn saved(before: f64, after: f64) -> Option<f64> {
    (before > 0.0).then(|| 1.0 - after / before)
}

/// Returns the share of measured refreshes that were useful; `None` if there are none.
pub(super) fn precision(ahead: &LearnResult) -> Option<f64> {
    let [_, measured, used] = ahead.refreshes;
    (measured > 0).then(|| ratio(used as f64, measured as f64))
}
