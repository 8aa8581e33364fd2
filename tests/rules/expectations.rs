//! `larder check --test`: what users expect of their rules.

use std::process::{Command, Output};

/// Compares `config` with `tests`.
pub(crate) fn check(config: &str, tests: &str) -> Output {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("larder.toml"), config).expect("written");
    std::fs::write(folder.path().join("tests.toml"), tests).expect("written");
    let mut larder = Command::new(env!("CARGO_BIN_EXE_larder"));
    larder.args(["check", "--config", "larder.toml", "--test", "tests.toml"]);
    larder.current_dir(folder.path()).output().expect("it runs")
}

/// The blocks of TOML in the page about rules.
fn blocks() -> Vec<&'static str> {
    let page = include_str!("../../docs/rules.md");
    page.split("```toml\n").skip(1).filter_map(|rest| rest.split("```").next()).collect()
}

#[test]
fn the_expectations_in_the_page_are_met_by_its_first_config() {
    let tests = blocks().into_iter().find(|block| block.contains("[[test]]")).expect("tests");
    let done = check(blocks()[0], tests);
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    assert!(String::from_utf8_lossy(&done.stdout).contains("tests    2 passed"));
}

#[test]
fn each_difference_is_told_with_its_place() {
    let config = "[[site]]\norigin = 'http://127.0.0.1:1'\n\
                  [[site.rule]]\nname = 'short'\nttl_default = '5m'\nreply = { set = { X-A = 'b' } }\n";
    let tests = "[[test]]\nrequest = 'GET http://a/'\norigin = { status = 200 }\n\
                 expect = { rules = ['short'], outcome = 'stored', lifetime = '5m', fields = { X-A = 'b' } }\n\
                 [[test]]\nrequest = 'GET http://a/'\nfields = { Cookie = 'a=1' }\norigin = { status = 503 }\n\
                 expect = { outcome = 'stored', status = 200, lifetime = '1h', sends = { Cookie = '' }, rules = [] }\n";
    let done = check(config, tests);
    assert_eq!(done.status.code(), Some(1));
    let told = String::from_utf8_lossy(&done.stderr).into_owned();
    for expected in [
        "tests.toml:5: GET http://a/: the list of rules is short, expected none",
        "tests.toml:5: GET http://a/: the status is 503, expected 200",
        "tests.toml:5: GET http://a/: the lifetime is 5m, expected 1h",
        "tests.toml:5: GET http://a/: Cookie for the origin is 'a=1', expected absent",
    ] {
        assert!(told.contains(expected), "{expected}\n{told}");
    }
    assert!(!told.contains("tests.toml:1:"), "{told}");
}

#[test]
fn the_url_that_an_origin_is_asked_for_can_be_expected() {
    let config = "[[site]]\norigin = ['http://a.test:81', 'https://b.test/app']\n\
                  [[site.rule]]\nmatch = { path = '/api/*' }\norigin = 'http://api.test'\nrewrite = '/v1/{1}'\n\
                  [[site.rule]]\nmatch = { path = '/own' }\nrespond = 204\n";
    let test = |path: &str, asks: &str| {
        format!("[[test]]\nrequest = 'GET http://a{path}'\nexpect = {{ asks = '{asks}' }}\n")
    };
    let right = [("/x?y", "http://a.test:81/x?y"), ("/x", "https://b.test/app/x"), ("/own", "")];
    let right: String = right.map(|(path, asks)| test(path, asks)).concat();
    let done = check(config, &(right + &test("/api/users?a=b", "http://api.test/v1/users?a=b")));
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let done = check(config, &(test("/api/x", "http://a.test:81/api/x") + &test("/x", "")));
    let told = String::from_utf8_lossy(&done.stderr).into_owned();
    for expected in [
        "the URL that an origin is asked for is http://api.test/v1/x, expected http://a.test:81/api/x",
        "the URL that an origin is asked for is http://a.test:81/x, https://b.test/app/x, expected none",
    ] {
        assert!(told.contains(expected), "{expected}\n{told}");
    }
}

#[test]
fn a_file_that_cannot_be_read_is_told_in_one_line() {
    let config = "[[site]]\norigin = 'http://127.0.0.1:1'\n";
    for (tests, error) in [
        ("", "tests.toml: there is no [[test]] in it"),
        ("[[test]]\nrequest = 'GET http://a/'\nexpect = { outcom = 'x' }\n", "tests.toml:3: unknown field"),
        ("[[test]]\nrequest = 'GET a'\nexpect = { }\n", "tests.toml:1: GET a:"),
    ] {
        let done = check(config, tests);
        let told = String::from_utf8_lossy(&done.stderr).into_owned();
        assert!(!done.status.success() && told.contains(error) && told.trim().lines().count() == 1, "{told}");
    }
}
