//! Balancing of requests between several origins.

use larder_testkit::{Answer, Larder, Origin, eventually};

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
    let (gate, slow) = Origin::gated(|_, held| {
        Answer::raw("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nab").then_wait(held).then("cd")
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

#[test]
fn a_url_stays_with_its_origin_while_that_answers() {
    let origins: Vec<_> = (0..3).map(|_| Origin::by(|seen| format!("200 OK\n\n{}", seen.target))).collect();
    let larder =
        before(&[(&origins[0], 1), (&origins[1], 1), (&origins[2], 1)], "balance = 'hash'\nmax_fails = 1");
    let counts = |path: &str| origins.iter().map(|origin| origin.count_of(path)).collect::<Vec<_>>();
    for path in ["/a", "/b", "/c"] {
        (0..4).for_each(|_| assert_eq!(larder.get(path).text(), path));
        assert!(counts(path).contains(&4), "{path}: {:?}", counts(path));
    }
    let holder = counts("/a").iter().position(|count| *count == 4).expect("one has it");
    origins[holder].die();
    (0..4).for_each(|_| assert_eq!(larder.get("/a").text(), "/a"));
    assert_eq!(counts("/a").iter().filter(|count| **count == 4).count(), 2, "{:?}", counts("/a"));
}

#[test]
fn least_time_prefers_the_origin_that_answers_sooner() {
    // Longer than a busy machine delays the other one.
    let slow = Origin::by(|_| {
        std::thread::sleep(std::time::Duration::from_millis(400));
        ANSWER.to_owned()
    });
    let quick = Origin::always(ANSWER);
    let larder = before(&[(&slow, 1), (&quick, 1)], "balance = 'least-time'");
    for _ in 0..30 {
        assert_eq!(larder.get("/").status, 200);
    }
    // Until each has answered once, its time is unknown.
    assert!((1..=3).contains(&slow.count()), "{}", slow.count());
}

#[test]
fn an_origin_with_errors_in_a_row_is_ejected_with_its_reason() {
    let (bad, well) = (Origin::always("503 Service Unavailable"), Origin::always(ANSWER));
    let larder = before(&[(&bad, 1), (&well, 1)], "max_errors = 3");
    let failed = (0..20).filter(|_| larder.get("/").status == 503).count();
    assert_eq!((failed, bad.count()), (3, 3));
    let said = larder.ask_admin("GET /why?url=http://site.test/").text().to_owned();
    assert!(said.contains("ejected: 3 answers with errors in a row, the last 503"), "{said}");
    let alone = before(&[(&bad, 1)], "max_errors = 3");
    (0..5).for_each(|_| assert_eq!(alone.get("/").status, 503));
}

#[test]
fn retries_end_with_their_budget() {
    let dead: Vec<_> = (0..2).map(|_| Origin::speaking(|peer| _ = peer.request())).collect();
    let keys = "retries = 1\nmax_fails = 1000\nretry_budget = '10%'";
    let larder = before(&[(&dead[0], 1), (&dead[1], 1)], keys);
    for _ in 0..40 {
        assert_eq!(larder.get("/").status, 502);
    }
    // Ten more are always allowed. A request on a connection that was used before is not one of these.
    let retries = dead.iter().map(Origin::count).sum::<usize>() - 40;
    assert!((10..=14).contains(&retries), "{retries}");
}

#[test]
fn a_late_request_is_hedged_at_another_origin() {
    let (gate, slow) = Origin::gated(|seen, held| match seen.target.as_str() {
        "/late" => Answer::default().then_wait(held).then("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nslow"),
        _ => Answer::with_body("200 OK", b"slow"),
    });
    let quick = Origin::always("200 OK\n\nquick");
    let larder = before(&[(&slow, 1), (&quick, 1)], "hedge = '5%'");
    for _ in 0..100 {
        assert_eq!(larder.get("/").status, 200);
    }
    assert_eq!(
        [larder.get("/late"), larder.get("/late")].map(|answer| answer.text().to_owned()),
        ["quick", "quick"]
    );
    assert_eq!(larder.ask("POST /\n\nonce").status, 200);
    gate.open();
    assert!((1..=2).contains(&slow.count_of("/late")));
}
