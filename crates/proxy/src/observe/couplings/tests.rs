//! Tests with histories whose couplings are known.

use proptest::prelude::*;

use super::*;

const SECOND: u64 = 1_000_000;

/// A history that a test writes step by step, and its clock.
#[derive(Default)]
struct Script {
    history: History,
    now: u64,
}

impl Script {
    fn wait(&mut self, micros: u64) {
        self.now += micros;
    }

    fn write(&mut self, segment: &str) {
        self.history.wrote((&"s".into(), segment), &Method::POST, self.now);
    }

    fn look(&mut self, segment: &str, url: u64, changed: bool) {
        self.history.looked((&"s".into(), segment), url, Observation::Changed(changed), self.now);
    }

    fn texts(&self) -> Vec<String> {
        self.history.found(|_| false).couplings.into_iter().map(|coupling| coupling.text).collect()
    }
}

/// Runs `rounds` rounds of two looks at /feeds, four seconds apart. Every other round has a write before its second
/// look. After it, `with` of a hundred looks find a change, otherwise `without`.
fn feeds(rounds: u64, with: u64, without: u64) -> Script {
    let mut script = Script::default();
    for round in 0..rounds {
        script.look("feeds", round, false);
        script.wait(2 * SECOND);
        let is_written = round % 2 == 0;
        if is_written {
            script.write("users");
        }
        script.wait(2 * SECOND);
        let share = if is_written { with } else { without };
        script.look("feeds", round, round / 2 % 100 < share);
    }
    script
}

#[test]
fn a_coupling_is_reported_as_a_sentence_and_a_config_line() {
    let script = feeds(680, 92, 3);
    let found = script.history.found(|_| false);
    let [coupling] = &found.couplings[..] else { panic!("{found:?}") };
    let text = "after POST /users, 93% of GETs under /feeds changed within 2 s (support 340, otherwise 4%)";
    assert_eq!((&*coupling.text, coupling.support, coupling.within), (text, 340, 2));
    let known = script.history.found(|coupling| coupling.written == "users");
    assert!(known.couplings[0].configured && known.config.is_empty(), "{known:?}");
    let line = "couple = { users = [\"feeds\"] }".to_owned();
    assert_eq!(found.config, [Proposal { site: "s".to_owned(), line }]);
    assert_eq!((found.looks, found.writes, found.left_out), (680, 340, 0));
}

#[test]
fn a_coupling_without_clear_evidence_is_not_reported() {
    let nothing: [String; 0] = [];
    // Too few looks; as many changes with as without the write; hardly more.
    for (rounds, with, without) in [(30, 100, 0), (2_000, 30, 30), (20_000, 35, 30)] {
        assert_eq!(feeds(rounds, with, without).texts(), nothing, "{rounds} {with} {without}");
    }
    assert_eq!(feeds(60, 100, 0).texts().len(), 1);
    // Many changes occur without the write, but nearly all looks after it find one.
    assert_eq!(feeds(2_000, 97, 60).texts().len(), 1);
}

#[test]
fn a_single_event_is_no_coupling() {
    let mut script = Script::default();
    for changed in [false, true] {
        for url in 0..500 {
            script.look("feeds", url, changed);
        }
        script.wait(SECOND);
        if !changed {
            script.write("users");
        }
        script.wait(SECOND);
    }
    for _ in 0..3 {
        for url in 0..500 {
            script.look("feeds", url, false);
        }
        script.wait(2 * SECOND);
    }
    assert_eq!(script.texts(), [""; 0]);
}

#[test]
fn changes_by_a_write_to_the_same_segment_suggest_no_coupling() {
    let mut script = Script::default();
    for round in 0..1_000 {
        script.look("feeds", round, false);
        script.wait(SECOND);
        // Each client that writes to one segment writes to the other as well.
        if round % 2 == 0 {
            script.write("users");
            script.write("feeds");
        }
        script.wait(SECOND);
        script.look("feeds", round, round % 2 == 0);
    }
    assert_eq!(script.texts(), [""; 0]);
}

#[test]
fn sites_and_kinds_of_looks_are_kept_apart() {
    let (one, other): (Arc<str>, Arc<str>) = ("one".into(), "other".into());
    let mut history = History::default();
    let mut now = 0;
    for round in 0..400_u64 {
        let (url, is_written) = (round, round % 2 == 0);
        history.looked((&one, "feeds"), url, Observation::Content(1), now);
        if is_written {
            history.wrote((&one, "users"), &Method::PUT, now + SECOND);
            history.wrote((&other, "paths"), &Method::PUT, now + SECOND);
        }
        // A change reported by the origin is not a look at the content.
        history.looked((&one, "feeds"), url, Observation::Changed(false), now + SECOND);
        now += 2 * SECOND;
        history.looked((&one, "feeds"), url, Observation::Content(if is_written { 2 } else { 1 }), now);
    }
    let texts: Vec<_> =
        history.found(|_| false).couplings.into_iter().map(|coupling| coupling.text).collect();
    assert_eq!(
        texts,
        ["after PUT /users, 100% of GETs under /feeds changed within 1 s (support 200, otherwise 0%)"]
    );
}

#[test]
fn room_has_an_end() {
    let mut history = History::default();
    let site: Arc<str> = "s".into();
    for number in 0..SEGMENTS as u64 + 10 {
        history.looked((&site, &number.to_string()), number, Observation::Changed(false), number);
    }
    history.wrote((&site, &"x".repeat(LONGEST_NAME + 1)), &Method::POST, 1);
    assert_eq!((history.segments.len(), history.places.len(), history.left_out), (SEGMENTS, PLACES, 11));
}

#[test]
fn names_are_quoted_where_toml_requires_it() {
    let coupling = |written: &str, read: &str| Coupling {
        site: "s".to_owned(),
        written: written.to_owned(),
        methods: Vec::new(),
        read: read.to_owned(),
        confidence: 1.0,
        otherwise: 0.0,
        support: 20,
        within: 1,
        deviations: 9.0,
        configured: written == "z",
        text: String::new(),
    };
    let all = [coupling("a b", "c\"d"), coupling("e", "g"), coupling("e", "f"), coupling("", "h")];
    assert_eq!(proposals(&[coupling("z", "f")]), []);
    let line = r#"couple = { "" = ["h"], "a b" = ["c\"d"], e = ["f", "g"] }"#;
    assert_eq!(proposals(&all), [Proposal { site: "s".to_owned(), line: line.to_owned() }]);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    /// Times between looks vary by a factor of a thousand. Longer times make both writes and changes more likely.
    #[test]
    fn changes_independent_of_writes_suggest_no_coupling(seed: u64, writes in 1..60_u64, changes in 1..60_u64) {
        let mut random = fastrand::Rng::with_seed(seed);
        let happens = |random: &mut fastrand::Rng, span: u64, mean: u64| {
            random.f64() < 1.0 - (-(span as f64) / (mean * SECOND) as f64).exp()
        };
        let mut script = Script::default();
        for url in 0..4_000 {
            script.look("feeds", url, false);
            let span = (SECOND / 50) << random.u32(0..10);
            let span = span + random.u64(0..span);
            let at = random.u64(1..span);
            script.wait(at);
            if happens(&mut random, span, writes) {
                script.write("users");
            }
            script.wait(span - at);
            let changed = happens(&mut random, span, changes);
            script.look("feeds", url, changed);
        }
        prop_assert_eq!(script.texts(), Vec::<String>::new());
    }

    /// The same with a cause: every write changes a tenth of the other responses.
    #[test]
    fn a_cause_is_found_among_it(seed: u64) {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut script = Script::default();
        for url in 0..4_000 {
            script.look("feeds", url, false);
            script.wait(SECOND + random.u64(0..30 * SECOND));
            let is_written = random.bool();
            if is_written {
                script.write("users");
            }
            script.wait(SECOND);
            let by_itself = random.u8(0..100) < 1;
            script.look("feeds", url, by_itself || (is_written && random.u8(0..10) == 0));
        }
        prop_assert_eq!(script.texts().len(), 1);
    }
}
