//! The results of checked hits, by site and first path segment. Independent of sockets and clocks.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::base::findings::{Lifetime, Percentiles, Route, Verdicts};

/// Maximum of routes; all further ones share one.
const ROUTES: usize = 256;
/// The name of the shared route.
const ANY: &str = "*";
/// Maximum of bytes of a route's name.
const LONGEST_NAME: usize = 64;
/// Minimum of checked hits for a suggested lifetime.
const ENOUGH: u64 = 100;
/// A lifetime is suggested if fewer than one in this number of hits would be stale.
const OF: u64 = 100;
/// Bounds of ages in seconds: usual values of lifetimes.
const AGES: [u32; 21] = [
    0,
    1,
    2,
    5,
    10,
    20,
    30,
    60,
    120,
    300,
    600,
    1_200,
    1_800,
    3_600,
    7_200,
    14_400,
    28_800,
    86_400,
    172_800,
    604_800,
    u32::MAX,
];

/// The result of a checked hit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The origin's response was the same.
    Ok,
    /// The origin's response was different, for at most this number of seconds.
    Stale(u32),
    /// The response at the origin changed after the hit, and the cache has the new one as well.
    ChangedMeanwhile,
    /// The origin's response differs on every request.
    Unstable,
}

/// Hits with an age up to one of [`AGES`], and above the previous one.
#[derive(Clone, Copy, Debug, Default)]
struct Bin {
    checked: u64,
    stale: u64,
}

/// The results of the hits of one route.
#[derive(Debug, Default)]
struct Account {
    verdicts: Verdicts,
    /// Hits that were fresh, or served as fresh, by age.
    ages: [Bin; AGES.len()],
    /// Stale hits by staleness.
    staleness: [u64; AGES.len()],
    stalest: u32,
}

impl Account {
    fn count(&mut self, verdict: Option<Verdict>, age: u32) {
        let verdicts = &mut self.verdicts;
        verdicts.checked += 1;
        let counter = match verdict {
            None => &mut verdicts.failed,
            Some(Verdict::Ok) => &mut verdicts.ok,
            Some(Verdict::Stale(_)) => &mut verdicts.stale,
            Some(Verdict::ChangedMeanwhile) => &mut verdicts.changed_meanwhile,
            Some(Verdict::Unstable) => &mut verdicts.unstable,
        };
        *counter += 1;
        if let Some(Verdict::Stale(seconds)) = verdict {
            self.staleness[bin(seconds)] += 1;
            self.stalest = self.stalest.max(seconds);
        }
        // A response that differs on every request has no lifetime.
        if !matches!(verdict, None | Some(Verdict::Unstable)) {
            let bin = &mut self.ages[bin(age)];
            bin.checked += 1;
            bin.stale += u64::from(matches!(verdict, Some(Verdict::Stale(_))));
        }
    }

    fn percentiles(&self) -> Option<Percentiles> {
        let all: u64 = self.staleness.iter().sum();
        let within = |percent: u64| {
            let mut sum = 0;
            let reached = self.staleness.iter().position(|count| {
                sum += count;
                sum * 100 >= all * percent
            });
            AGES[reached.unwrap_or(AGES.len() - 1)].min(self.stalest)
        };
        (all > 0).then(|| Percentiles {
            p50: within(50),
            p90: within(90),
            p99: within(99),
            max: self.stalest,
        })
    }

    /// Returns the greatest age up to which fewer than one in [`OF`] hits were stale; `None` if there were too few
    /// hits.
    fn lifetime(&self) -> Option<Lifetime> {
        let oldest = self.ages.iter().rposition(|bin| bin.checked > 0)?;
        let (mut sum, mut longest) = (Bin::default(), None);
        for (at, bin) in self.ages[..=oldest].iter().enumerate() {
            sum.checked += bin.checked;
            sum.stale += bin.stale;
            if sum.checked >= ENOUGH && sum.stale * OF < sum.checked {
                longest = Some(at);
            }
        }
        // Responses that are revalidated on each hit do not show possible longer lifetimes.
        let is_known = sum.checked >= ENOUGH && oldest > 0;
        let at = longest.unwrap_or(0);
        is_known.then(|| Lifetime { seconds: AGES[at], at_least: at == oldest })
    }
}

fn bin(seconds: u32) -> usize {
    AGES.partition_point(|bound| *bound < seconds)
}

/// The results of the hits of all routes.
#[derive(Debug, Default)]
pub(crate) struct Record(Mutex<BTreeMap<(Arc<str>, String), Account>>);

impl Record {
    /// Counts the result of a checked hit of `age` seconds; `None`: the check failed.
    pub(crate) fn count(&self, (site, route): (&Arc<str>, &str), age: u32, verdict: Option<Verdict>) {
        let mut routes = self.0.lock();
        let has_room = routes.len() < ROUTES && route.len() <= LONGEST_NAME;
        let mut key = (Arc::clone(site), route.to_owned());
        if !has_room && !routes.contains_key(&key) {
            ANY.clone_into(&mut key.1);
        }
        routes.entry(key).or_default().count(verdict, age);
    }

    /// Returns the results, the routes with the most stale hits first.
    pub(crate) fn report(&self) -> (Verdicts, Vec<Route>) {
        let routes = self.0.lock();
        let report = |((site, route), account): (&(Arc<str>, String), &Account)| Route {
            site: site.to_string(),
            route: route.clone(),
            verdicts: account.verdicts,
            staleness: account.percentiles(),
            lifetime: account.lifetime(),
        };
        let mut routes: Vec<_> = routes.iter().map(report).collect();
        routes.sort_by_key(|route| {
            (std::cmp::Reverse(route.verdicts.stale), std::cmp::Reverse(route.verdicts.checked))
        });
        (routes.iter().fold(Verdicts::default(), |sum, route| sum.and(&route.verdicts)), routes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Counts `hits` hits for each of these ages; `stale` selects the stale ones.
    fn account(ages: std::ops::RangeInclusive<u32>, hits: u32, stale: impl Fn(u32, u32) -> bool) -> Account {
        let mut account = Account::default();
        for age in ages {
            for hit in 0..hits {
                let verdict = if stale(age, hit) { Verdict::Stale(age) } else { Verdict::Ok };
                account.count(Some(verdict), age);
            }
        }
        account
    }

    #[test]
    fn a_lifetime_is_the_longest_that_was_seen_to_do() {
        let lifetime = |seconds, at_least| Some(Lifetime { seconds, at_least });
        // No stale hits: the greatest observed age is suitable, and perhaps a greater one.
        assert_eq!(account(1..=300, 10, |_, _| false).lifetime(), lifetime(300, true));
        // All stale from 61 seconds on: up to 60 no hit was stale, up to 120 half of them were.
        assert_eq!(account(1..=600, 10, |age, _| age > 60).lifetime(), lifetime(60, false));
        // One in fifty is stale at any age: less than a second.
        assert_eq!(account(1..=600, 100, |_, hit| hit % 50 == 0).lifetime(), lifetime(0, false));
        assert_eq!(account(1..=600, 1_000, |_, hit| hit % 500 == 0).lifetime(), lifetime(600, true));
        // Too few hits; and hits that were revalidated each time.
        assert_eq!(account(1..=99, 1, |_, _| false).lifetime(), None);
        assert_eq!(account(0..=0, 1_000, |_, _| false).lifetime(), None);
    }

    #[test]
    fn staleness_is_told_by_percentiles() {
        assert_eq!(account(1..=10, 10, |_, _| false).percentiles(), None);
        let expected = Percentiles { p50: 60, p90: 100, p99: 100, max: 100 };
        assert_eq!(account(1..=100, 1, |_, _| true).percentiles(), Some(expected));
    }

    #[test]
    fn every_check_is_counted_once_and_room_has_an_end() {
        let (record, site) = (Record::default(), Arc::from("s"));
        let all = [
            None,
            Some(Verdict::Ok),
            Some(Verdict::Stale(3)),
            Some(Verdict::ChangedMeanwhile),
            Some(Verdict::Unstable),
        ];
        for (number, verdict) in all.iter().cycle().take(5 * ROUTES).enumerate() {
            record.count((&site, &number.to_string()), 1, *verdict);
        }
        record.count((&site, &"x".repeat(LONGEST_NAME + 1)), 1, Some(Verdict::Stale(9)));
        let (verdicts, routes) = record.report();
        let n = ROUTES as u64;
        let expected = Verdicts {
            checked: 5 * n + 1,
            ok: n,
            stale: n + 1,
            changed_meanwhile: n,
            unstable: n,
            failed: n,
        };
        assert_eq!(verdicts, expected);
        assert_eq!((routes.len(), &*routes[0].route), (ROUTES + 1, ANY));
        assert_eq!(routes[0].verdicts.checked, 4 * n + 1);
    }
}
