//! Origin names whose addresses change. The proxy has a separate hosts file.

use std::fs;
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::thread;

use larder_testkit::{Larder, Origin, eventually, file_with, free, not_tested};

use super::relay::pass_on;

/// Runs the following command with the file `$0` in place of the system's hosts file.
const WITH_HOSTS: &str = "mount --bind \"$0\" /etc/hosts && exec \"$@\"";

/// Forwards the bytes of each connection to `at` to `origin`.
fn relay(at: SocketAddr, origin: &Origin) {
    let (listener, address) = (TcpListener::bind(at).expect("a free port"), origin.address);
    thread::spawn(move || listener.incoming().flatten().for_each(|near| pass_on(near, address, b"")));
}

/// Returns the command that runs another command in a mount namespace, if that is permitted.
fn apart() -> Option<Vec<&'static str>> {
    let all = [vec!["unshare", "--mount"], vec!["unshare", "--map-root-user", "--mount"]];
    all.into_iter().find(|words| {
        let mut tried = Command::new(words[0]);
        tried.args(&words[1..]).args(["mount", "--bind", "/etc/hosts", "/etc/hosts"]);
        tried.output().is_ok_and(|output| output.status.success())
    })
}

#[test]
fn connections_to_addresses_a_name_has_lost_get_no_further_requests() {
    let Some(mut command) = apart() else { return not_tested("a mount namespace (`unshare --mount`)") };
    let (_folder, hosts) = file_with("hosts", "127.0.0.1 origin.test\n");
    let path = hosts.display().to_string();
    command.extend(["sh", "-c", WITH_HOSTS, &path]);
    let [one, two] = ["one", "two"].map(|name| {
        Origin::by(move |seen| match seen.target.as_str() {
            "/close" => format!("200 OK\nConnection: close\n\n{name}"),
            _ => format!("200 OK\n\n{name}"),
        })
    });
    relay(SocketAddr::from(([127, 0, 0, 2], one.address.port())), &two);
    let origin = format!("http://origin.test:{}", one.address.port());
    let keys = "cache = false\nretries = 0\nresolve_interval = '1s'";
    let larder = Larder::start_behind(&command, &format!("[[site]]\norigin = '{origin}'\n{keys}\n"));
    for _ in 0..5 {
        assert_eq!(larder.get("/").text(), "one");
    }
    assert!(one.connections() <= 2, "connections are kept, one for each worker");
    fs::write(&hosts, "127.0.0.2 origin.test\n").unwrap();
    // So many requests that each of the two workers gets some.
    let answers = || (0..32).map(|_| larder.get("/").text().to_owned()).collect::<Vec<_>>();
    eventually("the new address", || answers().iter().all(|answer| answer == "two").then_some(()));
    fs::write(&hosts, "127.0.0.1 localhost\n").unwrap();
    larder.wait_for_log("cannot resolve the origin's name origin.test");
    for path in ["/", "/close", "/", "/close"] {
        assert_eq!(larder.get(path).text(), "two", "its last address stays in use");
    }
    fs::write(&hosts, "127.0.0.1 origin.test\n").unwrap();
    larder.wait_for_log("the origin's name origin.test can be resolved again");
    assert_eq!(larder.get("/").text(), "one");
}

/// Runs the following command with the file `$0` in place of the system's hosts file, and the name server 127.0.0.9.
const WITH_SERVER: &str = "echo nameserver 127.0.0.9 > \"$0.conf\" && mount --bind \"$0.conf\" /etc/resolv.conf \
    && mount --bind \"$0\" /etc/hosts && exec \"$@\"";

/// A server of a service: its priority, port and name.
type Service = (u8, u16, &'static str);

/// Answers all queries that arrive at `socket` with SRV records that live for a second; if there are none, with an error.
fn name_server(socket: UdpSocket, services: Arc<Mutex<Vec<Service>>>) {
    let mut query = [0; 512];
    while let Ok((length, client)) = socket.recv_from(&mut query) {
        let services = services.lock().expect("no test has failed").clone();
        let mut answer = query[..length].to_vec();
        answer[2] = 0x81;
        answer[3] = if services.is_empty() { 2 } else { 0 };
        answer[7] = services.len() as u8;
        for (priority, port, name) in services {
            let name: Vec<u8> =
                name.split('.').flat_map(|label| [&[label.len() as u8], label.as_bytes()].concat()).collect();
            answer.extend([0xc0, 12, 0, 33, 0, 1, 0, 0, 0, 1, 0, 7 + name.len() as u8, 0, priority, 0, 0]);
            answer.extend([&port.to_be_bytes(), &name[..], &[0]].concat());
        }
        socket.send_to(&answer, client).expect("an answer");
    }
}

#[test]
fn servers_of_a_service_are_found_by_srv_records() {
    let Some(mut command) = apart() else { return not_tested("a mount namespace (`unshare --mount`)") };
    let Ok(socket) = UdpSocket::bind("127.0.0.9:53") else { return not_tested("port 53 of 127.0.0.9") };
    let (_folder, hosts) = file_with("hosts", "127.0.0.1 web.test\n");
    let path = hosts.display().to_string();
    command.extend(["sh", "-c", WITH_SERVER, &path]);
    let [one, two] = ["one", "two"].map(|name| Origin::by(move |_| format!("200 OK\n\n{name}")));
    let [refused, first, second] = [(0, free()), (1, one.address), (2, two.address)]
        .map(|(priority, at)| (priority, at.port(), "web.test"));
    let services = Arc::new(Mutex::new(vec![second, first, refused]));
    let given = Arc::clone(&services);
    thread::spawn(move || name_server(socket, given));
    let keys = "origin = 'http+srv://_web._tcp.example'\ncache = false\nresolve_interval = '1s'";
    let larder = Larder::start_behind(&command, &format!("[[site]]\n{keys}\n"));
    let answers = || (0..16).map(|_| larder.get("/").text().to_owned()).collect::<Vec<_>>();
    assert!(answers().iter().all(|answer| answer == "one"), "the lowest priority that answers is used");
    *services.lock().unwrap() = vec![second];
    eventually("the other server", || answers().iter().all(|answer| answer == "two").then_some(()));
    services.lock().unwrap().clear();
    larder.wait_for_log("cannot resolve the origin's name _web._tcp.example");
    assert!(answers().iter().all(|answer| answer == "two"), "the last servers stay in use");
}

#[test]
fn a_name_that_was_never_resolved_has_no_last_addresses() {
    let larder = Larder::start("[[site]]\norigin = 'http://never.invalid'\nresolve_interval = '1s'\n");
    larder.wait_for_log("cannot resolve the origin's name never.invalid");
    larder.wait_for_log("no address of it is known, and its requests fail");
}
