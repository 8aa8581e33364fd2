//! The policies to run, as users name them, and the list of all policies.

use std::sync::LazyLock;

use larder_evict::{By, Capacity, FILTERS, Listing, POLICIES, Spec};
use larder_lab::replay::Run;
use larder_lab::sweep::Plan;
use larder_lab::trace::{Builder, Record, Trace};

/// The size of a replay that fills the cache whose metadata is measured.
const REQUESTS: u64 = 60_000;
const OBJECTS: u64 = 20_000;
const RESIDENT: u64 = 5_000;

/// Parses the policies of `words`, each a list such as `lru,s3fifo:small=0.1,ghost=0.5`, or `all`. `filter` is put in
/// front of those that have none and can serve. The error is one line.
pub(super) fn parse(words: &[String], filter: Option<&str>) -> Result<Vec<Spec>, String> {
    let mut specs = Vec::new();
    for text in words.iter().flat_map(|words| split(words)) {
        let texts = match text.as_str() {
            "all" => POLICIES.iter().map(|policy| policy.name.to_owned()).collect(),
            _ => vec![text],
        };
        for text in texts {
            let spec = Spec::parse(&text).map_err(|error| error.to_string())?;
            let spec = match filter {
                Some(filter) if !text.contains('+') && !spec.listing().is_offline => {
                    Spec::parse(&format!("{filter}+{text}")).map_err(|error| error.to_string())?
                }
                _ => spec,
            };
            if !specs.contains(&spec) {
                specs.push(spec);
            }
        }
    }
    Ok(specs)
}

/// Leaves out the policies that need future requests, and prints their names. `why` is the reason why those cannot run; it
/// is the error if no policy remains.
pub(super) fn without_offline(mut plan: Plan, why: &str) -> Result<Plan, String> {
    let offline: Vec<_> = plan.specs.extract_if(.., |spec| spec.listing().is_offline).collect();
    let names = offline.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    if plan.specs.is_empty() {
        return Err(format!("{names}: {why}"));
    }
    if !offline.is_empty() {
        eprintln!("larder: {names}: left out; {why}");
    }
    Ok(plan)
}

/// Splits policies at commas. Commas also separate a policy's parameters: a part with an assignment before any colon
/// belongs to the policy in front of it.
fn split(words: &str) -> Vec<String> {
    let mut texts: Vec<String> = Vec::new();
    for part in words.split(',') {
        let assigns = part.find('=').is_some_and(|at| !part[..at].contains(':'));
        match texts.last_mut() {
            Some(last) if assigns => *last += &format!(",{part}"),
            _ => texts.push(part.to_owned()),
        }
    }
    texts
}

/// Lists every policy and filter, for people at a terminal.
pub(super) fn list() -> String {
    let mut page = "Policies\n".to_owned();
    POLICIES.iter().for_each(|policy| describe(&mut page, policy, metadata(policy.name)));
    page += "\nAdmission filters, put in front of a policy as FILTER+POLICY\n";
    FILTERS.iter().for_each(|filter| describe(&mut page, filter, filter_metadata(filter)));
    page
}

fn describe(page: &mut String, listing: &Listing, metadata: f64) {
    let Listing { name, about, source, cost, is_offline, params, defaults } = *listing;
    let offline = if is_offline { "; needs future requests" } else { "" };
    *page += &format!("  {name:<12} {about}\n");
    *page += &format!("  {:<12} {cost}, {metadata:.0} bytes an object{offline}\n", "");
    *page += &format!("  {:<12} {source}\n", "");
    for (param, default) in params.iter().zip(defaults()) {
        *page += &format!("  {:<12}   {}={default}  {}\n", "", param.name, param.about);
    }
}

/// Returns the bytes that a cache under the policy `spec` allocates for each object, if sizes differ.
pub(super) fn metadata(spec: &str) -> f64 {
    static TRACE: LazyLock<Trace> = LazyLock::new(skewed);
    let Ok(spec) = Spec::parse(spec) else { return 0.0 };
    let capacity = Capacity { by: By::Entries, amount: RESIDENT };
    let run = Run { trace: &TRACE, spec: &spec, capacity, warmup: 0, by_object: false, seed: 1 };
    run.go(&|_| true).map_or(0.0, |counts| counts.metadata_bytes_per_object)
}

/// Returns the bytes that `filter` adds: measured with LRU, whose own bytes do not depend on the objects admitted.
pub(super) fn filter_metadata(filter: &Listing) -> f64 {
    let plain = "lru";
    metadata(&format!("{}+{plain}", filter.name)) - metadata(plain)
}

/// Returns requests for objects of different sizes, some far more often than others.
fn skewed() -> Trace {
    let mut trace = Builder::default();
    let mut random = 1_u64;
    for time in 0..REQUESTS {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        // The product of two uniform random numbers has a skewed distribution.
        let (one, other) = ((random >> 48) & 0xFF, (random >> 32) & 0xFF);
        let key = (one * other * OBJECTS) >> 16;
        // A trace has room for far more requests.
        let _ = trace.push_number(Record { key, time, size: 1 + key % 1_000, cost: 0 });
    }
    trace.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commas_stand_between_policies_and_between_parameters() {
        let table: &[(&str, &[&str])] = &[
            ("lru", &["lru"]),
            ("lru,fifo", &["lru", "fifo"]),
            ("s3fifo:small=0.1,ghost=0.5,lru", &["s3fifo:small=0.1,ghost=0.5", "lru"]),
            ("a:b=1,c=2+d:e=3,f", &["a:b=1,c=2+d:e=3", "f"]),
            ("", &[""]),
        ];
        for (words, expected) in table {
            assert_eq!(split(words), *expected, "{words}");
        }
    }

    #[test]
    fn all_is_every_policy_once() {
        let specs = parse(&["all".into(), "lru".into()], None).expect("valid");
        let names: Vec<_> = specs.iter().map(Spec::name).collect();
        assert_eq!(names, POLICIES.iter().map(|policy| policy.name).collect::<Vec<_>>());
    }
}
