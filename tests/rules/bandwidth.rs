//! `bandwidth`: the rate of replies, of each alone, of all to a client, or of all of a site.

use std::time::{Duration, Instant};

use larder_testkit::{Larder, Origin, eventually, http2};

/// More than a second of content at 100 KiB a second, whose first tenths are sent at once.
const LONG: usize = 130 << 10;
const LEAST: Duration = Duration::from_secs(1);

fn start() -> (Origin, Larder) {
    let body = "a".repeat(LONG);
    let origin = Origin::by(move |seen| match seen.target.as_str() {
        "/video/long" => format!("200 OK\nCache-Control: max-age=60\n\n{body}"),
        "/video/passed" => format!("200 OK\nCache-Control: no-store\n\n{body}"),
        _ => "200 OK\nCache-Control: max-age=60\n\nshort".to_owned(),
    });
    let rule = "[[site.rule]]\nmatch = { path = '/video/*' }\nbandwidth = '100KiB'";
    let larder = Larder::with_site(&[&origin], rule);
    (origin, larder)
}

#[test]
fn replies_to_a_path_are_sent_at_its_rate() {
    let (_origin, larder) = start();
    for (path, is_hit) in [("/video/long", false), ("/video/long", true), ("/video/passed", false)] {
        let begun = Instant::now();
        let answer = larder.client().ask(&format!("GET {path}"));
        assert_eq!((answer.body.len(), answer.is_hit()), (LONG, is_hit), "{path}");
        assert!(begun.elapsed() >= LEAST, "{path}: {:?}", begun.elapsed());
        larder.settle();
    }
}

#[test]
fn streams_of_http2_are_sent_at_the_rate_too() {
    let (_origin, larder) = start();
    larder.get("/video/long");
    let begun = Instant::now();
    let mut client = http2::Client::new(&larder);
    client.ask(1, "GET", "/video/long", &[]);
    client.ask(3, "GET", "/video/short", &[]);
    assert_eq!(client.response(3).body, b"short");
    assert!(
        !client.responses.get(&1).is_some_and(|long| long.whole),
        "a short reply does not wait for a long one"
    );
    assert_eq!(client.response(1).body.len(), LONG);
    assert!(begun.elapsed() >= LEAST);
}

#[test]
fn short_replies_at_a_rate_are_sent_whole() {
    let (_origin, larder) = start();
    for _ in 0..2 {
        assert_eq!(larder.get("/video/short").text(), "short");
    }
}

#[test]
fn replies_to_one_client_or_to_all_share_a_rate() {
    let body = "a".repeat(LONG / 2);
    let origin = Origin::by(move |_| format!("200 OK\nCache-Control: max-age=60\n\n{body}"));
    let rule = "[[site.rule]]\nbandwidth = { rate = '100KiB', by = 'client' }\n[[site.rule]]\nmatch.path = '/all'\nbandwidth = { rate = '100KiB', by = 'all' }";
    let larder = Larder::start(&format!("trust = '127.0.0.1'\n{}", larder_testkit::site(&[&origin], rule)));
    let time = |path: &str, clients: [&str; 2]| {
        let begun = Instant::now();
        let mut asking = clients.map(|client| (client, larder.client()));
        for (client, asking) in &mut asking {
            asking.send(&format!("GET {path}\nX-Forwarded-For: {client}"));
        }
        asking.iter_mut().for_each(|(_, asking)| assert_eq!(asking.receive("GET").body.len(), LONG / 2));
        begun.elapsed()
    };
    assert!(time("/", ["192.0.2.1", "192.0.2.1"]) >= LEAST);
    // A busy machine delays clients without a common limit, too.
    let is_apart = || (time("/", ["192.0.2.1", "192.0.2.2"]) < LEAST).then_some(());
    eventually("each client to have its own rate", is_apart);
    assert!(time("/all", ["192.0.2.1", "192.0.2.2"]) >= LEAST);
}
