//! `larder advise`: the table of a running proxy.

use std::time::Duration;

use larder_testkit::{Answer, Larder, Origin, eventually, site};
use serde_json::Value;

use super::{command, json, printed};

/// Returns the cell of a policy, at the running size times `factor`.
fn cell<'r>(report: &'r Value, policy: &str, factor: f64) -> &'r Value {
    let cells = report["cells"].as_array().expect("cells");
    let running = cells.iter().find(|cell| cell["current"] == true).expect("a running configuration");
    let size = running["size"].as_f64().expect("a size") * factor;
    let is_it = |cell: &&Value| cell["policy"] == policy && cell["size"].as_f64() == Some(size);
    cells.iter().find(is_it).unwrap_or_else(|| panic!("no {policy} at {size} in {report}"))
}

/// Requests the pages from 0 up to `pages` in this order, `times` times.
fn walk(larder: &Larder, pages: usize, times: usize) {
    for _ in 0..times {
        (0..pages).for_each(|page| _ = larder.get(&format!("/{page}")));
    }
}

#[test]
fn a_loop_that_needs_twice_the_memory_is_predicted() {
    let origin = Origin::always("200 OK\nCache-Control: max-age=60\n\npage");
    let larder = Larder::with(&origin, "[memory]\nentries = 20\npolicy = 'lru'\n");
    walk(&larder, 30, 3);
    let report = json(&larder, &["advise", "--json"]);
    assert_eq!(report["window"]["requests"], 90);
    assert_eq!((&report["check"]["predicted"], &report["check"]["measured"]), (&0.0.into(), &0.0.into()));
    let ratio = |factor| cell(&report, "lru", factor)["hit_ratio"].as_f64().expect("a ratio");
    assert_eq!(ratio(1.0), 0.0);
    assert!((ratio(2.0) - 2.0 / 3.0).abs() < 1e-9, "{report}");
    let running = cell(&report, "lru", 1.0);
    assert_eq!(
        (&running["current"], &running["tier"], &running["size"]),
        (&true.into(), &"memory".into(), &20.into())
    );
    for name in ["hit_ratio", "hit_ratio_error", "byte_hit_ratio", "byte_hit_ratio_error"] {
        assert!(running[name].is_f64(), "{name} in {running}");
    }
    assert!(report["window"]["seconds"].is_u64(), "{report}");
    assert_eq!(report["cells"].as_array().map(Vec::len), Some(35));
    let table = printed(&larder, &["advise"]);
    assert!(table.contains("memory of 20 entries under lru: predicted 0.0%, measured 0.0%"), "{table}");
    let metrics = larder.ask_admin("GET /metrics").text().to_owned();
    let figure =
        |name: &str| metrics.lines().find_map(|line| line.strip_prefix(name)?.trim().parse::<f64>().ok());
    let twice = "larder_advise_hit_ratio{tier=\"memory\",policy=\"lru\",size=\"40\"}";
    assert!(figure(twice).is_some_and(|ratio| (ratio - 2.0 / 3.0).abs() < 1e-9), "{metrics}");
    assert_eq!(figure("larder_advise_difference"), Some(0.0));
    assert!(figure("larder_advise_bytes").is_some_and(|bytes| 0.0 < bytes && bytes < 16e6), "{metrics}");
}

#[test]
fn a_purge_and_a_lifetime_reach_the_shadows() {
    let origin = Origin::always("200 OK\nCache-Control: max-age=2\nCache-Tag: all\n\npage");
    let larder = Larder::with(&origin, "[memory]\nentries = 20\npolicy = 'lru'\n");
    walk(&larder, 5, 2);
    // The shadows see the requests before the purge.
    printed(&larder, &["advise"]);
    printed(&larder, &["purge", "--all"]);
    walk(&larder, 5, 1);
    std::thread::sleep(Duration::from_millis(3_100));
    walk(&larder, 5, 1);
    let report = json(&larder, &["advise", "--json"]);
    let check = &report["check"];
    let [four_times, predicted, measured] =
        [&cell(&report, "lru", 4.0)["hit_ratio"], &check["predicted"], &check["measured"]]
            .map(|ratio| ratio.as_f64().expect("a ratio"));
    // Two of the 20 requests may be at the end of a lifetime. Without the purge or the lifetime, 15 would be hits.
    let is_near = |ratio: f64| (ratio - measured).abs() < 0.11;
    assert!(is_near(four_times) && is_near(predicted) && measured < 0.3, "{report}");
}

#[test]
fn a_response_that_only_a_larger_memory_can_fetch_is_predicted() {
    let answer = format!("200 OK\nCache-Control: max-age=60\n\n{}", "x".repeat(3_600_000));
    let origin = Origin::by(move |_| answer.clone());
    let larder = Larder::with(&origin, "[memory]\nsize = '8MiB'\npolicy = 'lru'\n");
    walk(&larder, 1, 3);
    let report = json(&larder, &["advise", "--json"]);
    // Responses in progress have an eighth of the memory, of which a large one may take seven eighths: 3,670,016 bytes of 32 MiB.
    assert_eq!((&report["check"]["predicted"], &report["check"]["measured"]), (&0.0.into(), &0.0.into()));
    let four_times = cell(&report, "lru", 4.0)["hit_ratio"].as_f64().expect("a ratio");
    assert!((four_times - 2.0 / 3.0).abs() < 1e-9, "{report}");
}

/// An origin of a film of 1 GiB, of which it sends ranges, and of pages of 3.6 MB.
fn films() -> Origin {
    let page = format!("200 OK\nCache-Control: max-age=60\n\n{}", "x".repeat(3_600_000));
    Origin::answering(move |seen| match seen.range(1 << 30) {
        Some(range) => {
            let place = format!("Content-Range: bytes {}-{}/{}", range.start, range.end - 1, 1 << 30);
            let head = format!("206 Partial Content\nETag: \"1\"\nCache-Control: max-age=60\n{place}");
            Answer::with_body(&head, &vec![b'x'; range.len()])
        }
        None => Answer::with_body(&page, b""),
    })
}

#[test]
fn a_range_that_was_never_stored_is_no_hit_in_shadows() {
    let origin = films();
    let larder = Larder::start(&format!(
        "[memory]\nsize = '8MiB'\npolicy = 'lru'\n{}",
        site(&[&origin], "slice = '64KiB'")
    ));
    for _ in 0..2 {
        for mebibyte in [100, 200, 300, 400] {
            let from = mebibyte << 20;
            larder.ask(&format!("GET /film\nRange: bytes={from}-{}", from + 99));
        }
        larder.settle();
    }
    let report = json(&larder, &["advise", "--json"]);
    let check = &report["check"];
    assert_eq!((&check["predicted"], &check["measured"]), (&0.5.into(), &0.5.into()), "{report}");
    for factor in [0.5, 4.0] {
        assert_eq!(cell(&report, "lru", factor)["hit_ratio"], 0.5, "{report}");
    }
}

#[test]
fn ranges_of_a_huge_response_leave_the_sizes_of_others_right() {
    let origin = films();
    let memory = "[memory]\nsize = '8MiB'\npolicy = 'lru'\n";
    let larder = Larder::start(&format!("{memory}{}", site(&[&origin], "slice = '64KiB'")));
    (0..4).for_each(|_| _ = larder.ask("GET /film\nRange: bytes=500000000-500000099"));
    walk(&larder, 1, 4);
    let report = json(&larder, &["advise", "--json"]);
    let check = &report["check"];
    // Four times the memory can fetch the page.
    let ratio = |factor| cell(&report, "lru", factor)["hit_ratio"].as_f64().expect("a ratio");
    assert_eq!((&check["predicted"], &check["measured"]), (&0.375.into(), &0.375.into()), "{report}");
    assert_eq!((ratio(0.5), ratio(4.0)), (0.375, 0.75), "{report}");
}

#[test]
fn a_larger_memory_is_predicted_to_validate_what_has_left() {
    let origin = Origin::always("200 OK\nCache-Control: max-age=0\nETag: \"1\"\n\npage");
    let larder = Larder::with(&origin, "[memory]\nentries = 4\npolicy = 'lru'\n");
    walk(&larder, 6, 2);
    let report = json(&larder, &["advise", "--json"]);
    let bytes = |factor| cell(&report, "lru", factor)["byte_hit_ratio"].as_f64().expect("a ratio");
    assert_eq!((bytes(1.0), bytes(4.0)), (0.0, 0.5), "{report}");
}

#[test]
fn heads_and_ranges_count_the_bytes_that_were_sent() {
    let origin = Origin::by(|_| format!("200 OK\nCache-Control: max-age=60\n\n{}", "x".repeat(10_000)));
    let larder = Larder::with(&origin, "[memory]\nentries = 4\npolicy = 'lru'\n");
    for request in ["GET /", "HEAD /", "GET /\nRange: bytes=0-99"] {
        larder.ask(request);
    }
    let report = json(&larder, &["advise", "--json", "--since", "1h"]);
    let ratio = |factor, name: &str| cell(&report, "lru", factor)[name].as_f64().expect("a ratio");
    let measured = ratio(1.0, "byte_hit_ratio");
    assert!(0.0 < measured && measured < 0.1, "{report}");
    for factor in [0.5, 4.0] {
        assert!((ratio(factor, "hit_ratio") - 2.0 / 3.0).abs() < 1e-9, "{report}");
        assert!((ratio(factor, "byte_hit_ratio") - measured).abs() < 1e-9, "{report}");
    }
}

#[test]
fn a_disk_behind_memory_has_a_table_of_its_own() {
    let folder = tempfile::tempdir().expect("a folder");
    let disk = format!("[[disk]]\npath = '{}'\nsize = '64MiB'\npolicy = 'lru'\n", folder.path().display());
    let origin = Origin::always("200 OK\nCache-Control: max-age=60\n\npage");
    let larder = Larder::with(&origin, &format!("[memory]\nentries = 4\npolicy = 'lru'\n{disk}"));
    walk(&larder, 6, 1);
    eventually("all on the disk", || (larder.stats()["disks"][0]["bytes_queued"] == 0).then_some(()));
    walk(&larder, 6, 2);
    let report = json(&larder, &["advise", "--json"]);
    let cells = report["cells"].as_array().expect("cells").iter();
    let of_disk = cells.filter(|cell| cell["tier"] == "disk" && cell["policy"] == "lru");
    let ratios: Vec<_> = of_disk.map(|cell| cell["hit_ratio"].as_f64().expect("a ratio")).collect();
    assert_eq!(ratios, [2.0 / 3.0; 5], "{report}");
}

#[test]
fn responses_that_may_not_be_stored_are_mentioned() {
    let origin = Origin::always("200 OK\nCache-Control: no-store\n\npage");
    let larder = Larder::with(&origin, "");
    walk(&larder, 4, 3);
    let table = printed(&larder, &["advise"]);
    assert!(table.contains("100.0% of them were for responses that may not be stored\n"), "{table}");
}

#[test]
fn a_policy_is_applied_with_its_contents() {
    let origin = Origin::always("200 OK\nCache-Control: max-age=60\n\npage");
    let larder = Larder::with(
        &origin,
        "[memory]\nentries = 20\npolicy = 'lru'\n[cost]\nper_gb = 0.1\nper_million = 1.0\n",
    );
    walk(&larder, 20, 1);
    let said = printed(&larder, &["advise", "--apply", "policy=sieve", "--wait", "0s"]);
    assert!(said.starts_with("memory runs under sieve instead of lru, with its contents\n"), "{said}");
    walk(&larder, 20, 1);
    assert_eq!(origin.count(), 20);
    let report = json(&larder, &["advise", "--json"]);
    assert_eq!(cell(&report, "sieve", 1.0)["current"], true);
    let said = printed(&larder, &["advise", "--apply", "policy=gdsf:cost=money", "--wait", "0s"]);
    assert!(said.contains(" under gdsf:cost=money,fee=10000 instead of sieve"), "{said}");
    let refused = command(&larder, &["advise", "--apply", "policy=belady"]);
    let why = String::from_utf8_lossy(&refused.stderr);
    assert!(!refused.status.success() && why.contains("needs to know later requests"), "{why}");
}

#[test]
fn an_applied_policy_shows_what_it_brought_after_a_time() {
    let origin = Origin::always("200 OK\nCache-Control: max-age=60\n\npage");
    let larder = Larder::with(&origin, "[memory]\nentries = 20\npolicy = 'lru'\n");
    walk(&larder, 20, 2);
    let apply = ["advise", "--apply", "policy=fifo", "--wait", "2s"];
    let said = std::thread::scope(|scope| {
        let command = scope.spawn(|| printed(&larder, &apply));
        while !command.is_finished() {
            walk(&larder, 20, 1);
        }
        command.join().expect("its output")
    });
    let gain = " requests hit: +0.0 points, as lru would have hit ";
    assert!(said.contains(gain) && said.ends_with("; promised: +0.0 points\n"), "{said}");
}

#[test]
fn without_shadows_there_is_an_explanation() {
    let origin = Origin::always("200 OK\n\npage");
    let larder = Larder::with(&origin, "advise = 'off'\n");
    let output = command(&larder, &["advise"]);
    let why = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && why.contains("the config has advise = \"off\""), "{why}");
}

#[test]
fn an_applied_policy_stays_until_the_config_names_another_one() {
    let origin = Origin::always("200 OK\nCache-Control: max-age=60\n\npage");
    let config = |policy: &str| {
        format!("[memory]\nentries = 20\npolicy = '{policy}'\n[[site]]\norigin = '{}'\n", origin.url())
    };
    let mut larder = Larder::start(&config("lru"));
    printed(&larder, &["advise", "--apply", "policy=sieve", "--wait", "0s"]);
    let policies = |larder: &Larder| {
        let stats = larder.stats();
        (stats["policy"].clone(), stats["policy_of_config"].clone())
    };
    let applied = ("sieve".into(), "lru".into());
    assert_eq!(policies(&larder), applied);

    larder.reload(&format!("name = 'pantry'\n{}", config("lru")));
    larder.wait_for_log("config reloaded");
    assert_eq!(policies(&larder), applied);
    larder.upgrade(&[]).expect("an upgrade");
    assert_eq!(policies(&larder), applied);
    let table = printed(&larder, &["advise"]);
    assert!(table.contains("under sieve (applied; lru in the config)"), "{table}");

    larder.reload(&config("fifo"));
    eventually("the policy of the config", || {
        (policies(&larder) == ("fifo".into(), Value::Null)).then_some(())
    });
}

#[test]
fn each_site_shows_what_it_takes_of_the_memory_and_gives() {
    let origin = Origin::always("200 OK\nCache-Control: max-age=60\n\npage");
    let site = |name: &str| {
        format!("[[site]]\nname = '{name}'\nhosts = ['{name}.test']\norigin = '{}'\n", origin.url())
    };
    let larder = Larder::start(&format!("{}{}", site("shop"), site("blog")));
    for (host, pages, times) in [("shop", 2, 3), ("blog", 6, 1)] {
        for page in (0..times).flat_map(|_| 0..pages) {
            larder.ask(&format!("GET /{page}\nHost: {host}.test"));
        }
    }
    let sites = json(&larder, &["advise", "--site", "--json"])["sites"].take();
    let [blog, shop] = [&sites[0], &sites[1]];
    assert_eq!((&blog["site"], &blog["hits"], &blog["requests"]), (&"blog".into(), &0.into(), &6.into()));
    assert_eq!((&shop["site"], &shop["hits"], &shop["requests"]), (&"shop".into(), &4.into(), &6.into()));
    let memory = |site: &Value| site["memory"].as_u64().expect("bytes");
    assert!(memory(blog) > 2 * memory(shop), "{sites}");
    let table = printed(&larder, &["advise", "--site"]);
    assert!(table.lines().any(|line| line.starts_with("shop") && line.contains("100.0%")), "{table}");
}

#[test]
fn predictions_stay_in_the_statistics_database() {
    let folder = tempfile::tempdir().expect("a folder");
    let database = format!("sqlite:{}", folder.path().join("statistics.db").display());
    let origin = Origin::always("200 OK\nCache-Control: max-age=60\n\npage");
    let tables = format!("[memory]\nentries = 20\npolicy = 'lru'\n[stats]\nurl = '{database}'\n");
    let mut larder = Larder::with(&origin, &tables);
    walk(&larder, 30, 3);
    larder.stop();
    let question = "SELECT size, requests, hits, running FROM predictions WHERE policy = 'lru' ORDER BY size";
    let found = json(&larder, &["stats", "--json", "--stats", &database, "--sql", question]);
    assert_eq!(found.as_array().map(Vec::len), Some(5), "{found}");
    let expected = serde_json::json!({ "size": "20", "requests": "90", "hits": "0", "running": "1" });
    assert_eq!((&found[2], &found[3]["hits"]), (&expected, &"60".into()));
}
