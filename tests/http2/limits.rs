//! Limits for the effects of open streams: memory, time and frames.

use std::thread::sleep;
use std::time::{Duration, Instant};

use larder_testkit::http2::*;
use larder_testkit::{Answer, Larder, Origin, PATIENCE, eventually};

const NO_ERROR: u32 = 0;
const CANCEL: u32 = 8;
const ENHANCE_YOUR_CALM: u32 = 11;

#[test]
fn streams_that_stall_hold_little_of_what_a_disk_has() {
    let folder = tempfile::tempdir().expect("a folder");
    let content = vec![b'x'; 1 << 20];
    let body = content.clone();
    let origin = Origin::answering(move |_| Answer::with_body("200 OK\nCache-Control: max-age=3600", &body));
    let config = format!(
        "[memory]\nsize = '8MiB'\n[[disk]]\npath = '{}'\nsize = '128MiB'\n[[site]]\norigin = '{}'\n",
        folder.path().display(),
        origin.url()
    );
    let mut larder = Larder::start(&config);
    let mut client = Client::new(&larder);
    let objects: Vec<_> = (0..60_u32).map(|number| 2 * number + 1).collect();
    for stream in &objects {
        assert_eq!(client.get(*stream, &format!("/{stream}")).body.len(), 1 << 20);
    }
    eventually("objects on the disk", || {
        let disk = &larder.stats()["disks"][0];
        (disk["stored"].as_u64()? >= 60 && disk["bytes_queued"] == 0).then_some(())
    });
    larder.stop();
    let larder = Larder::start(&config);
    eventually("a disk in use", || (larder.stats()["disks"][0]["state"] == "ready").then_some(()));
    let before = larder.resident();
    let mut client = Client::with(larder.address(), &[(4, 0)]);
    for stream in &objects {
        client.ask(*stream, "GET", &format!("/{stream}"), &[]);
    }
    assert!(client.until(|client| client.responses.len() == objects.len()), "heads come, content waits");
    let grown = larder.resident().saturating_sub(before);
    assert!(grown < 32 << 20, "60 streams hold {grown} bytes");
    // The responses continue when their windows open.
    client.send(SETTINGS, 0, 0, &[0, 4, 0, 0x20, 0, 0]);
    for stream in &objects {
        assert_eq!(client.response(*stream).body, content, "{stream}");
    }
    assert_eq!(origin.count(), 60, "all were hits");
}

#[test]
fn frames_are_read_while_streams_write() {
    const LARGE: usize = 20 << 20;
    let content = vec![b'x'; LARGE];
    let origin = Origin::answering(move |seen| match seen.method.as_str() {
        "POST" => Answer::with_body("200 OK", b"hello"),
        _ => Answer::with_body("200 OK\nCache-Control: no-store", &content),
    });
    let larder = Larder::before(&origin);
    let mut client = Client::with(larder.address(), &[(4, i32::MAX as u32)]);
    client.send(WINDOW_UPDATE, 0, 0, &(i32::MAX as u32 - 65_535).to_be_bytes());
    client.reads = false;
    let large = [1, 3, 5];
    for stream in large {
        client.ask(stream, "GET", &format!("/{stream}"), &[]);
    }
    let came =
        |client: &Client| -> usize { client.responses.values().map(|response| response.body.len()).sum() };
    assert!(client.until(|client| came(client) > 1 << 20));
    // The proxy reads requests and content while it writes large responses.
    for stream in [7, 9] {
        client.post(stream, "/", &[], &[&[b'a'; 10_000][..]; 6]);
        assert_eq!(client.response(stream).body, b"hello");
    }
    assert_eq!(origin.last().body.len(), 60_000);
    assert!(came(&client) < large.len() * LARGE, "they were answered behind everything else");
    for stream in large {
        client.send(RST_STREAM, 0, stream, &CANCEL.to_be_bytes());
    }
    client.post(11, "/", &[], &[]);
    assert_eq!(client.response(11).body, b"hello");
    larder.wait_for("in_flight", 0);
}

#[test]
fn streams_that_wait_for_others_are_not_given_up() {
    const LENGTH: usize = 210_000;
    let content = vec![b'x'; LENGTH];
    let origin = Origin::answering(move |_| Answer::with_body("200 OK\nCache-Control: max-age=60", &content));
    let larder = Larder::with(&origin, "[timeouts]\nstall = '2s'\nmin_rate = 0\n");
    larder.client().ask("GET /\nHost: a.example");
    larder.settle();
    let mut client = Client::with(larder.address(), &[(4, 1 << 20)]);
    client.reads = false;
    // The first stream is urgent: it alone uses the window of the connection, which opens in small steps for longer
    // than `stall`.
    client.ask(1, "GET", "/", &[("priority", "u=0")]);
    client.ask(3, "GET", "/", &[("priority", "u=7")]);
    let begun = Instant::now();
    let came =
        |client: &Client| -> usize { client.responses.values().map(|response| response.body.len()).sum() };
    let is_over = |client: &Client| {
        client.responses.get(&1).is_some_and(|response| response.whole || response.reset.is_some())
    };
    while !is_over(&client) {
        let before = came(&client);
        // A fifth of a frame.
        client.send(WINDOW_UPDATE, 0, 0, &3_275_u32.to_be_bytes());
        assert!(client.until(|client| came(client) > before || is_over(client)));
        sleep(Duration::from_millis(50));
    }
    assert!(begun.elapsed() > Duration::from_secs(2));
    client.reads = true;
    client.send(WINDOW_UPDATE, 0, 0, &400_000_u32.to_be_bytes());
    for stream in [1, 3] {
        let response = client.response(stream);
        assert_eq!((response.body.len(), response.whole, response.reset), (LENGTH, true, None), "{stream}");
    }
}

#[test]
fn a_client_that_only_pings_is_idle() {
    let origin = Origin::always("200 OK\nCache-Control: max-age=60\n\nhello");
    let larder = Larder::with(&origin, "[timeouts]\nidle = '500ms'\n");
    let mut client = Client::new(&larder);
    client.get(1, "/");
    let begun = Instant::now();
    while client.farewell.is_none() {
        assert!(begun.elapsed() < PATIENCE, "it goes on for ever");
        if !client.try_send(PING, 0, 0, &[7; 8]) || !client.step() {
            break;
        }
        sleep(Duration::from_millis(50));
    }
    while client.step() {}
    assert_eq!(client.farewell, Some(NO_ERROR));
}

/// Starts an origin with pages of 100,000 bytes that may be stored, and a larder before it.
pub(super) fn with_large_pages() -> (Origin, Larder) {
    let content = vec![b'x'; 100_000];
    let origin = Origin::answering(move |_| Answer::with_body("200 OK\nCache-Control: max-age=60", &content));
    let larder = Larder::before(&origin);
    (origin, larder)
}

/// Returns the bytes that 1,000 streams with stalled responses hold, if each head has `fields` fields of 4,000 bytes
/// that are encoded in one byte each.
fn held(fields: usize) -> u64 {
    let (_origin, larder) = with_large_pages();
    larder.client().ask("GET /\nHost: a.example");
    larder.settle();
    let before = larder.resident();
    let mut clients: Vec<_> = (0..10).map(|_| Client::with(larder.address(), &[(4, 0)])).collect();
    for client in &mut clients {
        for stream in (1..200).step_by(2) {
            let mut head = client.head("GET", "/", &[]);
            if stream == 1 {
                // The first head adds an entry to the dynamic table, which each later byte repeats.
                head.extend([&[0x40, 4][..], b"x-xx", &[0x7f, 0x9d, 0x1e]].concat());
                head.extend([b'y'; 3_996]);
            }
            head.extend([0x80 | 62].repeat(fields));
            client.send(HEADERS, END_HEADERS | END_STREAM, stream, &head);
        }
        assert!(client.until(|client| client.responses.len() == 100), "heads come, content waits");
        assert!(client.responses.values().all(|response| response.status == 200));
    }
    larder.resident().saturating_sub(before)
}

#[test]
fn large_heads_of_small_blocks_are_not_kept_while_responses_stall() {
    let (small, large) = (held(1), held(6));
    // Stored heads would be 20 MB more.
    assert!(large < small + (10 << 20), "{large} instead of {small} bytes");
}

#[test]
fn a_window_that_opens_byte_by_byte_is_an_attack() {
    let (_origin, larder) = with_large_pages();
    let mut client = Client::with(larder.address(), &[(4, 0)]);
    client.reads = false;
    client.ask(1, "GET", "/", &[]);
    assert!(client.until(|client| client.responses.contains_key(&1)));
    let dribble = frame(WINDOW_UPDATE, 0, 1, &1_u32.to_be_bytes()).repeat(100);
    for _ in 0..200 {
        if !client.try_raw(&dribble) {
            break;
        }
    }
    client.until(|client| client.farewell.is_some());
    assert_eq!(client.farewell, Some(ENHANCE_YOUR_CALM));
    assert_eq!(Client::new(&larder).get(1, "/").body.len(), 100_000);
}

#[test]
fn content_that_comes_byte_by_byte_is_refused() {
    let origin = Origin::always("200 OK\n\nhello");
    let larder = Larder::with(&origin, "[timeouts]\nstall = '500ms'\nmin_rate = 1000\n");
    let mut client = Client::new(&larder);
    let head = client.head("POST", "/", &[]);
    client.send(HEADERS, END_HEADERS, 1, &head);
    let begun = Instant::now();
    while !client.responses.contains_key(&1) {
        assert!(begun.elapsed() < PATIENCE, "it goes on for ever");
        client.try_send(DATA, 0, 1, b"x");
        // The answer to the PING arrives at once.
        client.send(PING, 0, 0, &[7; 8]);
        assert!(client.step());
        sleep(Duration::from_millis(20));
    }
    assert_eq!(client.response(1).status, 408);
}

/// The response is not whole without them: gRPC has its status there.
#[test]
fn trailers_beyond_the_limit_of_the_client_reset_their_stream() {
    let origin = Origin::answering(|seen| {
        let length = seen.target[1..].parse().expect("a length");
        let trailer = format!("X-Sum: {}", "7".repeat(length));
        Answer::raw(format!(
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n{trailer}\r\n\r\n"
        ))
    });
    let larder = Larder::before(&origin);
    let mut client = Client::with(larder.address(), &[(6, 4_096)]);
    assert_eq!(client.get(1, "/4000").reset, None);
    assert_eq!(client.get(3, "/4096").reset, Some(2), "INTERNAL_ERROR");
}

/// RFC 9113 section 6.5.2.
#[test]
fn heads_beyond_the_limit_of_the_client_are_not_sent() {
    let origin = Origin::by(|seen| match seen.target.as_str() {
        "/long" => format!("200 OK\nCache-Control: max-age=60\nLong: {}\n\nbody", "x".repeat(4_096)),
        "/many" => format!("200 OK\nCache-Control: max-age=60\n{}\nbody", "A: b\n".repeat(200)),
        _ => "200 OK\nCache-Control: max-age=60\n\nbody".to_owned(),
    });
    let larder = Larder::before(&origin);
    let mut limited = Client::with(larder.address(), &[(6, 4_096)]);
    let mut other = Client::new(&larder);
    for (number, (path, fits)) in
        [("/long", false), ("/many", false), ("/", true)].into_iter().cycle().take(6).enumerate()
    {
        let stream = 2 * number as u32 + 1;
        let answer = limited.get(stream, path);
        let size: usize = answer.fields.iter().map(|(name, value)| name.len() + value.len() + 32).sum();
        assert_eq!((answer.status, size <= 4_096), (if fits { 200 } else { 502 }, true), "{path}");
        assert!(fits || String::from_utf8_lossy(&answer.body).contains("SETTINGS_MAX_HEADER_LIST_SIZE"));
        assert_eq!(other.get(stream, path).status, 200, "{path}");
    }
    assert_eq!(origin.count(), 3, "what one client does not accept is stored for others");
    let mut exact = Client::with(larder.address(), &[(6, 8_192)]);
    assert_eq!(exact.get(1, "/long").status, 200, "a list that only counting shows to fit");
}
