//! What a config and flags make of the settings.

use larder_evict::{By, Capacity};
use larder_proxy::settings::{Counts, HostHeader};

use super::super::summary;
use super::{problems, settings};

#[test]
fn flags_override_the_file() {
    let text = "threads = 2\nadmin = '127.0.0.1:9000'\naccess_log = 'json'\n[memory]\nentries = 10\n[[site]]\norigin = 'http://a'";
    let words = [
        "--threads",
        "3",
        "--admin",
        "off",
        "--access-log",
        "off",
        "--memory",
        "2MiB",
        "--policy",
        "fifo",
        "--stats",
        "none",
    ];
    let origins =
        ["--origin", "http://b", "--origin", "https://c", "--listen", "127.0.0.1:81", "--allow-private"];
    let settings = settings(text, &[words.as_slice(), &origins].concat());
    let expected = [
        ("listen", "127.0.0.1:81 (reverse)"),
        ("admin", "off"),
        ("threads", "3"),
        ("memory", "2MiB, fifo"),
        ("stats", "none"),
        ("site", "default: every host from http://b, https://c"),
    ];
    assert_eq!(summary(&settings), expected.map(|(what, value)| (what, value.to_owned())));
    assert!(settings.forward.allow_private);
}

#[test]
fn a_tls_origin_named_by_a_flag_gets_its_own_host_name() {
    for (origin, host) in [("http://a", HostHeader::Preserve), ("https://a", HostHeader::Origin)] {
        assert_eq!(settings("", &["--origin", origin]).sites[0].host, host, "{origin}");
    }
}

#[test]
fn a_size_counts_all_or_content() {
    let of = |text: &str| {
        let settings = settings(text, &[]);
        let memory = summary(&settings).into_iter().find(|(name, _)| *name == "memory").expect("a row").1;
        (settings.memory.counts, memory)
    };
    let row = |counts, text: &str| (counts, text.to_owned());
    assert_eq!(of("[memory]\nsize = '1MiB'"), row(Counts::All, "1MiB, adaptive"));
    let content = "[memory]\nsize = '10KiB'\ncount = 'content'\npolicy = 'maxs'";
    assert_eq!(of(content), row(Counts::Content, "10KiB of content, maxs"));
    let entries = "[memory]\nentries = 10\ncount = 'content'\npolicy = 'maxs'";
    assert_eq!(of(entries), row(Counts::Content, "10 entries by content, maxs"));
    let flags = ["--count", "content", "--memory", "1MiB"];
    assert_eq!(settings("", &flags).memory.counts, Counts::Content);
    assert_eq!(settings("[memory]\ncount = 'content'", &["--count", "all"]).memory.counts, Counts::All);
}

#[test]
fn policies_by_money_take_the_fee_of_the_prices() {
    let of = |policy: &str| {
        let text = format!(
            "[cost]\nper_gb = 0.1\nper_million = 1.0\n[memory]\npolicy = '{policy}'\n[[disk]]\npath = 'd'\nsize = '1GiB'\npolicy = '{policy}'"
        );
        let settings = settings(&text, &[]);
        [settings.memory.policy.to_string(), settings.disks[0].policy.to_string()]
    };
    for (policy, expected) in [
        ("gdsf:cost=money", "gdsf:cost=money,fee=10000"),
        ("gds:cost=money", "gds:cost=money,fee=10000"),
        ("gds:cost=money,fee=7", "gds:cost=money,fee=7"),
        ("gdsf:fee=4444,cost=money", "gdsf:cost=money,fee=4444"),
        ("gdsf:cost=money,fee=auto", "gdsf:cost=money,fee=10000"),
        ("gdsf", "gdsf"),
    ] {
        assert_eq!(of(policy), [expected; 2]);
    }
}

#[test]
fn entries_override_a_size() {
    let settings = settings("[memory]\nsize = '1GiB'", &["--entries", "7"]);
    assert_eq!(settings.memory.capacity, Capacity { by: By::Entries, amount: 7 });
}

#[test]
fn flags_that_disagree_are_named() {
    let listen = ["--listen", "127.0.0.1:81"];
    assert_eq!(
        problems("", &listen),
        ["--listen: reverse.listen needs an origin: add a [[site]], or --origin URL"]
    );
    let admin = ["--admin", "127.0.0.1:3128"];
    assert_eq!(
        problems("", &admin),
        ["--admin: admin 127.0.0.1:3128 and forward.listen 127.0.0.1:3128 cannot both listen"]
    );
}

#[test]
fn listeners_follow_what_there_is_to_serve() {
    let listen = |words: &[&str]| summary(&settings("", words))[0].1.clone();
    assert_eq!(listen(&[]), "127.0.0.1:3128 (forward)");
    assert_eq!(listen(&["--origin", "http://a"]), "127.0.0.1:8080 (reverse)");
    let both = ["--origin", "http://a", "--forward", "127.0.0.1:0"];
    assert_eq!(listen(&both), "127.0.0.1:8080 (reverse), 127.0.0.1:0 (forward)");
}

#[test]
fn hits_are_validated_if_a_sample_is_set() {
    let row = |text| summary(&settings(text, &["--stats", "none"])).pop();
    assert_ne!(row("[validate]\nrate = 5").map(|(name, _)| name), Some("validate"));
    let shown = "sample 25%, at most 5 a second".to_owned();
    assert_eq!(row("[validate]\nsample = '25%'\nrate = 5"), Some(("validate", shown)));
    let wrong = ["2: validate.sample: '2.0' is not a share from 0% to 100%"];
    assert_eq!(problems("[validate]\nsample = 2.0", &[]), wrong);
}

#[test]
fn a_collector_gets_traces_and_if_wanted_metrics() {
    let text = "[trace]\nendpoint = 'http://collector:4318/'\nsample = 0.25\nmetrics = '1m'";
    let shown = summary(&settings(text, &["--stats", "none"])).pop();
    assert_eq!(shown, Some(("trace", "http://collector:4318, sample 25%, metrics every 1m".to_owned())));
    let wrong = "[trace]\nendpoint = 'collector:4318'\nsample = 1.5";
    let expected = [
        "2: trace.endpoint: 'collector:4318' is not a collector such as 'http://127.0.0.1:4318'; also valid: \"off\"",
        "3: trace.sample: '1.5' is not a share from 0% to 100%",
    ];
    assert_eq!(problems(wrong, &[]), expected);
}
