//! Random requests, purges and changes against a naive model of what `No-Vary-Search` allows. `LARDER_SEED` repeats a run.

use std::collections::BTreeMap;

use fastrand::Rng;
use larder_testkit::{Larder, Origin, seed};

/// The parts of the queries, with their names and values, decoded by hand.
const PARTS: [(&str, Option<(&str, &str)>); 14] = [
    ("a=1", Some(("a", "1"))),
    ("%61=1", Some(("a", "1"))),
    ("a=2", Some(("a", "2"))),
    ("a=+", Some(("a", " "))),
    ("a=%20", Some(("a", " "))),
    ("a=%2B", Some(("a", "+"))),
    ("b", Some(("b", ""))),
    ("b=", Some(("b", ""))),
    ("b=%C3%A9", Some(("b", "\u{e9}"))),
    ("b=%FF", Some(("b", "\u{fffd}"))),
    ("b=%EF%BF%BD", Some(("b", "\u{fffd}"))),
    ("utm=1", Some(("utm", "1"))),
    ("u%74m=2", Some(("utm", "2"))),
    ("", None),
];

/// The paths, and the value of the field in their responses.
const PATHS: [(&str, &str); 6] = [
    ("/plain", ""),
    ("/wrong", "params=(utm)"),
    ("/order", "key-order"),
    ("/params", "params=(\"utm\" \"b\")"),
    ("/except", "except=(\"a\")"),
    ("/both", "params=(\"utm\"), key-order"),
];

#[derive(Clone, Debug, PartialEq, Eq)]
struct Url {
    path: usize,
    /// Indices into [`PARTS`]; `None` for a URL without a question mark.
    query: Option<Vec<usize>>,
}

impl Url {
    fn random(rng: &mut Rng) -> Self {
        let part = |rng: &mut Rng| rng.usize(..PARTS.len());
        let query = (rng.usize(..6) > 0).then(|| (0..rng.usize(1..4)).map(|_| part(rng)).collect());
        Self { path: rng.usize(..PATHS.len()), query }
    }

    fn text(&self) -> String {
        let query = self.query.as_ref().map(|parts| parts.iter().map(|at| PARTS[*at].0).collect::<Vec<_>>());
        format!(
            "{}{}",
            PATHS[self.path].0,
            query.map_or_else(String::new, |parts| format!("?{}", parts.join("&")))
        )
    }

    /// Returns the class of equivalence of this URL: equal for two URLs that the path's field makes equivalent.
    fn class(&self, obeys: bool) -> (usize, String) {
        let pairs = self.query.iter().flatten().filter_map(|at| PARTS[*at].1);
        let mut pairs: Vec<_> = match self.path {
            _ if !obeys => return (self.path, self.text()),
            0 | 1 => return (self.path, self.text()),
            3 => pairs.filter(|(name, _)| !["utm", "b"].contains(name)).collect(),
            4 => pairs.filter(|(name, _)| *name == "a").collect(),
            5 => pairs.filter(|(name, _)| *name != "utm").collect(),
            _ => pairs.collect(),
        };
        if matches!(self.path, 2 | 5) {
            pairs.sort_by_key(|(name, _)| *name);
        }
        (self.path, format!("{pairs:?}"))
    }
}

fn origin() -> Origin {
    Origin::by(|seen| {
        let path = seen.target.split('?').next().unwrap_or_default();
        let field = PATHS.iter().find(|(known, _)| *known == path).map_or("", |(_, field)| field);
        let field = if field.is_empty() { String::new() } else { format!("\nNo-Vary-Search: {field}") };
        match seen.method.as_str() {
            "GET" => format!("200 OK\nCache-Control: max-age=1000{field}\n\n{} {}", seen.target, seen.number),
            _ => "204 No Content".to_owned(),
        }
    })
}

/// A deliberate defect of the run or of the model.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fault {
    None,
    /// No URL is purged.
    Purges,
    /// The model ignores the field.
    Field,
}

/// The limit of unnecessary fetches. The cache records removed classes as hashes in 32,768 slots: a class is wrongly
/// considered removed if two others share its slot. In a run with 80 changes, the chance of that is less than 80^3 / 6
/// / 2^30 < 10^-4. The chance of three in a run is less than 10^-12.
const FETCHED: usize = 2;

/// Runs `steps` random steps, and returns the disagreements of the cache and the model.
fn disagreements(seed: u64, steps: usize, fault: Fault) -> Vec<String> {
    let (origin, mut rng) = (origin(), Rng::with_seed(seed));
    let larder = Larder::before(&origin);
    // The stored content of each class.
    let mut stored: BTreeMap<_, String> = BTreeMap::new();
    let (mut wrong, mut hits, mut fetched) = (Vec::new(), 0, 0);
    for step in 0..steps {
        let url = Url::random(&mut rng);
        let (text, class) = (url.text(), url.class(fault != Fault::Field));
        match rng.usize(..10) {
            0 => {
                larder.ask(&format!("PUT {text}\n\nnew"));
                stored.remove(&class);
            }
            1 | 2 => {
                if fault != Fault::Purges {
                    let how = if rng.bool() { "&hard" } else { "" };
                    let shown = text.replace('%', "%25").replace('&', "%26").replace('+', "%2B");
                    let purge = format!("POST /purge?url=http://site.test{shown}{how}\nLarder-Admin: 1");
                    assert_eq!(larder.ask_admin(&purge).status, 200, "{purge}");
                }
                stored.remove(&class);
            }
            _ => {
                let count = origin.count();
                let answer = larder.get(&text);
                let expected = match stored.get(&class) {
                    Some(known) => known.clone(),
                    None => format!("{text} {count}"),
                };
                fetched += usize::from(origin.count() > count && stored.contains_key(&class));
                if origin.count() > count {
                    // The response is stored a moment after the client has received it.
                    larder.settle();
                }
                let is_new = origin.count() > count && answer.text() == format!("{text} {count}");
                if answer.text() != expected && !(is_new && fetched <= FETCHED) {
                    wrong.push(format!("step {step}: {text}: {:?} instead of {expected:?}", answer.text()));
                }
                hits += usize::from(answer.cache().starts_with("hit"));
                stored.insert(class, answer.text().to_owned());
            }
        }
    }
    println!("{hits} hits, {fetched} fetched again, {} disagreements in {steps} steps", wrong.len());
    wrong
}

#[test]
fn random_queries_get_what_the_model_says() {
    let seed = seed();
    let wrong = disagreements(seed, 800, Fault::None);
    assert!(wrong.is_empty(), "LARDER_SEED={seed}: {wrong:#?}");
}

/// Tests the model itself: it must detect each defect. Each of some hundred steps detects it with a chance of more than
/// one in ten.
#[test]
fn the_query_model_detects_missing_purges_and_an_ignored_no_vary_search() {
    let seed = seed();
    for fault in [Fault::Purges, Fault::Field] {
        assert!(!disagreements(seed, 400, fault).is_empty(), "LARDER_SEED={seed}");
    }
}
