//! `larder workload`: the command line of users, and its output.

use std::process::{Command, Output};

fn larder(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_larder")).args(args).output().expect("the command runs")
}

fn lines(args: &[&str]) -> Vec<String> {
    let output = larder(args);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text").lines().map(str::to_owned).collect()
}

#[test]
fn a_workload_says_how_it_was_made() {
    let made = lines(&[
        "workload",
        "zipf",
        "--requests",
        "3",
        "--pages",
        "10",
        "--sizes",
        "fixed:20KiB",
        "--latency",
        "constant:20ms",
        "--seed",
        "7",
    ]);
    let header = [
        "# larder workload 1",
        "# zipf: 3 independent requests for 10 pages, exponent 0.9",
        "# sizes: fixed, 20480 bytes; latency: constant, 20000 us",
        "# arrivals: Poisson, 10 a second",
        "# seed 7",
        "# columns: time (us), method, path, size (bytes), cost (us), body",
    ];
    assert_eq!(made[..6], header);
    assert_eq!(made.len(), 9);
    assert!(made[6].starts_with("0 GET /page/") && made[6].ends_with(" 20480 20000"), "{}", made[6]);
}

#[test]
fn a_generated_workload_can_be_described_imported_and_imitated() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = |name: &str| folder.path().join(name).display().to_string();
    let (browsing, imported) = (file("browsing.txt"), file("imported.txt"));
    lines(&["workload", "browsing", "--dataset", "2", "-o", &browsing]);
    let described = lines(&["describe", "--json", &browsing]).concat();
    assert!(described.contains(r#""requests":985"#) && described.contains(r#""objects":74"#), "{described}");
    lines(&["workload", "import", &browsing, "-o", &imported]);
    let requests = |path: &str| {
        let text = std::fs::read_to_string(path).expect("a workload");
        text.lines().filter(|line| !line.starts_with('#')).map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(requests(&imported), requests(&browsing));
    let alike = lines(&["workload", "web", "--like", &browsing, "--requests", "500"]);
    assert_eq!(alike.iter().filter(|line| !line.starts_with('#')).count(), 500);
}

#[test]
fn endpoints_are_listed_by_method() {
    let folder = tempfile::tempdir().expect("a folder");
    let directory = folder.path().join("trace").display().to_string();
    lines(&["workload", "crud", "--requests", "10", "--entities", "2", "--endpoints", &directory]);
    let listed =
        |method: &str| std::fs::read_to_string(folder.path().join("trace").join(method)).expect("a list");
    assert_eq!(listed("post.txt"), "/paths\n/skills\n/users\n");
    assert_eq!(listed("delete.txt"), "/paths/1\n/paths/2\n/skills/1\n/skills/2\n/users/1\n/users/2\n");
    assert!(listed("get.txt").contains("/paths/2/steps\n"));
}

#[test]
fn wrong_words_get_one_line_and_2() {
    let table: &[(&[&str], &str)] = &[
        (&["zipf", "--pages", "0"], "expected a whole number from 1 to 100000000"),
        (&["zipf", "--exponent=-1"], "expected a number from 0 to 10"),
        (
            &["zipf", "--sizes", "normal"],
            "expected fixed:SIZE, uniform:LEAST-MOST, lognormal:MEDIAN,SIGMA or web",
        ),
        (&["zipf", "--latency", "constant:20"], "'20' lacks a unit; known: ms s m h d"),
        (&["zipf", "--rate", "0"], "expected requests a second, from 0.001 to 1000000"),
        (&["shuffle", "--copies", "16-7"], "expected a range, such as 7-16"),
        (&["browsing", "--dataset", "3"], "expected 1 or 2"),
        (&["import", "/no/such/trace"], "cannot read '/no/such/trace'"),
    ];
    for (words, error) in table {
        let output = larder(&[&["workload"], *words].concat());
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{words:?}: {said}");
        assert!(said.contains(error), "{words:?}: {said}");
    }
}

#[test]
fn a_place_that_cannot_be_written_to_is_named() {
    let output = larder(&["workload", "staged", "-o", "/no/such/place/file"]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1));
    assert!(said.contains("cannot write to /no/such/place/file: there is no such directory"), "{said}");
}
