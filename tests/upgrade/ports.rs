//! Ports below 1024 and upgrades: with the right to bind them, as the unit of the packages gives it, every successor has
//! it too; and without it, every successor keeps the sockets that a service manager has opened.

use larder_testkit::{Client, Larder, Origin, site, with_outer_address};
use rustix::process::Signal;

/// Starts a command with no right of root but that to bind ports below 1024.
const MAY_BIND: [&str; 4] =
    ["setpriv", "--bounding-set=-all,+net_bind_service", "--inh-caps=-all", "--no-new-privs"];

/// Becomes the program behind it, without any right of root, with a socket on port 80.
const GIVEN: &str = "
import os, socket, sys
listener = socket.create_server(('127.0.0.1', 80))
os.dup2(os.dup(listener.fileno()), 3)
os.environ.update(LISTEN_FDS='1', LISTEN_PID=str(os.getpid()))
os.execvp('setpriv', ['setpriv', '--bounding-set=-all', '--inh-caps=-all', '--no-new-privs'] + sys.argv[1:])
";

fn config(ports: &[u16], origin: &Origin) -> String {
    let listen: Vec<_> = ports.iter().map(|port| format!("'127.0.0.1:{port}'")).collect();
    format!("[reverse]\nlisten = [{}]\n{}", listen.join(", "), site(&[origin], ""))
}

fn answers(port: u16) -> bool {
    let page = Client::to(([127, 0, 0, 1], port).into()).ask("GET /page");
    (page.status, page.text()) == (200, "a page")
}

#[test]
fn ports_below_1024_stay_usable_after_upgrades() {
    with_outer_address("ports::apart_each_successor_may_bind_ports_below_1024");
    with_outer_address("ports::apart_a_given_socket_stays_without_the_right_to_bind");
}

#[test]
#[ignore = "runs in a network of its own"]
fn apart_each_successor_may_bind_ports_below_1024() {
    let origin = Origin::always("200 OK\n\na page");
    let mut larder = Larder::start_behind(&MAY_BIND, &config(&[80], &origin));
    let mut ports = vec![80];
    assert!(answers(80));
    for port in [81, 443, 1023] {
        // Another port each time: a socket that was handed over needs no right.
        ports.push(port);
        larder.write_config(&config(&ports, &origin));
        larder.upgrade(&[]).unwrap();
        larder.wait_for_predecessor();
        assert!(ports.iter().copied().all(answers), "{ports:?}");
    }
}

#[test]
#[ignore = "runs in a network of its own"]
fn apart_a_given_socket_stays_without_the_right_to_bind() {
    let origin = Origin::always("200 OK\n\na page");
    let mut larder = Larder::start_behind(&["python3", "-c", GIVEN], &config(&[80], &origin));
    for _ in 0..3 {
        assert!(answers(80));
        larder.upgrade(&[]).unwrap();
        larder.wait_for_predecessor();
    }
    // Without the right, another port cannot be added, and nothing else changes.
    larder.write_config(&config(&[80, 81], &origin));
    let said = larder.upgrade(&[]).unwrap_err();
    assert!(said.contains("127.0.0.1:81"), "{said}");
    assert!(answers(80));
    larder.signal(Signal::TERM);
}
