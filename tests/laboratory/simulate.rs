//! `larder simulate` from the view of users: the real binary with valid traces that ship and with invalid traces.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use larder_testkit::stdout;
use rustix::process::{Pid, Signal, kill_process};

use serde_json::Value;

const WEB: &str = "traces/adaptsize_web.oracleGeneral.zst";
const SHOP: &str = "traces/cache2k_web12.oracleGeneral.zst";

/// Belady's example, in which FIFO misses 9 times with 3 entries and 10 times with 4.
const BELADY: &str = "a\nb\nc\nd\na\nb\ne\na\nb\nc\nd\ne\n";

fn simulate(words: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_larder"));
    command.current_dir(env!("CARGO_MANIFEST_DIR")).arg("simulate").args(words).env_remove("COLUMNS");
    command.output().expect("it runs")
}

fn cells(words: &[&str]) -> Vec<Value> {
    let output = simulate(&[words, &["--json"]].concat());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let page: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    page["cells"].as_array().expect("cells").clone()
}

fn example(folder: &Path) -> String {
    let file = folder.join("belady.txt");
    fs::write(&file, BELADY).expect("written");
    file.display().to_string()
}

#[test]
fn json_keeps_its_names() {
    let cells = cells(&[SHOP, "--policy", "fifo,lru", "--capacity", "10%"]);
    let lru = &cells[1];
    for (name, expected) in [
        ("trace", "cache2k_web12".into()),
        ("policy", "lru".into()),
        ("capacity", 1375.into()),
        ("by", "entries".into()),
        ("requests", 95_607.into()),
        ("hits", 65_474.into()),
        ("evictions", 28_758.into()),
        ("offline", false.into()),
        ("error_95", Value::Null),
        ("cost_a_month", Value::Null),
    ] {
        assert_eq!(lru[name], expected, "{name}");
    }
    for (name, low, high) in [
        ("hit_ratio", 0.6848, 0.6849),
        ("byte_hit_ratio", 0.6848, 0.6849),
        ("requests_per_second", 1.0, 1e10),
        ("metadata_bytes_per_object", 12.0, 24.0),
    ] {
        let value = lru[name].as_f64().expect(name);
        assert!((low..high).contains(&value), "{name}: {value}");
    }
}

#[test]
fn prices_of_a_config_add_the_cost_of_a_month() {
    let folder = tempfile::tempdir().expect("a folder");
    let config = folder.path().join("larder.toml");
    let prices = "per_million = 1\nmemory_gib_month = 4\nmemory_step = '4MiB'\n";
    fs::write(&config, format!("[cost]\n{prices}[[site]]\norigin = 'http://127.0.0.1:1'\n"))
        .expect("written");
    let trace = folder.path().join("trace.csv");
    let lines: String = (0..101).map(|at| format!("{at},{},1000\n", at % 2)).collect();
    fs::write(&trace, format!("time,key,size\n{lines}")).expect("written");
    let (trace, config) = (trace.display().to_string(), config.display().to_string());
    let words = [&*trace, "--policy", "lru", "--capacity", "2000", "--config", &config];
    // Two of 101 requests miss in 100 seconds, and memory is sold by 4 MiB.
    let expected = 2.0 * 30.0 * 86_400.0 / 100.0 / 1e6 + 4.0 / 256.0;
    let cost = cells(&words)[0]["cost_a_month"].as_f64().expect("a cost");
    assert!((cost - expected).abs() < 1e-6, "{cost}, not {expected}");
    assert!(stdout(&simulate(&words)).contains("cost a month"));
    fs::write(&config, "[[site]]\norigin = 'http://127.0.0.1:1'\n").expect("written");
    let why = simulate(&words);
    assert!(String::from_utf8_lossy(&why.stderr).contains("no prices; write some in [cost]"), "{why:?}");
}

#[test]
fn an_access_log_gives_the_table_of_a_running_proxy() {
    let folder = tempfile::tempdir().expect("a folder");
    let log = folder.path().join("access.log");
    let line = |(second, (path, size)): (usize, (&str, u32))| {
        format!("192.0.2.1 - - [10/Oct/2025:13:55:{second} +0000] \"GET /{path} HTTP/1.1\" 200 {size}\n")
    };
    let requests = [("a", 2_000), ("b", 4_000), ("a", 2_000), ("c", 1_500), ("b", 4_000)];
    fs::write(&log, (10..).zip(requests).map(line).collect::<String>()).expect("written");
    let log = log.display().to_string();
    let words = [&log, "--advise", "--policy", "lru", "--capacity", "6KB"];
    let advised = cells(&words);
    let of_lru = advised.iter().filter(|cell| cell["policy"] == "lru").map(|cell| &cell["hit_ratio"]);
    // All three have 7.5 kB. In 6 kB, c evicts b.
    assert_eq!(of_lru.collect::<Vec<_>>(), [0.0, 0.2, 0.2, 0.4, 0.4], "{advised:?}");
    let table = stdout(&simulate(&words));
    assert!(
        table.contains("under lru: predicted 20.0%, measured 20.0%") && table.contains("no limit"),
        "{table}"
    );
}

#[test]
fn advice_from_a_log_of_which_all_is_seen_equals_the_replay() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = example(folder.path());
    let replayed = cells(&[&file, "--policy", "lru,fifo", "--capacity", "1,2,4,8,16"]);
    let advised = cells(&[&file, "--advise", "--policy", "lru,fifo", "--capacity", "4"]);
    assert_eq!(advised.len(), 10);
    for cell in &advised {
        // The log has five objects.
        let size = cell["size"].as_u64().map(|size| size.min(5));
        let is_it = |real: &&Value| {
            let capacity = real["capacity"].as_u64().map(|size| size.min(5));
            real["policy"] == cell["policy"] && capacity == size
        };
        let real = replayed.iter().find(is_it).unwrap_or_else(|| panic!("no {cell}"));
        let ratio = |cell: &Value, name: &str| cell[name].as_f64().expect("a ratio");
        let difference = (ratio(cell, "hit_ratio") - ratio(real, "hit_ratio")).abs();
        assert!(difference < 1e-9 && ratio(cell, "hit_ratio_error") < 1e-9, "{cell}, not {real}");
    }
}

#[test]
fn a_table_marks_the_best_and_what_knows_the_future() {
    let page = stdout(&simulate(&[WEB, "--policy", "fifo,gdsf,belady", "--capacity", "1%,10MiB"]));
    let lines: Vec<_> = page.lines().map(|line| line.split_whitespace().collect::<Vec<_>>()).collect();
    assert_eq!(lines[0].join(" "), "adaptsize_web: 66,987 requests counted");
    assert_eq!(lines[2][..4], ["2.66", "MiB", "fifo", "23.41%"]);
    assert_eq!(lines[3][2], "gdsf");
    assert!(lines[3][3].ends_with('*'), "{page}");
    assert_eq!(lines[4][2..4], ["belady", "(offline)"]);
    assert!(!lines[4][4].ends_with('*'));
    assert!(lines[6..9].iter().all(|line| line[..2] == ["10.0", "MiB"]), "{page}");
}

#[test]
fn in_a_capacity_beyond_the_trace_everything_fits() {
    let words = [WEB, "--policy", "lru,fifo", "--capacity", "1%,1GiB"];
    let cells = cells(&words);
    let shown: Vec<_> = cells.iter().map(|cell| (&cell["capacity"], &cell["evictions"])).collect();
    assert_eq!(shown[2..], [(&278_854_232.into(), &0.into()); 2]);
    let page = stdout(&simulate(&words));
    assert_eq!(page.matches("265.9 MiB (all)").count(), 2, "{page}");
    assert!(page.contains("(all) everything fits") && page.contains("metadata"), "{page}");
}

#[test]
fn a_trace_that_is_too_small_for_the_usual_capacities_says_so() {
    let folder = tempfile::tempdir().expect("a folder");
    let trace = folder.path().join("tiny");
    std::fs::write(&trace, "a\nb\na\n").expect("a trace");
    let output = simulate(&[trace.to_str().expect("text"), "--policy", "lru"]);
    assert_eq!(output.status.code(), Some(2));
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(error.contains("tiny: it is too small for the usual capacities; name some"), "{error}");
}

#[test]
fn tables_fit_the_columns_of_the_terminal() {
    for words in [&["--capacity", "1%"][..], &["--capacity", "1%", "--nodes", "2,3", "--lose", "1"]] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_larder"));
        command.current_dir(env!("CARGO_MANIFEST_DIR")).env("COLUMNS", "80");
        command.args(["simulate", WEB, "--policy", "lru,s3fifo:small=0.2"]).args(words);
        let page = stdout(&command.output().expect("it runs"));
        assert!(page.contains("hit ratio") && page.lines().all(|line| line.chars().count() <= 80), "{page}");
    }
}

#[test]
fn help_groups_hold_what_they_are_named_for() {
    let help = stdout(&simulate(&["--help"]));
    let (others, clusters) = help.split_once("Clusters:").expect("a group");
    for option in ["--list", "--format", "--sample", "--plot"] {
        assert!(
            others.contains(option) && !clusters.contains(&format!("      {option}")),
            "{option}: {help}"
        );
    }
    assert!(clusters.contains("--nodes") && clusters.contains("--slots"), "{help}");
}

#[test]
fn comma_separated_values_have_a_line_for_each_cell() {
    let words = [SHOP, "--policy", "lru,2q:kin=0.3,kout=0.6", "--capacity", "100,200", "--csv"];
    let text = stdout(&simulate(&words));
    let lines: Vec<_> = text.lines().collect();
    assert_eq!(lines.len(), 5);
    assert!(
        lines[0].starts_with("trace,policy,capacity,by,requests,hits,hit_ratio,byte_hit_ratio,evictions,")
    );
    assert!(lines[4].starts_with("cache2k_web12,\"2q:kin=0.3,kout=0.6\",200,entries,95607,"), "{}", lines[4]);
}

#[test]
fn capacities_count_what_they_are_told_to() {
    let words = [WEB, "--policy", "lru", "--capacity", "10%"];
    let by_bytes = cells(&words);
    let by_entries = cells(&[&words[..], &["--by", "entries"]].concat());
    assert_eq!((&by_bytes[0]["by"], &by_bytes[0]["capacity"]), (&"bytes".into(), &27_885_423.into()));
    assert_eq!((&by_entries[0]["by"], &by_entries[0]["capacity"]), (&"entries".into(), &3_681.into()));
}

#[test]
fn a_filter_goes_in_front_of_what_could_serve() {
    let words = [WEB, "--policy", "lru,secondhit+fifo,belady", "--capacity", "1%", "--admission", "tinylfu"];
    let cells = cells(&words);
    let policies: Vec<_> = cells.iter().map(|cell| cell["policy"].as_str().expect("text")).collect();
    assert_eq!(policies, ["tinylfu+lru", "secondhit+fifo", "belady"]);
}

#[test]
fn a_sample_tells_its_error_and_a_warm_up_is_left_out() {
    let cells = cells(&[SHOP, "--policy", "lru", "--capacity", "30%", "--sample", "0.2", "--warmup", "10%"]);
    let error = cells[0]["error_95"].as_f64().expect("an error");
    assert!((0.001..0.05).contains(&error), "{error}");
    let requests = cells[0]["requests"].as_u64().expect("a number");
    assert!((86_000..86_100).contains(&requests), "{requests}");
    let table = stdout(&simulate(&[SHOP, "--policy", "lru", "--capacity", "30%", "--sample", "20%"]));
    assert!(table.contains("% +- ") && table.contains("95 times in 100"), "{table}");
}

#[test]
fn beladys_anomaly_is_named_with_its_two_sizes() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = example(folder.path());
    let page = stdout(&simulate(&[&file, "--policy", "fifo,lru", "--capacity", "3,4,5"]));
    let line = "belady: fifo misses more with more room (Belady's anomaly): 9 with 3 entries, 10 with 4";
    assert_eq!(page.lines().last(), Some(line), "{page}");
}

#[test]
fn curves_are_drawn_one_file_for_each_trace() {
    let folder = tempfile::tempdir().expect("a folder");
    let (file, picture) = (example(folder.path()), folder.path().join("curves.svg"));
    let picture_name = picture.display().to_string();
    let words = [&file, SHOP, "--policy", "sieve", "--curve", "--json", "--plot", &picture_name];
    let page: Value = serde_json::from_slice(&simulate(&words).stdout).expect("JSON");
    // Five objects allow four of the usual sizes; the curve of LRU does not depend on the policies.
    assert_eq!(page["cells"].as_array().map(Vec::len), Some(4 + 21));
    let points = page["curves"][0]["points"].as_array().expect("points");
    assert_eq!(points.iter().map(|point| point[0].as_u64()).collect::<Vec<_>>(), [Some(3), Some(4), Some(5)]);
    for name in ["curves-belady.svg", "curves-cache2k_web12.svg"] {
        let svg = fs::read_to_string(folder.path().join(name)).expect(name);
        assert!(svg.starts_with("<svg ") && svg.contains(">\nsieve\n<"), "{name}");
    }
}

#[test]
fn wrong_words_and_wrong_traces_are_one_clear_line() {
    let table: &[(&[&str], &str)] = &[
        (&["gone.zst"], "cannot read 'gone.zst': no such file"),
        (&["traces"], "cannot read 'traces': it is a directory"),
        (&[WEB, "--policy", "lur"], "unknown policy 'lur'; did you mean 'lru'?"),
        (&[WEB, "--admission", "tinylf"], "unknown filter 'tinylf'; did you mean 'tinylfu'?"),
        (&[WEB, "--policy", "2q:kim=1"], "no parameter 'kim'; did you mean 'kin'?"),
        (&[WEB, "--capacity", "0"], "adaptsize_web: a capacity of 0 keeps nothing"),
        (&[SHOP, "--capacity", "1MiB"], "a capacity of 1048576 bytes, but entries are counted"),
        (
            &[SHOP, "--capacity", "10", "--sample", "0.01"],
            "a capacity of 10 entries is 0 in a sample of 0.01",
        ),
    ];
    for (words, expected) in table {
        let output = simulate(words);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        let last = said.lines().last().unwrap_or_default();
        assert_eq!(output.status.code(), Some(2), "{words:?}: {said}");
        assert!(last.starts_with("larder: ") && last.contains(expected), "{words:?}: {said}");
        assert!(output.stdout.is_empty(), "{words:?}");
    }
    for words in [&[WEB, "--capacity", "101%"], &[WEB, "--sample", "0"], &[WEB, "--warmup", "100%"]] {
        assert_eq!(simulate(words).status.code(), Some(2), "{words:?}");
    }
}

#[test]
fn simulate_shows_finished_results_before_an_unreadable_trace_fails() {
    let output = simulate(&[SHOP, "gone.zst", "--policy", "lru", "--capacity", "10%", "--csv"]);
    assert_eq!((stdout(&output).lines().count(), output.status.code()), (2, Some(2)));
}

/// Returns the processor time of a process, in the kernel's ticks.
fn ticks(child: &Child) -> u64 {
    let stat = fs::read_to_string(format!("/proc/{}/stat", child.id())).expect("it runs");
    let fields = stat.rsplit_once(')').expect("a name in parentheses").1.split_whitespace();
    fields.skip(11).take(2).map(|ticks| ticks.parse::<u64>().expect("a number")).sum()
}

#[test]
fn simulate_shows_finished_results_on_an_interrupt() {
    let sizes: Vec<_> = (1..=60).map(|percent| format!("{percent}%")).collect();
    let mut command = Command::new(env!("CARGO_BIN_EXE_larder"));
    command.current_dir(env!("CARGO_MANIFEST_DIR")).args(["simulate", WEB, "--policy", "all", "--csv"]);
    command.args(["--capacity", &sizes.join(",")]).stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = command.spawn().expect("it runs");
    let started = Instant::now();
    while ticks(&child) < 100 && started.elapsed() < Duration::from_secs(20) {
        std::thread::sleep(Duration::from_millis(5));
    }
    kill_process(Pid::from_child(&child), Signal::INT).expect("it runs");
    let output = child.wait_with_output().expect("it ends");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let words: Vec<_> = said.lines().last().unwrap_or_default().split(' ').collect();
    assert_eq!(
        (words[..2].join(" "), output.status.code()),
        ("larder: interrupted:".into(), Some(1)),
        "{said}"
    );
    let done: usize = words[2].parse().expect("a number of cells");
    assert!(done > 0, "{said}");
    assert_eq!(stdout(&output).lines().count(), 1 + done, "{said}");
}

#[test]
fn every_policy_and_filter_is_listed_with_its_paper_and_price() {
    let page = stdout(&simulate(&["--list"]));
    for listing in larder_evict::POLICIES.iter().chain(larder_evict::FILTERS) {
        for text in [listing.name, listing.about, listing.source, listing.cost] {
            assert!(page.contains(text), "{text} of {}", listing.name);
        }
        for param in listing.params {
            assert!(page.contains(&format!("{}=", param.name)), "{} of {}", param.name, listing.name);
        }
    }
}

/// The expected figures are those of the laboratory's nodes on a trace that ships.
#[test]
fn clusters_keep_more_and_ask_each_other() {
    let words = [SHOP, "--policy", "lru,belady", "--capacity", "10%", "--nodes", "1,3", "--hot", "0%,10%"];
    let output = simulate(&[&words[..], &["--json"]].concat());
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        said.contains("belady: left out; policies that use future requests cannot run in a cluster"),
        "{said}"
    );
    let page: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let cells = page["cells"].as_array().expect("cells");
    let figures = |name: &str| cells.iter().map(|cell| cell[name].clone()).collect::<Vec<_>>();
    assert_eq!(figures("nodes"), [1, 3, 3]);
    assert_eq!(figures("hot"), [0.0, 0.0, 0.1]);
    assert_eq!(figures("capacity"), [1_375; 3]);
    assert_eq!(figures("hits"), [65_474, 75_753, 74_892]);
    assert_eq!(figures("peer_requests"), [0, 63_659, 42_145]);
}

#[test]
fn a_table_of_clusters_says_what_its_figures_are() {
    let words = [SHOP, "--policy", "lru", "--capacity", "1%", "--nodes", "4", "--hot", "10%", "--lose", "1"];
    let page = stdout(&simulate(&words));
    let lines: Vec<_> = page.lines().collect();
    assert_eq!(lines[0], "cache2k_web12: 95,607 requests counted");
    assert!(lines[1].starts_with("capacity each  policy  nodes  hot  hit ratio"), "{page}");
    assert!(lines[1].ends_with("around the loss"), "{page}");
    assert!(lines[2].starts_with("137            lru         4  10% "), "{page}");
    assert!(page.contains("busiest: requests and bytes that the busiest node answers"), "{page}");
    let csv = stdout(&simulate(&[&words[..], &["--csv"]].concat()));
    assert_eq!(csv.lines().count(), 2);
    assert!(csv.starts_with("trace,policy,capacity,by,nodes,hot,requests,hits,"), "{csv}");
}

#[test]
fn clusters_are_drawn_against_their_nodes() {
    let folder = tempfile::tempdir().expect("a folder");
    let picture = folder.path().join("nodes.svg");
    let picture_name = picture.display().to_string();
    let words = [SHOP, "--policy", "lru", "--capacity", "1%", "--nodes", "1,10", "--plot", &picture_name];
    assert!(simulate(&words).status.success());
    let svg = fs::read_to_string(picture).expect("a picture");
    assert!(svg.contains(">\nlru, 137 each, 0% hot\n<") && svg.contains(">\nlru, 137 each, 10% hot\n<"));
}

#[test]
fn wrong_clusters_are_one_clear_line() {
    let table: &[(&[&str], &str)] = &[
        (&["--nodes", "0"], "expected a whole number from 1 to 1000"),
        (&["--nodes", "3", "--hot", "100%"], "owned objects need room"),
        (&["--nodes", "3", "--sample", "0.1"], "a sample does not show how nodes share the load"),
        (
            &["--nodes", "9,3", "--lose", "3"],
            "--lose 3: 3 nodes cannot lose so many; at least one has to stay",
        ),
        (
            &["--nodes", "3", "--policy", "belady"],
            "belady: policies that use future requests cannot run in a cluster",
        ),
        (&["--lose", "1"], "--nodes <NUMBERS>"),
        (&["--nodes", "3", "--curve"], "cannot be used with"),
    ];
    for (words, expected) in table {
        let output = simulate(&[&[SHOP], *words].concat());
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{words:?}: {said}");
        assert!(said.contains(expected), "{words:?}: {said}");
    }
}

/// Writes a log of pages with their pictures, without any other order in it.
fn log(folder: &Path) -> String {
    let mut random = fastrand::Rng::with_seed(27);
    let mut log = String::new();
    for visit in 0..4_000 {
        let (client, page) = (random.u8(1..250), random.u32(..300));
        for (second, url) in [(0, format!("page{page}x")), (3, format!("picture{page}x"))] {
            let time = 1_700_000_000 + 10 * visit + second;
            let (micros, bytes) = (20_000 + page, 5_000 + page);
            log += &format!("{time},192.0.2.{client},http://shop.test/{url},{bytes},{micros}\n");
        }
    }
    let file = folder.join("log.csv");
    fs::write(&file, format!("time,client,url,bytes,micros\n{log}")).expect("written");
    file.display().to_string()
}

#[test]
fn prefetching_shows_what_it_would_bring_and_cost() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = log(folder.path());
    let words = [&*file, "--policy", "lru,belady", "--capacity", "5%", "--prefetch", "association"];
    let output = simulate(&[&words[..], &["--json"]].concat());
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        said.contains(
            "belady: left out; policies that use future requests cannot be combined with prefetches"
        ),
        "{said}"
    );
    let page: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let cell = &page["cells"][0];
    let figure = |name: &str| cell[name].as_f64().unwrap_or_else(|| panic!("no {name} in {cell}"));
    assert_eq!((&cell["prefetch"], figure("requests")), (&serde_json::json!(["association"]), 8_000.0));
    assert!(figure("precision") > 0.95 && figure("early_ratio") > 0.08, "{cell}");
    assert!(figure("hit_ratio") > figure("hit_ratio_without"), "{cell}");
    assert!(figure("extra_requests") <= 0.05 * figure("requests"), "{cell}");
    assert!(figure("saved_micros_per_request") > 1_000.0, "{cell}");
    let csv = stdout(&simulate(&[&words[..], &["--csv"]].concat()));
    assert!(csv.starts_with("trace,policy,capacity,by,prefetch,prefetch_traffic,requests,"), "{csv}");
    let table = stdout(&simulate(&[&words[..], &["--prefetch-traffic", "1%"]].concat()));
    let lines: Vec<_> = table.lines().collect();
    assert_eq!(
        lines[0],
        "log: 8,000 requests counted, prefetched by association, at most 1.00% of the traffic for prefetches of no use"
    );
    assert!(
        lines[1].starts_with("capacity ")
            && lines[1].contains("policy  hit ratio")
            && table.contains("precision: share"),
        "{table}"
    );
}

#[test]
fn wrong_prefetching_is_one_clear_line() {
    let table: &[(&[&str], &str)] = &[
        (&["--prefetch", "asociation"], "unknown prediction 'asociation'; did you mean 'association'?"),
        (&["--prefetch", "sequence", "--sample", "0.1"], "a sample does not show the next requests"),
        (
            &["--prefetch", "sequence", "--policy", "belady"],
            "belady: policies that use future requests cannot be combined with prefetches",
        ),
        (&["--prefetch", "sequence", "--nodes", "3"], "cannot be used with"),
        (&["--prefetch-traffic", "1%"], "--prefetch <PREDICTIONS>"),
    ];
    for (words, expected) in table {
        let output = simulate(&[&[SHOP], *words].concat());
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{words:?}: {said}");
        assert!(said.contains(expected), "{words:?}: {said}");
    }
}

#[test]
fn the_page_on_policies_is_in_step() {
    let traces =
        [WEB, "traces/cache2k_web07.oracleGeneral.zst", SHOP, "traces/semicomplete_weblog.oracleGeneral.zst"];
    let output = simulate(&[&["--reference"], &traces[..]].concat());
    let written = fs::read_to_string("docs/policies.md").unwrap_or_default();
    let advice =
        "docs/policies.md is out of step: larder simulate --reference traces/*.zst > docs/policies.md";
    assert!(written == stdout(&output), "{advice}");
}
