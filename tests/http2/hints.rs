//! Early hints: clients of HTTP/2 get them without a setting.

use larder_testkit::http2::Client;
use larder_testkit::{Larder, Origin, site};

const PAGE: &str =
    "200 OK\nCache-Control: no-cache\nETag: \"1\"\nLink: </a.css>; rel=preload; as=style\n\npage";

#[test]
fn links_of_the_stored_response_come_with_103() {
    let origin = Origin::always(PAGE);
    let larder = Larder::before(&origin);
    let mut client = Client::new(&larder);
    let first = client.get(1, "/");
    assert!(first.status == 200 && first.interim.is_empty());
    let second = client.get(3, "/");
    assert_eq!((second.status, second.interim), (200, vec![103]));
    let plain = larder.client().ask("GET /\nHost: a.example");
    assert_eq!(plain.status, 200, "a client of HTTP/1.1 gets the final response only");
}

#[test]
fn off_sends_none() {
    let origin = Origin::always(PAGE);
    let larder = Larder::start(&site(&[&origin], "early_hints = 'off'"));
    let mut client = Client::new(&larder);
    for stream in [1, 3] {
        assert!(client.get(stream, "/").interim.is_empty());
    }
}
