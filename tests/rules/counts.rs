//! The counts of each rule.

use larder_testkit::{Larder, Origin, site};
use serde_json::{Value, json};

fn counts(larder: &Larder) -> Vec<Value> {
    let sites = larder.stats()["sites"].clone();
    let rules = sites.as_array().expect("a list").iter().find_map(|site| site["rules"].as_array().cloned());
    let row = |rule: &Value| {
        json!([rule["name"], rule["requests"], rule["hits"], rule["answered"], rule["refused"]])
    };
    rules.expect("rules").iter().map(row).collect()
}

#[test]
fn rules_of_the_forward_proxy_are_shown_before_its_first_request() {
    let larder =
        Larder::start("[[forward.rule]]\nname = 'closed'\nmatch = { path = '/closed' }\nrespond = 403\n");
    assert_eq!(counts(&larder), [json!(["closed", 0, 0, 0, 0])]);
}

#[test]
fn requests_are_counted_by_the_rules_that_held() {
    let origin = Origin::always("200 OK\nCache-Control: max-age=100\nContent-Type: text/css\n\nx");
    let rules = |last: &str| {
        let rules = "[[site.rule]]\nname = 'all'\nreply = { set = { X-A = 'b' } }\n\
                     [[site.rule]]\nname = 'closed'\nmatch = { path = '/closed' }\ndeny = '127.0.0.1'\n\
                     [[site.rule]]\nmatch = { path = '/own' }\nrespond = 404\n\
                     [[site.rule]]\nname = 'times'\nttl = { 200 = '1h', 404 = '1m' }\n";
        site(&[&origin], &format!("{rules}{last}"))
    };
    let larder = Larder::start(&rules(""));
    for path in ["/a", "/a", "/a", "/closed", "/own", "/b"] {
        larder.get(path);
    }
    let expected = [
        json!(["all", 6, 2, 1, 1]),
        json!(["closed", 1, 0, 0, 1]),
        json!(["3", 1, 0, 1, 0]),
        json!(["times", 2, 0, 0, 0]),
    ];
    assert_eq!(counts(&larder), expected);
    let metrics = larder.ask_admin("GET /metrics").text().to_owned();
    assert!(metrics.contains(",rule=\"all\",outcome=\"hit\"} 2\n"), "{metrics}");
    larder.reload(&rules("[[site.rule]]\nname = 'new'\nttl = '1h'\n"));
    larder.wait_for_log("config reloaded");
    larder.get("/a");
    assert_eq!(counts(&larder)[0], json!(["all", 7, 3, 1, 1]));
    assert_eq!(counts(&larder)[4], json!(["new", 1, 1, 0, 0]));
}
