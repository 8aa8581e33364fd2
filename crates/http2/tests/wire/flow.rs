//! Flow control in both directions, and the order of responses.

use larder_http2::{DATA_PAYLOAD, LINGER, Limits};

use crate::client::*;

fn lengths(frames: &[Frame]) -> Vec<(u32, usize)> {
    frames.iter().filter(|frame| frame.0 == DATA).map(|frame| (frame.2, frame.3.len())).collect()
}

#[test]
fn content_waits_for_windows() {
    let mut client = Client::new();
    client.get(1, "/");
    let content = vec![7; 100_000];
    let mut taken = client.answer(1, &content);
    assert_eq!(taken, 65_535);
    assert_eq!(
        lengths(&client.frames()),
        [(1, DATA_PAYLOAD), (1, DATA_PAYLOAD), (1, DATA_PAYLOAD), (1, DATA_PAYLOAD), (1, 35)]
    );
    assert_eq!(client.connection.next_to_send(), None);
    // An update of the stream's window alone is not enough.
    assert_eq!(client.send(WINDOW_UPDATE, 0, 1, &50_000_u32.to_be_bytes()), [Heard::Windows]);
    assert_eq!(client.connection.next_to_send(), None);
    assert_eq!(client.send(WINDOW_UPDATE, 0, 0, &10_000_u32.to_be_bytes()), [Heard::Windows]);
    assert_eq!(client.connection.next_to_send(), Some((1, 10_000)));
    taken += client.data(1, &content[taken..]);
    assert_eq!(taken, 75_535);
    client.send(WINDOW_UPDATE, 0, 0, &1_000_000_u32.to_be_bytes());
    assert_eq!(client.connection.room(1), 40_000);
    taken += client.data(1, &content[taken..]);
    assert_eq!((taken, client.connection.open_streams()), (100_000, 0));
    assert_eq!(client.frames().last().map(|frame| frame.1), Some(END_STREAM));
}

#[test]
fn a_frame_of_content_fills_a_tls_record() {
    assert_eq!(DATA_PAYLOAD + 9, 16 << 10);
}

#[test]
fn the_first_window_changes_those_of_open_streams() {
    let mut client = Client::new();
    client.send(SETTINGS, 0, 0, &setting(4, 10));
    client.get(1, "/");
    assert_eq!(client.answer(1, &[0; 100]), 10);
    client.send(SETTINGS, 0, 0, &setting(4, 4));
    // The window is negative now: six more bytes are needed before one can be sent.
    client.send(WINDOW_UPDATE, 0, 1, &6_u32.to_be_bytes());
    assert_eq!(client.connection.next_to_send(), None);
    assert_eq!(client.send(SETTINGS, 0, 0, &setting(4, 5)), [Heard::Windows]);
    assert_eq!(client.connection.next_to_send(), Some((1, 1)));
    assert_eq!(client.data(1, &[0; 90]), 1);
}

#[test]
fn an_end_needs_no_window() {
    let mut client = Client::new();
    client.send(SETTINGS, 0, 0, &setting(4, 0));
    client.get(1, "/");
    assert_eq!(client.answer(1, b""), 0);
    assert_eq!(client.frames().last(), Some(&Frame(DATA, END_STREAM, 1, Vec::new())));
    assert_eq!(client.connection.open_streams(), 0);
}

#[test]
fn a_smaller_table_is_acknowledged_in_the_next_section_only() {
    let mut client = Client::new();
    client.send(SETTINGS, 0, 0, &setting(1, 0));
    for (stream, begins) in [(1, 0x20), (3, 0x88)] {
        client.get(stream, "/");
        client.frames();
        client.connection.head(&mut client.out, stream, 200, true, |_| {});
        assert_eq!(client.frames()[0].3[0], begins);
    }
}

#[test]
fn reading_content_opens_the_stream_and_connection_windows_again() {
    let limits = Limits { stream_window: 65_535, connection_window: 100_000, ..Limits::default() };
    let mut client = Client::with(limits);
    let piece = [0; 16_384];
    for stream in [1, 3] {
        client.send(HEADERS, END_HEADERS, stream, &post(&[]));
        for _ in 0..3 {
            client.send(DATA, 0, stream, &piece);
        }
    }
    // 98,304 bytes are unread; the connection accepts no more than 100,000.
    assert_eq!(client.frames(), []);
    client.connection.release(&mut client.out, 1, 1_000);
    assert_eq!(client.frames(), []);
    // The released bytes now equal the remaining window of the client.
    client.connection.release(&mut client.out, 1, 9_000);
    assert_eq!(client.frames(), [window(0, 10_000)]);
    client.connection.release(&mut client.out, 1, 30_000);
    assert_eq!(client.frames(), [window(1, 40_000), window(0, 30_000)]);
    client.connection.release(&mut client.out, 3, 49_152);
    assert_eq!(client.frames(), [window(3, 49_152), window(0, 49_152)]);
    assert_eq!(client.connection.validate(), Ok(()));
}

#[test]
fn content_after_the_response_is_ignored_for_a_second() {
    let mut client = Client::new();
    for stream in [1, 3, 5, 7] {
        client.send(HEADERS, END_HEADERS, stream, &post(&[]));
        assert_eq!(client.send(DATA, 0, stream, b"read").len(), 1);
        client.connection.head(&mut client.out, stream, 403, true, |_| {});
    }
    client.connection.linger(&mut client.out, 5_000);
    client.frames();
    let piece = [0; 16_000];
    let ends: [(u8, u8, &[u8]); 3] =
        [(DATA, END_STREAM, &piece), (RST_STREAM, 0, &[0; 4]), (DATA, 0, &piece)];
    for (stream, (kind, flags, payload)) in [1, 3, 5].into_iter().zip(ends) {
        assert_eq!(client.send(kind, flags, stream, payload), []);
    }
    client.connection.linger(&mut client.out, 4_999 + LINGER);
    assert_eq!((client.frames(), client.connection.open_streams()), (vec![], 2), "two have ended");
    client.connection.linger(&mut client.out, 5_000 + LINGER);
    let late = [5, 7].map(|stream| reset(stream, 0));
    assert_eq!((client.frames(), client.connection.is_lingering()), (late.to_vec(), false));
    assert_eq!(client.connection.validate(), Ok(()));
}

#[test]
fn padding_and_unread_content_return_to_the_window() {
    let mut client = Client::new();
    for stream in (1..).step_by(2).take(60) {
        client.send(HEADERS, END_HEADERS, stream, &post(&[]));
        client.send(DATA, PADDED, stream, &[&[255][..], &[0; 16_000]].concat());
        client.connection.head(&mut client.out, stream, 200, true, |_| {});
        assert_eq!(client.connection.validate(), Ok(()));
    }
    let more: u32 = client
        .frames()
        .iter()
        .filter(|frame| frame.0 == WINDOW_UPDATE && frame.2 == 0)
        .map(|frame| u32::from_be_bytes(frame.3[..4].try_into().unwrap()))
        .sum();
    assert!(more > 500_000, "{more}");
}

#[test]
fn more_content_than_a_window_is_an_error() {
    let limits = Limits { stream_window: 65_535, ..Limits::default() };
    let mut client = Client::with(limits);
    client.send(HEADERS, END_HEADERS, 1, &post(&[]));
    for _ in 0..3 {
        client.send(DATA, 0, 1, &[0; 16_384]);
    }
    assert_eq!(client.send(DATA, 0, 1, &[0; 16_384]), [Heard::Reset(1, 3)]);
    let limits = Limits { stream_window: 1 << 20, connection_window: 65_535, ..Limits::default() };
    let mut client = Client::with(limits);
    client.send(HEADERS, END_HEADERS, 1, &post(&[]));
    for _ in 0..3 {
        client.send(DATA, 0, 1, &[0; 16_384]);
    }
    assert!(matches!(client.send(DATA, 0, 1, &[0; 16_384])[..], [Heard::Failed(3, _)]));
}

/// Sends 40,000 bytes on each stream, 16,375 at a time, in the order of their turns. Returns that order.
fn order(client: &mut Client, streams: &[u32]) -> Vec<u32> {
    client.send(SETTINGS, 0, 0, &setting(4, 1 << 20));
    client.send(WINDOW_UPDATE, 0, 0, &(1_u32 << 20).to_be_bytes());
    for &stream in streams {
        client.connection.head(&mut client.out, stream, 200, false, |_| {});
        client.connection.want(stream, true);
    }
    let (mut left, mut order) =
        (std::collections::BTreeMap::from_iter(streams.iter().map(|id| (*id, 40_000))), Vec::new());
    while let Some((stream, room)) = client.connection.next_to_send() {
        let rest = left.get_mut(&stream).expect("a stream with content");
        let length = DATA_PAYLOAD.min(room).min(*rest);
        *rest -= length;
        assert_eq!(client.connection.data(&mut client.out, stream, &vec![0; length], *rest == 0), length);
        client.connection.want(stream, *rest > 0);
        order.push(stream);
    }
    order
}

#[test]
fn rfc9218_section_10_urgent_responses_come_first_and_incremental_ones_in_turn() {
    let mut client = Client::new();
    let requests = [(1, "u=5"), (3, "u=1, i"), (5, "u=1, i"), (7, "u=0"), (9, "")];
    for (stream, priority) in requests {
        client.send(HEADERS, END_HEADERS | END_STREAM, stream, &post(&[("priority", priority)]));
    }
    assert_eq!(order(&mut client, &[1, 3, 5, 7, 9]), [7, 7, 7, 3, 5, 3, 5, 3, 5, 9, 9, 9, 1, 1, 1]);
}

#[test]
fn rfc9218_section_7_priorities_can_be_updated_also_in_advance() {
    let mut client = Client::new();
    let update = |stream: u32, value: &[u8]| [&stream.to_be_bytes()[..], value].concat();
    client.send(PRIORITY_UPDATE, 0, 0, &update(5, b"u=0"));
    for stream in [1, 3, 5] {
        client.get(stream, "/");
    }
    client.send(PRIORITY_UPDATE, 0, 0, &update(3, b"u=1"));
    // Priorities of streams that are closed or far ahead have no cost.
    for stream in (101..1_001).step_by(2) {
        client.send(PRIORITY_UPDATE, 0, 0, &update(stream, b"u=2"));
    }
    assert_eq!(order(&mut client, &[1, 3, 5]), [5, 5, 5, 3, 3, 3, 1, 1, 1]);
}

#[test]
fn a_response_without_an_end_does_not_hold_up_the_others() {
    let mut client = Client::new();
    client.send(SETTINGS, 0, 0, &setting(4, 1 << 30));
    client.send(WINDOW_UPDATE, 0, 0, &(1_u32 << 30).to_be_bytes());
    for stream in [1, 3, 5] {
        client.get(stream, "/");
        client.connection.head(&mut client.out, stream, 200, false, |_| {});
        client.connection.want(stream, true);
    }
    let mut sent = [0_usize; 3];
    for _ in 0..1_000 {
        let (stream, _) = client.connection.next_to_send().expect("a stream with content");
        let taken = client.connection.data(&mut client.out, stream, &vec![0; DATA_PAYLOAD], false);
        client.connection.want(stream, true);
        client.out.clear();
        sent[stream as usize / 2] += taken;
    }
    let (most, least) = (sent.iter().max().copied(), sent.iter().min().copied());
    assert!(
        most.zip(least).is_some_and(|(most, least)| most - least <= (1 << 20) + DATA_PAYLOAD),
        "{sent:?}"
    );
}

#[test]
fn a_stream_that_sent_much_waits_for_younger_ones_only_a_while() {
    let mut client = Client::new();
    client.send(SETTINGS, 0, 0, &setting(4, 1 << 30));
    client.send(WINDOW_UPDATE, 0, 0, &(1_u32 << 30).to_be_bytes());
    let begin = |client: &mut Client, stream| {
        client.get(stream, "/");
        client.connection.head(&mut client.out, stream, 200, false, |_| {});
        client.connection.want(stream, true);
    };
    let send = |client: &mut Client| {
        let (stream, _) = client.connection.next_to_send().expect("a stream with content");
        client.connection.data(&mut client.out, stream, &[0; DATA_PAYLOAD], false);
        client.connection.want(stream, true);
        client.out.clear();
        stream
    };
    begin(&mut client, 1);
    for _ in 0..1_000 {
        assert_eq!(send(&mut client), 1);
    }
    begin(&mut client, 3);
    begin(&mut client, 5);
    let waited = (0..1_000).take_while(|_| send(&mut client) != 1).count() * DATA_PAYLOAD;
    assert!(((3 << 20)..(5 << 20)).contains(&waited), "16 MB ago: {waited}");
}
