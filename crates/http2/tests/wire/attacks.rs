//! Clients that cause excessive work. Each attack ends with `ENHANCE_YOUR_CALM`, and ordinary use of the same frames
//! does not.

use larder_http2::{Code, Limits};

use crate::client::*;

const CALM: u32 = 11;

/// Returns the number of successful attacks in immediate sequence before the connection ends, at most 100,000.
fn until_it_ends(client: &mut Client, mut attack: impl FnMut(&mut Client, u32) -> Vec<Heard>) -> usize {
    for number in 0..100_000 {
        let heard = attack(client, 2 * number + 1);
        client.out.clear();
        match heard.last() {
            Some(Heard::Failed(code, _)) => {
                assert_eq!(*code, CALM);
                return number as usize;
            }
            _ => assert!(client.connection.open_streams() <= 100),
        }
    }
    panic!("the attack went on");
}

/// Whether the connection survives many repetitions at intervals of a tenth of a second.
fn goes_on(mut step: impl FnMut(&mut Client, u32) -> Vec<Heard>) -> bool {
    let mut client = Client::new();
    (0..5_000).all(|number| {
        client.now += 100;
        let heard = step(&mut client, 2 * number + 1);
        client.out.clear();
        !matches!(heard.last(), Some(Heard::Failed(..)))
    })
}

#[test]
fn rapid_reset() {
    let attack = |client: &mut Client, stream: u32| {
        client.get(stream, "/");
        client.send(RST_STREAM, 0, stream, &8_u32.to_be_bytes())
    };
    assert_eq!(until_it_ends(&mut Client::new(), attack), 300);
    assert!(goes_on(attack));
}

#[test]
fn resets_that_the_client_provokes() {
    let window = |client: &mut Client, stream: u32| {
        client.get(stream, "/");
        client.send(WINDOW_UPDATE, 0, stream, &[0; 4])
    };
    let overflow = |client: &mut Client, stream: u32| {
        client.get(stream, "/");
        client.send(WINDOW_UPDATE, 0, stream, &i32::MAX.to_be_bytes())
    };
    let behind_the_end = |client: &mut Client, stream: u32| {
        client.get(stream, "/");
        client.send(DATA, 0, stream, b"x")
    };
    let wrong_length = |client: &mut Client, stream: u32| {
        client.send(HEADERS, END_HEADERS, stream, &post(&[("content-length", "1")]));
        client.send(DATA, 0, stream, b"xy")
    };
    let malformed = |client: &mut Client, stream: u32| {
        client.send(HEADERS, END_HEADERS | END_STREAM, stream, &block(&[(":method", "GET")]))
    };
    let itself = |client: &mut Client, stream: u32| {
        client.get(stream, "/");
        client.send(PRIORITY, 0, stream, &[&stream.to_be_bytes()[..], &[0]].concat())
    };
    let attacks: [fn(&mut Client, u32) -> Vec<Heard>; 6] =
        [window, overflow, behind_the_end, wrong_length, malformed, itself];
    for attack in attacks {
        assert_eq!(until_it_ends(&mut Client::new(), attack), 100);
        assert!(goes_on(attack));
    }
}

#[test]
fn requests_beyond_the_limit() {
    let attack = |client: &mut Client, stream: u32| client.get(stream, "/");
    assert_eq!(until_it_ends(&mut Client::new(), attack), 200);
}

#[test]
fn a_section_of_many_frames() {
    for (what, part, most) in [("small", &[][..], 9), ("large", &[0x82; 16_384], 5)] {
        let mut client = Client::new();
        let mut wire = frame(HEADERS, END_STREAM, 1, &get("/"));
        let mut frames = 0;
        let heard = loop {
            assert!(frames < 20, "{what}: the server waits for more");
            wire.extend(frame(CONTINUATION, 0, 1, part));
            frames += 1;
            match client.take(&wire).0.pop() {
                None => {}
                heard => break heard,
            }
        };
        assert!(matches!(heard, Some(Heard::Failed(CALM, _))), "{heard:?}");
        assert!(frames <= most, "{what}: {frames}");
    }
}

#[test]
fn frames_that_carry_nothing() {
    let ping: fn(&mut Client, u32) -> Vec<Heard> = |client, _| client.send(PING, 0, 0, &[0; 8]);
    let pong: fn(&mut Client, u32) -> Vec<Heard> = |client, _| client.send(PING, ACK, 0, &[0; 8]);
    let settings: fn(&mut Client, u32) -> Vec<Heard> =
        |client, _| client.send(SETTINGS, 0, 0, &[0, 4, 0, 0, 0, 9]);
    let acknowledged: fn(&mut Client, u32) -> Vec<Heard> = |client, _| client.send(SETTINGS, ACK, 0, &[]);
    let priority: fn(&mut Client, u32) -> Vec<Heard> =
        |client, stream| client.send(PRIORITY, 0, stream, &[0; 5]);
    let updates: fn(&mut Client, u32) -> Vec<Heard> =
        |client, stream| client.send(PRIORITY_UPDATE, 0, 0, &[&stream.to_be_bytes()[..], b"u=1"].concat());
    let unknown: fn(&mut Client, u32) -> Vec<Heard> = |client, _| client.send(0xee, 0, 0, b"x");
    let farewell: fn(&mut Client, u32) -> Vec<Heard> = |client, _| client.send(GOAWAY, 0, 0, &[0; 8]);
    for attack in [ping, pong, settings, acknowledged, priority, updates, unknown, farewell] {
        let count = until_it_ends(&mut Client::new(), attack);
        assert!((3_900..=4_000).contains(&count), "{count}");
        assert!(goes_on(attack));
    }
    for payload in [&[][..], &[3, 0, 0, 0]] {
        let flags = if payload.is_empty() { 0 } else { PADDED };
        let mut client = Client::new();
        client.send(HEADERS, END_HEADERS, 1, &post(&[]));
        let count = until_it_ends(&mut client, |client, _| client.send(DATA, flags, 1, payload));
        assert!((3_900..=4_004).contains(&count), "{count}");
    }
}

#[test]
fn windows_of_single_bytes() {
    let mut client = Client::new();
    client.send(SETTINGS, 0, 0, &[0, 4, 0, 0, 0, 0]);
    client.get(1, "/");
    assert_eq!(client.answer(1, &[0; 100_000]), 0);
    let count = until_it_ends(&mut client, |client, _| {
        let heard = client.send(WINDOW_UPDATE, 0, 1, &1_u32.to_be_bytes());
        client.data(1, &[0; 100_000]);
        heard
    });
    assert!(count <= 4_100, "{count}");
}

#[test]
fn updates_of_windows_that_carry_content_are_no_attack() {
    let mut client = Client::new();
    client.get(1, "/");
    assert_eq!(client.answer(1, &[0; 65_536]), 65_535);
    for _ in 0..5_000 {
        client.returned(1, 1_000);
        assert_eq!(client.data(1, &[0; 1_001]), 1_000);
        client.out.clear();
    }
}

#[test]
fn short_messages_pay_for_the_windows_that_return_them() {
    let mut client = Client::new();
    client.get(1, "/");
    client.begin(1);
    for _ in 0..5_000 {
        assert_eq!(client.connection.data(&mut client.out, 1, b"tick", false), 4);
        client.out.clear();
        client.returned(1, 4);
    }
}

#[test]
fn a_window_in_small_pieces_is_no_attack() {
    let mut client = Client::new();
    client.get(1, "/");
    assert_eq!(client.answer(1, &[0; 65_536]), 65_535);
    for length in [500, 250].repeat(5_000) {
        client.returned(1, length);
        assert_eq!(client.data(1, &[0; 1_000]), length as usize);
        client.out.clear();
    }
}

#[test]
fn a_large_window_may_be_returned_frame_by_frame() {
    let mut client = Client::new();
    let window = 16_u32 << 20;
    client.send(SETTINGS, 0, 0, &setting(4, window));
    client.send(WINDOW_UPDATE, 0, 0, &(window - 65_535).to_be_bytes());
    client.get(1, "/");
    assert_eq!(client.answer(1, &vec![0; window as usize + 1]), window as usize);
    let frames: Vec<u32> = client.frames().iter().map(|frame| frame.3.len() as u32).collect();
    for length in frames.into_iter().filter(|length| *length > 0) {
        client.returned(1, length);
    }
}

#[test]
fn content_without_end_on_streams_that_were_reset_is_an_attack() {
    for (flags, content) in [(END_STREAM, &b""[..]), (0, b"x"), (END_STREAM, b"x")] {
        let mut client = Client::new();
        client.send(HEADERS, END_HEADERS, 1, &post(&[]));
        client.connection.reset(&mut client.out, 1, Code::CANCEL);
        let heard = (0..5_000).find_map(|_| {
            client.out.clear();
            client.send(DATA, flags, 1, content).pop()
        });
        assert!(matches!(heard, Some(Heard::Failed(CALM, _))), "{heard:?}");
    }
}

#[test]
fn frames_of_many_settings_are_an_attack() {
    let mut client = Client::new();
    let settings = setting(4, 70_000).repeat(2_730);
    let heard = (0..30).find_map(|_| client.send(SETTINGS, 0, 0, &settings).pop());
    assert!(matches!(heard, Some(Heard::Failed(CALM, _))), "{heard:?}");
    // The settings of ordinary clients are no attack.
    let mut client = Client::new();
    let settings = (1..=10).flat_map(|name| setting(name, 20_000 * u32::from(name != 2))).collect::<Vec<_>>();
    assert_eq!((0..1_000).find_map(|_| client.send(SETTINGS, 0, 0, &settings).pop()), None);
}

#[test]
fn many_requests_are_no_attack() {
    let mut client = Client::new();
    for stream in (1..40_000).step_by(2) {
        assert_eq!(client.get(stream, "/").len(), 1);
        client.answer(stream, b"hello");
        client.send(WINDOW_UPDATE, 0, 0, &5_u32.to_be_bytes());
        client.out.clear();
    }
}

#[test]
fn references_to_a_large_entry_pin_nothing_while_the_response_stalls() {
    let mut client = Client::new();
    client.send(SETTINGS, 0, 0, &[0, 4, 0, 0, 0, 0]);
    let large = "x".repeat(4_000);
    let entry = [&[0x40, 1, b'a', 127, 0xa1, 0x1e][..], large.as_bytes()].concat();
    for stream in (1..199).step_by(2) {
        let mut head = get("/");
        if stream == 1 {
            head.extend_from_slice(&entry);
        }
        head.extend([0xbe; 7]);
        assert!(matches!(
            client.send(HEADERS, END_HEADERS | END_STREAM, stream, &head)[..],
            [Heard::Head { .. }]
        ));
        assert_eq!(client.answer(stream, b"waits"), 0);
    }
    // 99 heads of 28,000 bytes wait for windows: the connection stores less than one of them.
    assert_eq!(client.connection.open_streams(), 99);
    assert!(client.connection.allocated() < 32 << 10, "{}", client.connection.allocated());
}

#[test]
fn a_small_limit_of_streams_is_a_limit() {
    let mut client = Client::with(Limits { streams: 1, ..Limits::default() });
    client.get(1, "/");
    client.get(3, "/");
    assert_eq!(client.connection.open_streams(), 1);
}
