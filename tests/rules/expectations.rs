//! `larder check --test`: users' expectations of their rules.

use std::process::{Command, Output};

use larder_testkit::Pair;

/// Runs the tests `tests` for `config`.
pub(crate) fn check(config: &str, tests: &str) -> Output {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("larder.toml"), config).expect("written");
    std::fs::write(folder.path().join("tests.toml"), tests).expect("written");
    let mut larder = Command::new(env!("CARGO_BIN_EXE_larder"));
    larder.args(["check", "--config", "larder.toml", "--test", "tests.toml"]);
    larder.current_dir(folder.path()).output().expect("it runs")
}

/// Returns the blocks of TOML in the page about rules.
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
fn each_difference_is_reported_with_its_place() {
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
        "tests.toml:5: GET http://a/: the lifetime is none, expected 1h",
        "tests.toml:5: GET http://a/: Cookie for the origin is 'a=1', expected absent",
    ] {
        assert!(told.contains(expected), "{expected}\n{told}");
    }
    assert!(!told.contains("tests.toml:1:"), "{told}");
}

#[test]
fn words_that_no_result_has_are_reported() {
    let test = |expect: &str| format!("[[test]]\nrequest = 'GET http://a/'\nexpect = {{ {expect} }}\n");
    for (tests, code, expected) in [
        (
            test("outcome = 'store'"),
            1,
            "unknown outcome 'store'; did you mean 'stored'?; known: stored not-stored",
        ),
        (
            test("reason = 'abssent'"),
            1,
            "unknown reason 'abssent'; did you mean 'absent'?; larder why --reasons",
        ),
        (
            test("").replace("[[test]]", "[test]"),
            2,
            "tests.toml:1: [test] may occur several times: write [[test]]",
        ),
    ] {
        let done = check("[[site]]\norigin = 'http://127.0.0.1:1'\n", &tests);
        let told = String::from_utf8_lossy(&done.stderr).into_owned();
        assert!(done.status.code() == Some(code) && told.contains(expected), "{expected}\n{told}");
    }
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

/// Asserts that `config` meets all `tests`.
fn meets(config: &str, tests: &str) {
    let done = check(config, tests);
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
}

#[test]
fn expectations_cover_answers_of_the_proxy_itself() {
    let folder = tempfile::tempdir().expect("a folder");
    let tls = Pair::self_signed(folder.path(), "a").table();
    let config = format!(
        "[reverse]\nlisten = '127.0.0.1:1'\nlisten_tls = '127.0.0.1:8443'\n{tls}\
         [[site]]\norigin = 'http://o.test:81'\nhttps = 'redirect'\npurge_from = '10.0.0.0/8'\nhost = 'origin'\n\
         [[site.rule]]\nmatch = {{ path = '/own/*' }}\nusers = '/dev/null'\nreply = {{ set = {{ X-A = 'b' }} }}\n"
    );
    let redirected = "[[test]]\nrequest = 'GET http://a/own/x?y'\n\
                      expect = { outcome = 'answered', reason = 'only-https', status = 301, asks = '', \
                      fields = { Location = 'https://a:8443/own/x?y', X-A = 'b' } }\n";
    let refused = "[[test]]\nrequest = 'GET https://a/own/x'\n\
                   expect = { outcome = 'refused', reason = 'unauthorized', status = 401 }\n";
    let purge = |client: &str, outcome: &str, status: u16| {
        format!(
            "[[test]]\nrequest = 'PURGE http://a/own/x'\nclient = '{client}'\n\
             expect = {{ outcome = '{outcome}', status = {status}, asks = '' }}\n"
        )
    };
    let all = "[[test]]\nrequest = 'OPTIONS https://a/x'\nfields = { Max-Forwards = '0' }\n\
               expect = { outcome = 'answered', status = 204, asks = '' }\n\
               [[test]]\nrequest = 'GET https://a/x'\nexpect = { outcome = 'asked', sends = { Host = 'o.test:81' } }\n";
    let purges = purge("10.0.0.1", "answered", 200) + &purge("192.0.2.1", "refused", 403);
    meets(&config, &[redirected, refused, &purges, all].concat());
}

#[test]
fn clients_of_the_forward_proxy_may_ask_where_there_are_sites() {
    let config = "[forward]\nports = '80'\n[[site]]\norigin = 'http://o.test'\n\
                  [[forward.rule]]\nmatch = { host = '*.ads.test' }\nrespond = 403\n";
    let test = |request: &str, expect: &str| {
        format!("[[test]]\nrequest = '{request}'\nrole = 'forward'\nexpect = {{ {expect} }}\n")
    };
    let tests = [
        test("GET http://www.ads.test/", "outcome = 'answered', status = 403"),
        test("CONNECT www.ads.test:443", "outcome = 'answered', status = 403"),
        test("CONNECT www.test:443", "outcome = 'passed'"),
        test("GET http://www.test:81/", "outcome = 'refused', reason = 'origin-forbidden', status = 403"),
        test("GET http://www.test/", "outcome = 'asked', asks = 'http://www.test/'"),
        "[[test]]\nrequest = 'GET http://www.ads.test/'\nexpect = { asks = 'http://o.test/' }\n".to_owned(),
    ];
    meets(config, &tests.concat());
    let done = check(config, &test("GET http://a/", "").replace("'forward'", "'forwards'"));
    let told = String::from_utf8_lossy(&done.stderr).into_owned();
    assert!(told.contains("unknown role 'forwards'; known: reverse forward"), "{told}");
}

#[test]
fn lengths_methods_and_codings_count_as_they_do_when_it_runs() {
    let config = "[[site]]\nhosts = 'tags.test'\norigin = 'http://t.test'\nrole = 'tags'\n\
                  [[site]]\norigin = 'http://o.test'\ncompress = 'gzip'\n\
                  [[site.rule]]\nmatch = { min_length = '1KiB' }\ncache = false\n";
    let test = |request: &str, length: u32, expect: &str| {
        format!(
            "[[test]]\nrequest = '{request}'\norigin = {{ status = 200, fields = {{ Cache-Control = 'max-age=9', \
             Content-Type = 'text/css', Content-Length = '{length}' }} }}\nexpect = {{ {expect} }}\n"
        )
    };
    let tests = [
        test("GET http://a/", 1023, "outcome = 'stored', fields = { Vary = '' }"),
        test("GET http://a/", 1024, "outcome = 'not-stored', reason = 'not-by-rule'"),
        test("HEAD http://a/", 5, "outcome = 'not-stored', reason = 'none'"),
        test("GET http://tags.test/", 5, "outcome = 'passed', reason = 'tag-unknown'"),
        "[[test]]\nrequest = 'GET http://a/'\norigin = { status = 200, fields = { Cache-Control = 'max-age=9', \
         Content-Type = 'text/css' } }\nexpect = { outcome = 'stored', fields = { Vary = 'Accept-Encoding' } }\n"
            .to_owned(),
    ];
    meets(config, &tests.concat());
}

#[test]
fn a_file_that_cannot_be_read_is_reported_in_one_line() {
    let config = "[[site]]\norigin = 'http://127.0.0.1:1'\n";
    for (tests, error, code) in [
        ("", "tests.toml: there is no [[test]] in it", 2),
        (
            "[[test]]\nrequest = 'GET http://a/'\nexpect = { outcom = 'x' }\n",
            "tests.toml:3: unknown field",
            2,
        ),
        ("[[test]]\nrequest = 'GET a'\nexpect = { }\n", "tests.toml:1: GET a:", 1),
    ] {
        let done = check(config, tests);
        let told = String::from_utf8_lossy(&done.stderr).into_owned();
        assert_eq!(done.status.code(), Some(code), "{told}");
        assert!(told.contains(error) && told.trim().lines().count() == 1, "{told}");
    }
}
