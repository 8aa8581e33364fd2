//! Connections, permits and lookups that one client or one origin could take from all others.

use std::net::Ipv4Addr;
use std::time::Duration;

use larder_testkit::{Answer, Client, Gate, Larder, Origin};
use rustix::net;

/// Two sites, `a.test` and `b.test`, with 8 permits for both, and room for so many requests that wait.
fn two_sites(a: &Origin, b: &Origin, queue: usize) -> Larder {
    Larder::start(&format!(
        "[limits]\nin_flight = 8\nqueue = {queue}\n\
         [[site]]\nhosts = ['a.test']\norigin = '{}'\n[[site]]\nhosts = ['b.test']\norigin = '{}'\n",
        a.url(),
        b.url()
    ))
}

/// Starts an origin that responds only after `gate` opens.
fn slow(gate: &Gate) -> Origin {
    let held = gate.clone();
    Origin::answering(move |_| {
        Answer::default().then_wait(&held).then("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
    })
}

const OTHER: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);

#[test]
fn clients_that_announce_content_and_send_none_hold_no_permit() {
    let a = Origin::always("200 OK\n\na");
    let b = Origin::always("200 OK\nCache-Control: max-age=100\n\nb");
    let larder = two_sites(&a, &b, 0);
    let mut clients: Vec<_> = (0..8).map(|_| larder.client()).collect();
    assert_eq!(larder.ask("GET /\nHost: b.test").text(), "b");
    larder.settle();
    for client in &mut clients {
        let post = "POST / HTTP/1.1\r\nHost: a.test\r\nContent-Length: 100\r\n\r\n";
        // The hit is sent once the request behind it has been read.
        client.raw(format!("GET / HTTP/1.1\r\nHost: b.test\r\n\r\n{post}").as_bytes());
        assert!(client.receive("GET").is_hit());
    }
    assert_eq!(larder.stat("in_flight"), 0);
    assert_eq!(larder.client().ask("GET /\nHost: b.test").text(), "b");
    assert_eq!((a.count(), a.connections()), (0, 0));
}

#[test]
fn one_clients_slow_uploads_leave_permits_for_other_clients_at_every_site() {
    let (a, b) = (Origin::always("200 OK\n\na"), Origin::always("200 OK\n\nb"));
    let larder = two_sites(&a, &b, 0);
    let mut clients: Vec<_> = (0..8).map(|_| larder.client()).collect();
    for (number, client) in clients.iter_mut().enumerate() {
        // With an expectation, the origin sees the head before there is content.
        let (expectation, content) = if number % 2 == 0 { ("", "x") } else { ("\nExpect: 100-continue", "") };
        client.send(&format!("POST /\nHost: a.test\nContent-Length: 100{expectation}"));
        client.raw(content.as_bytes());
    }
    // One client leaves two permits to others.
    larder.wait_for("in_flight", 6);
    for host in ["a.test", "b.test"] {
        let answer = Client::from(OTHER, larder.address()).ask(&format!("GET /\nHost: {host}"));
        assert_eq!(answer.status, 200, "{host}");
    }
}

#[test]
fn a_client_does_not_wait_for_the_origin_permit_of_another() {
    let (gate, b) = (Gate::default(), Origin::always("200 OK\nCache-Control: max-age=100\n\nb"));
    let a = slow(&gate);
    let larder = two_sites(&a, &b, 8);
    let mut greedy: Vec<_> = (0..6).map(|_| larder.client()).collect();
    for (number, client) in greedy.iter_mut().enumerate() {
        client.send(&format!("GET /{number}\nHost: a.test"));
    }
    a.wait_for(6);
    // The first request can be coalesced, the second is a reload.
    for request in ["GET /\nHost: b.test", "GET /reload\nHost: b.test\nCache-Control: no-cache"] {
        let mut first = larder.client();
        first.send(request);
        larder.wait_for("queued", 1);
        assert_eq!(Client::from(OTHER, larder.address()).ask(request).text(), "b");
        assert_eq!(first.receive("GET").text(), "b");
    }
    assert!(!gate.is_open());
    assert_eq!(b.count_of("/"), 1);
    gate.open();
}

#[test]
fn clients_that_asked_and_left_hold_no_permit() {
    let (gate, b) = (Gate::default(), Origin::always("200 OK\n\nb"));
    let a = slow(&gate);
    let larder = two_sites(&a, &b, 0);
    let mut clients: Vec<_> = (0..4).map(|_| larder.client()).collect();
    for (number, client) in clients.iter_mut().enumerate() {
        client.send(&format!("GET /{number}\nHost: a.test"));
    }
    a.wait_for(4);
    drop(clients);
    larder.wait_for("in_flight", 0);
    assert!(!gate.is_open());
    assert_eq!(larder.get("/").status, 421);
    gate.open();
}

/// Lets the client of a fill for `/` disconnect while another client waits for the fill. Returns the number of requests
/// for `/` at the origin until the other client got the response, or disconnected as well.
fn leave(follower_stays: bool) -> usize {
    let (gate, origin) = Origin::gated(|seen, held| match seen.target.as_str() {
        "/warm" => Answer::with_body("200 OK\nCache-Control: max-age=100", b"warm"),
        _ => Answer::default()
            .then_wait(held)
            .then("HTTP/1.1 200 OK\r\nCache-Control: max-age=100\r\nContent-Length: 2\r\n\r\nok"),
    });
    let larder = Larder::before(&origin);
    larder.get("/warm");
    let [mut leader, mut follower] = [larder.client(), larder.client()];
    leader.send("GET /");
    origin.wait_for(2);
    let host = "Host: site.test\r\n\r\n";
    // The second client joins the fill soon after it has received the hit before.
    follower.raw(format!("GET /warm HTTP/1.1\r\n{host}GET / HTTP/1.1\r\n{host}").as_bytes());
    assert_eq!(follower.receive("GET").text(), "warm");
    // With a linger time of zero, the close resets the connection.
    net::sockopt::set_socket_linger(&leader.stream, Some(Duration::ZERO)).expect("a socket");
    drop(leader);
    if follower_stays {
        gate.open();
        assert_eq!(follower.receive("GET").text(), "ok");
    } else {
        drop(follower);
        larder.wait_for("in_flight", 0);
        gate.open();
    }
    origin.count_of("/")
}

#[test]
fn a_fetch_continues_while_a_client_waits_for_it_and_no_longer() {
    // If the second client's request was too late to join the fill, it was sent separately: one success in 20 attempts
    // suffices.
    assert!((0..20).any(|_| leave(true) == 1));
    leave(false);
}

#[test]
fn idle_connections_to_many_origins_leave_files_for_others() {
    let origins: Vec<_> = (0..150).map(|_| Origin::always("200 OK\n\nbody")).collect();
    let larder = Larder::start_behind(&["prlimit", "--nofile=200:200"], "[forward]\nallow_private = true\n");
    let mut client = Client::to(larder.forward);
    for origin in &origins {
        let answer = client.ask(&format!("GET {}/\nHost: {}", origin.url(), origin.address));
        assert_eq!(answer.text(), "body");
    }
    let open = std::fs::read_dir(format!("/proc/{}/fd", larder.id())).expect("it runs").count();
    assert!(open < 100, "{open} open files");
    // The most recently used connection is kept.
    let last = origins.last().expect("an origin");
    client.ask(&format!("GET {}/again\nHost: {}", last.url(), last.address));
    assert_eq!((last.count(), last.connections()), (2, 1));
}
