//! Clients that violate the protocol or stay idle, and the closing of doors.

use std::io::Read;
use std::net::TcpStream;

use larder_testkit::{Answer, Larder, Origin, raise_open_files};
use rustix::process::Signal;

use crate::caller::{Caller, DOORS, get, open};

const SHORT: &str = "[doors]\nidle = '300ms'\n[timeouts]\nhead = '300ms'";

#[test]
fn idle_clients_are_closed_and_so_is_half_a_request() {
    let origin = Origin::always("200 OK\nCache-Control: max-age=100\n\nthe page");
    let larder = open(SHORT);
    for door in DOORS {
        let [mut idle, mut half] = [(), ()].map(|()| Caller::to(&larder, door));
        assert_eq!(idle.page(&origin.url()), "the page", "{door}");
        let call = half.encode(&get(&origin.url()));
        half.send(&call[..call.len() - 1]);
        let late = if door == "line" { "!408 the rest of the line did not come in time\n" } else { "" };
        assert_eq!((idle.rest().len(), half.rest()), (0, late.into()), "{door}");
    }
    larder.wait_for("connections", 0);
}

#[test]
fn invalid_rpc_bytes_are_rejected_and_do_not_affect_other_callers() {
    let larder = open("");
    let origin = Origin::always("200 OK\nCache-Control: max-age=100\n\nthe page");
    let mut bystanders = DOORS.map(|door| Caller::to(&larder, door));
    let no_line = vec![b'x'; 100_000];
    let rows: [(&str, &[u8], &str); 8] = [
        ("thrift", b"\xff\xff\xff\xff\x80\x01\x00\x01", ""),
        ("thrift", b"\x00\xff\xff\xff", ""),
        ("thrift", b"GET / HTTP/1.1\r\n\r\n", ""),
        ("onc", b"\xff\xff\xff\xff\x00\x00\x00\x01", ""),
        ("onc", b"\x00\x10\x00\x00", ""),
        ("onc", &[0; 80], ""),
        ("line", &no_line, "!414 a line of more than"),
        ("line", b"*NONSENSE\n\xff\xff\n", "!400 unknown command"),
    ];
    for (door, bytes, answer) in rows {
        let mut caller = Caller::to(&larder, door);
        caller.send(bytes);
        let _ = caller.stream.shutdown(std::net::Shutdown::Write);
        let rest = caller.rest();
        let text = String::from_utf8_lossy(&rest);
        assert!(text.starts_with(answer) && (!answer.is_empty() || text.is_empty()), "{door}: {text:?}");
    }
    for bystander in &mut bystanders {
        assert_eq!(bystander.page(&origin.url()), "the page");
    }
}

#[test]
fn thrift_transports_that_are_not_supported_are_closed_at_once() {
    let larder = open("");
    let theader = b"\0\0\0\x2e\x0f\xff\0\0\0\0\0\x01";
    for bytes in [&theader[..], &[0; 4]] {
        let mut caller = Caller::to(&larder, "thrift");
        caller.send(bytes);
        // The client keeps its side open, and has 30 seconds for a call.
        assert_eq!(caller.rest().len(), 0, "{bytes:?}");
    }
}

#[test]
fn a_drain_ends_idle_clients_and_finishes_calls() {
    let (gate, origin) = Origin::gated(|_, held| {
        Answer::raw("HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\nthe ").then_wait(held).then("page")
    });
    let mut larder = open("");
    let mut idle = DOORS.map(|door| Caller::to(&larder, door));
    let mut busy = DOORS.map(|door| Caller::to(&larder, door));
    for caller in &mut busy {
        let call = caller.encode(&get(&origin.url()));
        caller.send(&call);
    }
    origin.wait_for(3);
    larder.wait_for("connections", 6);
    larder.signal(Signal::TERM);
    idle.iter_mut().for_each(|caller| assert_eq!(caller.rest().len(), 0));
    gate.open();
    for caller in &mut busy {
        assert_eq!(caller.answer(), Some(larder_rpc::Answer::Page("the page".into())));
    }
    assert!(larder.ended().success());
}

#[test]
fn too_many_connections_are_closed_on_arrival() {
    let larder = open("[limits]\nconnections = 2");
    let mut kept = [(), ()].map(|()| Caller::to(&larder, "line"));
    larder.wait_for("connections", 2);
    assert_eq!(Caller::to(&larder, "thrift").rest().len(), 0);
    assert_eq!(kept[0].failure("nothing").status, 400);
}

/// Connects as many clients of the line door as this project guarantees, or as the system allows.
fn crowd(larder: &Larder) -> Vec<TcpStream> {
    let allowed = raise_open_files() / 2;
    let connect = |_| TcpStream::connect(larder.door("line")).expect("a connection");
    (0..allowed.min(10_000)).map(connect).collect()
}

#[test]
fn ten_thousand_idle_clients_take_little_memory_until_their_time_is_up() {
    let patient = open("[doors]\nidle = '1h'");
    let before = patient.resident();
    let callers = crowd(&patient);
    let count = callers.len() as u64;
    patient.wait_for("connections", count);
    let each = patient.resident().saturating_sub(before) / count;
    assert!(each < 5_000, "{each} bytes for each idle client");
    drop(callers);
    patient.wait_for("connections", 0);

    let strict = open("[doors]\nidle = '1s'");
    let callers = crowd(&strict);
    strict.wait_for("connections", 0);
    for mut caller in callers {
        assert_eq!(caller.read(&mut [0]).expect("an end"), 0);
    }
}
