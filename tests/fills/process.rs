//! Reload and stop of the process while it serves.

use std::net::TcpStream;

use larder_testkit::{Answer, Gate, Larder, Origin, eventually};
use rustix::process::Signal;

fn halting(gate: &Gate) -> Origin {
    let gate = gate.clone();
    Origin::answering(move |_| {
        let head = "HTTP/1.1 200 OK\r\nCache-Control: max-age=100\r\nContent-Length: 10\r\n\r\n01234";
        Answer::raw(head).then_wait(&gate).then("56789")
    })
}

#[test]
fn termination_finishes_running_requests_and_accepts_no_new_connections() {
    let gate = Gate::default();
    let origin = halting(&gate);
    let mut larder = Larder::before(&origin);
    let [mut busy, mut idle] = [larder.client(), larder.client()];
    busy.send("GET /");
    busy.head();
    larder.wait_for("connections", 2);
    larder.signal(Signal::TERM);
    assert!(idle.is_closed());
    eventually("closed doors", || TcpStream::connect(larder.address()).is_err().then_some(()));
    gate.open();
    assert_eq!(busy.exactly(10), b"0123456789");
    assert!(busy.is_closed());
    assert_eq!(larder.ended().code(), Some(0));
}

#[test]
fn a_new_client_may_ask_once_when_the_process_ends() {
    let origin = Origin::answering(|seen| {
        Answer::with_body("200 OK\nCache-Control: max-age=100", seen.target.as_bytes())
    });
    let mut larder = Larder::before(&origin);
    larder.get("/stored");
    let [mut used, mut hit, mut miss, silent] = [(); 4].map(|()| larder.client());
    used.ask("GET /stored");
    larder.wait_for("connections", 4);
    larder.signal(Signal::TERM);
    // From here on the process ends.
    assert!(used.is_closed(), "a client that has asked before");
    let mut clients = [(&mut hit, "/stored"), (&mut miss, "/missing")];
    clients.iter_mut().for_each(|(client, target)| client.send(&format!("GET {target}")));
    for (client, target) in clients {
        let response = client.receive("GET");
        assert_eq!((response.text(), response.field("connection")), (target, Some("close")));
        assert!(client.is_closed());
    }
    assert!(larder.ended().success());
    drop(silent);
}

#[test]
fn told_to_stop_it_waits_no_longer_than_it_should() {
    for again in [false, true] {
        let gate = Gate::default();
        let origin = halting(&gate);
        let drain = if again { "1h" } else { "100ms" };
        let mut larder = Larder::with(&origin, &format!("[timeouts]\ndrain = '{drain}'"));
        let mut stuck = larder.client();
        stuck.send("GET /");
        stuck.head();
        larder.signal(Signal::TERM);
        if again {
            larder.wait_for_log("finishing the requests in progress");
            larder.signal(Signal::TERM);
        }
        assert_eq!(larder.ended().code(), Some(0));
        gate.open();
    }
}

#[test]
fn a_good_config_counts_at_once_and_leaves_what_is_stored() {
    let origin = Origin::always("200 OK\nCache-Control: max-age=100\n\nbody");
    let site = format!("[[site]]\norigin = '{}'", origin.url());
    let larder = Larder::start(&site);
    larder.get("/");
    let mut client = larder.client();
    assert_eq!(client.ask("GET /").field("via"), Some("1.1 Larder"));
    larder.reload(&format!("name = 'pantry'\n{site}"));
    larder.wait_for_log("config reloaded");
    let renamed = eventually("the new name", || {
        let response = client.ask("GET /");
        (response.field("via") == Some("1.1 pantry")).then_some(response)
    });
    assert!(renamed.field("cache-status").is_some_and(|status| status.starts_with("pantry; hit")));
    assert_eq!(origin.count(), 1);
}

#[test]
fn a_new_policy_takes_over_what_is_stored() {
    let origin = Origin::always("200 OK\nCache-Control: max-age=100\n\nbody");
    let site = format!("[[site]]\norigin = '{}'", origin.url());
    let larder = Larder::start(&format!("memory.policy = 'fifo'\n{site}"));
    let paths = || (0..50).map(|n| format!("/{n}"));
    paths().for_each(|path| drop(larder.get(&path)));
    for (policy, n) in [("tinylfu+gdsf", 1), ("secondhit+lru", 2), ("wtinylfu:window=0.2", 3)] {
        larder.reload(&format!("memory.policy = '{policy}'\n{site}"));
        eventually(policy, || (larder.stats()["policy"] == policy).then_some(()));
        assert!(paths().all(|path| larder.get(&path).text() == "body"));
        assert_eq!(
            (origin.count(), larder.stat("hits"), larder.stat("objects")),
            (50, n * 50, 50),
            "{policy}"
        );
    }
}

#[test]
fn a_bad_config_changes_nothing() {
    let origin = Origin::always("200 OK\nCache-Control: max-age=100\n\nbody");
    let site = format!("[[site]]\norigin = '{}'", origin.url());
    let larder = Larder::start(&site);
    larder.reload(&format!("name = 'pantry'\nnonsense = 1\n{site}"));
    larder.wait_for_log("unknown key 'nonsense'");
    larder.wait_for_log("the old config stays in force");
    assert_eq!(larder.get("/").field("via"), Some("1.1 Larder"));
}

#[test]
fn requests_under_way_keep_the_config_they_began_with() {
    let gate = Gate::default();
    let origin = halting(&gate);
    let larder = Larder::before(&origin);
    let mut client = larder.client();
    client.send("GET /");
    client.head();
    larder.reload("[[site]]\norigin = 'http://127.0.0.1:1'");
    larder.wait_for_log("config reloaded");
    gate.open();
    assert_eq!(client.exactly(10), b"0123456789");
    eventually("the new origin, which does not listen", || {
        (larder.get("/other").status == 502).then_some(())
    });
    assert_eq!(larder.get("/").text(), "0123456789");
}
