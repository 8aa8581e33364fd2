//! Origin names whose addresses change. The proxy has a separate hosts file.

use std::fs;
use std::net::{SocketAddr, TcpListener};
use std::process::Command;
use std::thread;

use larder_testkit::{Larder, Origin, eventually, file_with, not_tested};

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

#[test]
fn a_name_that_was_never_resolved_has_no_last_addresses() {
    let larder = Larder::start("[[site]]\norigin = 'http://never.invalid'\nresolve_interval = '1s'\n");
    larder.wait_for_log("cannot resolve the origin's name never.invalid");
    larder.wait_for_log("no address of it is known, and its requests fail");
}
