//! Balancing of requests between several origins.

use larder_testkit::{Answer, Gate, Larder, Origin, eventually};

/// Starts a proxy that forwards every request to these origins, with their weights, and `keys`.
fn before(origins: &[(&Origin, u16)], keys: &str) -> Larder {
    let origin = |(origin, weight): &(&Origin, u16)| format!("'{} weight={weight}'", origin.url());
    let origins: Vec<_> = origins.iter().map(origin).collect();
    Larder::start(&format!("[[site]]\norigin = [{}]\ncache = false\n{keys}\n", origins.join(", ")))
}

const ANSWER: &str = "200 OK\n\nan answer";

#[test]
fn origins_take_turns_by_their_weights() {
    let [heavy, light, other] = [0; 3].map(|_| Origin::always(ANSWER));
    let larder = before(&[(&heavy, 5), (&light, 1), (&other, 2)], "");
    for _ in 0..40 {
        assert_eq!(larder.get("/").status, 200);
    }
    assert_eq!([&heavy, &light, &other].map(Origin::count), [25, 5, 10]);
}

#[test]
fn two_choices_avoids_an_origin_that_is_still_sending_an_answer() {
    let gate = Gate::default();
    let held = gate.clone();
    let slow = Origin::answering(move |_| {
        Answer::raw("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nab").then_wait(&held).then("cd")
    });
    let quick = Origin::always(ANSWER);
    let larder = before(&[(&slow, 1), (&quick, 1)], "balance = 'two-choices'");
    let mut client = eventually("a request to the slow one", || {
        let mut client = larder.client();
        client.send("GET /");
        (client.head().field("content-length") == Some("4")).then_some(client)
    });
    let (of_slow, of_quick) = (slow.count(), quick.count());
    for _ in 0..30 {
        assert_eq!(larder.client().ask("GET /").text(), "an answer");
    }
    assert_eq!((slow.count(), quick.count()), (of_slow, of_quick + 30));
    gate.open();
    assert_eq!(client.exactly(4), b"abcd");
    eventually("another request to the slow one", || {
        larder.client().ask("GET /");
        (slow.count() > of_slow).then_some(())
    });
}

#[test]
fn a_retry_uses_another_origin_however_heavy_the_failed_one_is() {
    for balance in ["round-robin", "two-choices"] {
        let (dead, well) = (Origin::always(ANSWER), Origin::always(ANSWER));
        dead.die();
        let keys = format!("balance = '{balance}'\nretries = 1\nmax_fails = 1000");
        let larder = before(&[(&dead, 200), (&well, 1)], &keys);
        for _ in 0..20 {
            assert_eq!(larder.get("/").status, 200);
        }
    }
}
