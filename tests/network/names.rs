//! Origin names whose addresses change. The proxy has a separate hosts file.

use std::fs;
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::thread;

use larder_testkit::{Larder, Origin, eventually, file_with, free, locked, not_tested, output, programs};
use tempfile::TempDir;

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

/// Returns the command that runs a larder with a hosts file of these lines and the name server `server`; `None` if that is
/// not permitted.
fn with_server(server: &str, hosts: &str) -> Option<(TempDir, Vec<String>)> {
    let command = apart()?;
    let (folder, hosts) = file_with("hosts", hosts);
    for (name, text) in
        [("resolv.conf", format!("nameserver {server}\n")), ("nsswitch.conf", SOURCES.to_owned())]
    {
        fs::write(folder.path().join(name), text).expect("written");
    }
    let mounts = ["hosts", "resolv.conf", "nsswitch.conf"]
        .map(|name| format!("mount --bind {0}/{name} /etc/{name} && ", folder.path().display()));
    let script = mounts.concat() + "exec \"$@\"";
    let last = ["sh".to_owned(), "-c".to_owned(), script, hosts.display().to_string()];
    Some((folder, command.into_iter().map(str::to_owned).chain(last).collect()))
}

const SOURCES: &str = "hosts: files dns\n";

/// A record of the asked name: its type, lifetime and data.
type Record = (u16, u32, Vec<u8>);

const A: u16 = 1;
const SRV: u16 = 33;

/// Answers all queries that arrive at `socket` with the records that `records` returns for a name and a type; `None`: with
/// an error.
fn name_server(socket: UdpSocket, records: impl Fn(&str, u16) -> Option<Vec<Record>>) {
    let mut query = [0; 512];
    while let Ok((length, client)) = socket.recv_from(&mut query) {
        let mut answer = query[..length].to_vec();
        let labels = query[13..length - 5].iter().map(|byte| if *byte < b' ' { '.' } else { *byte as char });
        let found = records(&labels.collect::<String>(), query[length - 3].into());
        answer[2] = 0x81;
        answer[3] = if found.is_none() { 2 } else { 0 };
        let found = found.unwrap_or_default();
        answer[7] = found.len() as u8;
        for (kind, lifetime, data) in found {
            answer.extend([0xc0, 12, 0, kind as u8, 0, 1]);
            answer.extend(lifetime.to_be_bytes());
            answer.extend([0, data.len() as u8].iter().chain(&data));
        }
        socket.send_to(&answer, client).expect("an answer");
    }
}

/// Returns a name as messages have it.
fn encoded(name: &str) -> Vec<u8> {
    let labels = name.split('.').map(|label| [&[label.len() as u8], label.as_bytes()].concat());
    labels.chain([vec![0]]).flatten().collect()
}

#[test]
fn addresses_are_used_for_the_lifetime_of_their_records() {
    let Some((_folder, command)) = with_server("127.0.0.10", "127.0.0.1 listed.test\n") else {
        return not_tested("a mount namespace (`unshare --mount`)");
    };
    let Ok(socket) = UdpSocket::bind("127.0.0.10:53") else { return not_tested("port 53 of 127.0.0.10") };
    let [one, two] =
        ["one", "two"].map(|name| Origin::by(move |_| format!("200 OK\nConnection: close\n\n{name}")));
    relay(SocketAddr::from(([127, 0, 0, 2], one.address.port())), &two);
    let (last, asked) = (Arc::new(Mutex::new(1)), Arc::new(Mutex::new(Vec::<String>::new())));
    let (given, counted) = (Arc::clone(&last), Arc::clone(&asked));
    thread::spawn(move || {
        name_server(socket, move |name, kind| {
            locked(&counted).push(name.to_owned());
            let address = |last: u8, lifetime| Some(vec![(A, lifetime, vec![127, 0, 0, last])]);
            match (name, kind) {
                ("short.test", A) => address(*locked(&given), 1),
                ("long.test", A) => address(1, 3_600),
                ("long.test" | "short.test", _) => Some(Vec::new()),
                _ => None,
            }
        });
    });
    let sites = ["short", "long", "listed"].map(|name| {
        let port = one.address.port();
        format!("[[site]]\nhosts = '{name}.test'\norigin = 'http://{name}.test:{port}'\ncache = false\n")
    });
    let command: Vec<_> = command.iter().map(String::as_str).collect();
    let larder = Larder::start_behind(&command, &sites.concat());
    let answer = |name: &str| larder.ask(&format!("GET /\nHost: {name}.test")).text().to_owned();
    for name in ["short", "long", "listed"] {
        assert!((0..5).all(|_| answer(name) == "one"), "{name}");
    }
    *locked(&last) = 2;
    eventually("the new address", || (answer("short") == "two").then_some(()));
    let asked = locked(&asked).clone();
    let count = |wanted: &str| asked.iter().filter(|name| *name == wanted).count();
    assert_eq!(
        (count("long.test"), count("listed.test")),
        (2, 0),
        "both families once; the hosts file is enough"
    );
}

#[test]
fn servers_of_a_service_are_found_by_srv_records() {
    let Some((_folder, command)) = with_server("127.0.0.9", "127.0.0.1 web.test\n") else {
        return not_tested("a mount namespace (`unshare --mount`)");
    };
    let Ok(socket) = UdpSocket::bind("127.0.0.9:53") else { return not_tested("port 53 of 127.0.0.9") };
    let [one, two] = ["one", "two"].map(|name| Origin::by(move |_| format!("200 OK\n\n{name}")));
    let [refused, first, second] = [(0, free()), (1, one.address), (2, two.address)]
        .map(|(priority, at)| (priority, at.port(), "web.test"));
    // The servers of the service: their priorities, ports and names.
    let services = Arc::new(Mutex::new(vec![second, first, refused]));
    let given = Arc::clone(&services);
    let record = |&(priority, port, name): &(u16, u16, &str)| {
        let numbers = [priority, 0, port].map(u16::to_be_bytes).concat();
        (SRV, 1, [numbers, encoded(name)].concat())
    };
    thread::spawn(move || {
        name_server(socket, move |_, _| {
            let records: Vec<_> = locked(&given).iter().map(record).collect();
            (!records.is_empty()).then_some(records)
        });
    });
    let keys = "origin = 'http+srv://_web._tcp.example'\ncache = false\nresolve_interval = '1s'";
    let command: Vec<_> = command.iter().map(String::as_str).collect();
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

/// Starts an origin and a proxy, and requests the same page through its listeners.
const WITH_IPV6_ALONE: &str =
    "ip link set lo up && ip -4 address flush dev lo && mount --bind hosts /etc/hosts || exit 1
    python3 -m http.server 3000 --bind ::1 >/dev/null 2>&1 & origin=$!
    \"$0\" serve --config larder.toml --stats none >/dev/null 2>&1 & proxy=$!
    trap 'kill $origin $proxy' EXIT
    get() { curl --globoff --silent --fail \"$@\" || echo \"curl: $?\"; }
    for url in http://[::1]:3000 http://[::1]:3128; do
        until curl --globoff --silent --noproxy '*' $url >/dev/null; do sleep 0.02; done
    done
    get --noproxy '*' http://[::1]:8080/page
    get --proxy http://[::1]:3128 http://[::1]:3000/page
    get --proxy http://[::1]:3128 --proxytunnel http://[::1]:3000/page";

#[test]
fn clients_and_origins_are_reached_where_there_is_ipv6_alone() {
    let Some(mut apart) = apart() else { return not_tested("a mount namespace (`unshare --mount`)") };
    apart.push("--net");
    let mut trial = Command::new(apart[0]);
    trial.args(&apart[1..]).args(["sh", "-c", "ip link set lo up && ip -6 address show lo | grep ::1"]);
    if !trial.output().is_ok_and(|output| output.status.success()) {
        return not_tested("a network with IPv6 of its own (`unshare --net`)");
    }
    let folder = tempfile::tempdir().expect("a directory");
    for (name, text) in [
        ("page", "a page\n"),
        // Addresses of other networks, which are refused at once.
        ("hosts", "2001:db8::1 origin.test\n192.0.2.1 origin.test\n::1 origin.test\n"),
        (
            "larder.toml",
            "admin = 'off'\n[reverse]\nlisten = '[::1]:8080'\n[forward]\nlisten = '[::1]:3128'\nallow_private = true\n\
             connect_ports = [3000]\n[[site]]\norigin = 'http://origin.test:3000'\n",
        ),
    ] {
        fs::write(folder.path().join(name), text).expect("written");
    }
    let mut script = Command::new(apart[0]);
    script.args(&apart[1..]).args(["timeout", "20", "sh", "-c", WITH_IPV6_ALONE]).arg(programs::larder());
    assert_eq!(output(script.current_dir(folder.path())), "a page\n".repeat(3));
}
