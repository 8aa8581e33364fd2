//! Rules that hold at times of day and on dates.

use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use larder_testkit::{Larder, Origin, site};

use super::with_rules;

const HOUR: i64 = 3_600;

/// Starts a proxy whose clock shows this time of day, in UTC.
fn at(hours: i64, origin: &Origin, rules: &str) -> Larder {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("a clock").as_secs();
    let skew = hours * HOUR - i64::try_from(now % 86_400).expect("a time of day");
    Larder::start_in(&site(&[origin], rules), &[("LARDER_CLOCK_SKEW", Path::new(&skew.to_string()))])
}

#[test]
fn a_rule_holds_at_its_time_of_day_in_its_zone() {
    let origin = Origin::always("200 OK\n\nx");
    let rules = "[[site.rule]]\nmatch = { path = '/night', time = '22:00-06:00' }\nrespond = 404\n\
                 [[site.rule]]\nmatch = { path = '/office', time = ['9:00-12:00', '13:00-17:00'], zone = '+05:00' }\nrespond = 404\n";
    for (hour, night, office) in [(3, 404, 200), (5, 404, 404), (7, 200, 200), (11, 200, 404), (23, 404, 200)]
    {
        let larder = at(hour, &origin, rules);
        assert_eq!((larder.get("/night").status, larder.get("/office").status), (night, office), "{hour}");
    }
}

#[test]
fn a_rule_holds_between_its_dates() {
    let origin = Origin::always("200 OK\n\nx");
    let rule = |path: &str, dates: &str| {
        format!("[[site.rule]]\nmatch = {{ path = '{path}', {dates} }}\nrespond = 404\n")
    };
    let rules = rule("/began", "from = 2020-01-01")
        + &rule("/later", "from = '9000-01-01T12:00'")
        + &rule("/over", "until = '2020-01-01'")
        + &rule("/now", "from = '2020-01-01', until = '9000-01-01', zone = 'Europe/Berlin'")
        + &rule("/not", "not = { until = '9000-01-01' }");
    let larder = with_rules(&origin, &rules);
    for (path, status) in [("/began", 404), ("/later", 200), ("/over", 200), ("/now", 404), ("/not", 200)] {
        assert_eq!(larder.get(path).status, status, "{path}");
    }
}
