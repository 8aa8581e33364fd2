//! The examples of `docs/purge.md`, run as printed.

use std::process::Command;

use larder_testkit::{Larder, Origin, output};
use serde_json::Value;

use super::curl::curl;

#[test]
fn the_examples_reach_what_they_name() {
    let origin = Origin::always(
        "200 OK\nCache-Control: max-age=600\nETag: \"1\"\nCache-Tag: product-17\nCache-Groups: \"users\"\n\nbody",
    );
    let larder = Larder::with_site(&[&origin], "purge_from = ['127.0.0.1']");
    let (site, admin) = (larder.address().to_string(), larder.admin.to_string());
    let page = include_str!("../../docs/purge.md");
    let examples: Vec<_> = page.lines().filter(|line| line.starts_with("curl ")).collect();
    assert_eq!(examples.len(), 6);
    for example in examples {
        let urls = ["/page", "/img/a.png"].map(|path| format!("http://{site}{path}"));
        urls.iter().for_each(|url| drop(curl(&[], url)));
        let example = example.replace("127.0.0.1:8080", &site).replace("127.0.0.1:9145", &admin);
        let answer = output(Command::new("sh").arg("-c").arg(&example).env("http_proxy", ""));
        let answer: Value = serde_json::from_str(&answer).expect(&example);
        let missed = urls.iter().filter(|url| !curl(&[], url).is_hit()).count() as u64;
        assert!(missed > 0 && answer["objects"] == missed, "{example}: {answer}, {missed} missed");
    }
}
