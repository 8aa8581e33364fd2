//! Clients that try to act as an administrator, as another site or as a mail client.

use std::process::Command;

use larder_testkit::{Client, Larder, OUTER, Origin, file_with, free, with_outer_address};

const TOKEN: &str = "0123456789abcdef";
const OPEN: &str = "[forward]\nallow_private = true\nconnect_ports = [CONNECT]";

fn origin() -> Origin {
    Origin::always("200 OK\nCache-Control: max-age=100\n\nbody")
}

/// Returns the exit code and the messages of `larder check` for a config file.
fn checked(config: &str) -> (Option<i32>, String) {
    let (_directory, file) = file_with("larder.toml", config);
    let mut command = Command::new(env!("CARGO_BIN_EXE_larder"));
    let output = command.arg("check").arg("--config").arg(file).output().expect("it runs");
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

#[test]
fn a_client_of_the_forward_proxy_does_not_reach_the_admin_listener() {
    // The admin listener's port must be known before the start, for CONNECT.
    let address = free();
    let port = address.port();
    let config = OPEN.replace("CONNECT", &port.to_string());
    let larder = Larder::start_at(&format!("admin_token = '{TOKEN}'\n{config}"), &address.to_string());
    let ask = |request: &str| Client::to(larder.forward).ask(request);
    for host in ["127.0.0.1", "localhost", "0.0.0.0", "[::ffff:127.0.0.1]"] {
        for request in [
            format!("GET http://{host}:{port}/stats"),
            format!("GET http://{host}:{port}/stats\nAuthorization: Bearer {TOKEN}"),
            format!("POST http://{host}:{port}/purge?all=\nLarder-Admin: 1\nContent-Length: 0"),
            format!("GET http://{host}:{port}/live\nConnection: upgrade\nUpgrade: websocket"),
            format!("CONNECT {host}:{port}"),
        ] {
            let refused = ask(&format!("{request}\nHost: {host}:{port}"));
            assert_eq!(refused.status, 508, "{request}");
            assert!(refused.cache().ends_with("detail=loop"), "{refused:?}");
        }
    }
    assert_eq!(ask(&format!("GET http://{}/", larder.forward)).status, 508, "nor any other listener");
}

#[test]
fn listeners_for_all_addresses_are_recognised_at_each_of_them() {
    with_outer_address("authority::at_each_address");
}

#[test]
#[ignore = "in a network namespace only"]
fn at_each_address() {
    let admin = format!("admin_token = '{TOKEN}'\n{}", OPEN.replace("CONNECT", "443"));
    let larder = Larder::start_at(&admin, "0.0.0.0:0");
    for host in ["127.0.0.1".to_owned(), "127.8.8.8".to_owned(), OUTER.to_string()] {
        let request = format!("GET http://{host}:{}/stats", larder.admin.port());
        assert_eq!(Client::to(larder.forward).ask(&request).status, 508, "{request}");
    }
}

#[test]
fn a_door_does_not_lead_to_the_admin_listener() {
    let config = format!("{}\n[line]\nlisten = '127.0.0.1:0'", OPEN.replace("CONNECT", "443"));
    let larder = Larder::start(&config);
    let mut client = Client::to(larder.door("line"));
    client.raw(format!("http://{}/stats\n", larder.admin).as_bytes());
    client.finish();
    let answer = String::from_utf8(client.rest().expect("an answer")).expect("text");
    assert!(answer.contains("come back to this proxy"), "{answer}");
}

#[test]
fn a_request_that_a_proxy_passed_on_needs_the_token() {
    let larder = Larder::start(&format!("admin_token = '{TOKEN}'"));
    for field in [
        "Via: 1.1 squid",
        "Forwarded: for=192.0.2.1",
        "X-Forwarded-For: 192.0.2.1",
        "X-Forwarded-Proto: http",
    ] {
        let asked = |more: &str| larder.ask_admin(&format!("GET /stats\n{field}{more}"));
        assert_eq!(asked("").status, 401, "{field}");
        assert_eq!(asked(&format!("\nAuthorization: Bearer {TOKEN}")).status, 200, "{field}");
    }
    let purge = "POST /purge?url=http://site.test/\nLarder-Admin: 1\nVia: 1.1 squid";
    assert_eq!(larder.ask_admin(purge).status, 401);
    assert_eq!(larder.ask_admin("GET /stats").status, 200);
}

#[test]
fn a_site_that_is_its_own_origin_answers_at_once() {
    let own = free();
    let config = format!(
        "[reverse]\nlisten = '{own}'\n[timeouts]\nfirst_byte = '1h'\n[[site]]\norigin = 'http://{own}'"
    );
    let _larder = Larder::start(&config);
    for request in ["GET /", "POST /\n\nbody", "HEAD /"] {
        let answer = Client::to(own).ask(request);
        assert_eq!((answer.status, answer.cache().ends_with("detail=loop")), (508, true), "{answer:?}");
    }
}

#[test]
fn only_clients_of_the_listed_networks_use_the_forward_proxy() {
    let larder = Larder::start(
        "[forward]\nclients = ['10.0.0.0/8']\n[line]\nlisten = '127.0.0.1:0'\n[doors]\nclients = ['::1']",
    );
    let refused = Client::to(larder.forward).ask("GET http://site.test/");
    let expected = "403: 127.0.0.1 may not use this proxy: it is not in forward.clients of the config\n";
    assert_eq!((refused.status, refused.text()), (403, expected));
    assert!(Client::to(larder.door("line")).is_closed());
}

#[test]
fn no_method_reaches_the_port_of_a_mail_server() {
    let larder = Larder::start("[forward]\nallow_private = true");
    for method in ["GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "BREW"] {
        for port in [25, 22, 110, 1024] {
            let refused =
                Client::to(larder.forward).ask(&format!("{method} http://127.0.0.1:{port}/\nHost: a"));
            assert_eq!(refused.status, 403, "{method} {port}");
        }
    }
    let refused = Client::to(larder.forward).ask("GET http://127.0.0.1:25/");
    assert_eq!(refused.text(), "403: port 25 is not allowed; forward.ports: 80, 443, 1025-65535\n");
    let origin = origin();
    let port = origin.address.port();
    let narrow = Larder::start(&format!("[forward]\nallow_private = true\nports = [80, '{port}-{port}']"));
    let ask = |url: &str| Client::to(narrow.forward).ask(&format!("GET {url}/")).status;
    assert_eq!((ask(&origin.url()), ask("http://127.0.0.1:443"), ask("https://127.0.0.1")), (200, 403, 403));
}

#[test]
fn a_listener_for_all_addresses_says_whose_clients_it_serves() {
    for (table, key) in [("forward", "forward.listen"), ("thrift", "thrift.listen"), ("onc", "onc.listen")] {
        let clients = if table == "forward" { "forward" } else { "doors" };
        for address in ["0.0.0.0:3333", "[::]:3333"] {
            let config = format!("[{table}]\nlisten = '{address}'\n");
            let (code, why) = checked(&config);
            let expected = format!(
                "{key} {address} can be reached from every network: name its clients in [{clients}], \
                 such as clients = [\"127.0.0.0/8\", \"192.168.0.0/16\"]"
            );
            assert!(code == Some(2) && why.contains(&expected), "{why}");
            let table = if clients == "doors" { "[doors]\n" } else { "" };
            assert_eq!(checked(&format!("{config}{table}clients = ['10.0.0.0/8']")).0, Some(0));
        }
    }
    assert_eq!(checked("[forward]\nlisten = '192.0.2.1:3128'").0, Some(0));
}

#[test]
fn a_purge_allowed_at_one_site_reaches_tags_of_that_site_only() {
    let origin = Origin::always("200 OK\nCache-Control: max-age=100\nCache-Tag: t\n\nbody");
    let site = |hosts: &str, more: &str| format!("[[site]]\n{hosts}\norigin = '{}'\n{more}\n", origin.url());
    let from_here = "purge_from = ['127.0.0.1']";
    let larder = Larder::start(&format!(
        "admin_token = '{TOKEN}'\n{}{}{}",
        site("hosts = ['a.test', '*.a.test']", from_here),
        site("hosts = ['b.test']", ""),
        site("", from_here)
    ));
    let hits = |hosts: [&str; 4]| hosts.map(|host| larder.ask(&format!("GET /\nHost: {host}")).is_hit());
    let hosts = ["a.test", "x.a.test", "b.test", "c.test"];
    hits(hosts);
    let purge = |host: &str, more: &str| {
        larder.ask(&format!("PURGE /\nHost: {host}\nxkey: t\nLarder-Purge: hard{more}")).status
    };
    assert_eq!((purge("a.test", ""), hits(hosts)), (200, [false, false, true, true]));
    assert_eq!((purge("c.test", ""), hits(hosts)), (200, [true, true, true, false]));
    assert_eq!((purge("b.test", ""), hits(hosts)), (403, [true; 4]));
    let token = format!("\nAuthorization: Bearer {TOKEN}");
    assert_eq!((purge("b.test", &token), hits(hosts)), (200, [false; 4]));
}

#[test]
fn an_origin_that_invalidates_without_end_reaches_its_own_responses_only() {
    let page = "200 OK\nCache-Control: max-age=100\nCache-Groups: \"g\"\nCache-Tag: t\n\nbody";
    let (origin, other) = (Origin::always(page), Origin::always(page));
    let hostile = Origin::by(|seen| {
        let groups: Vec<_> = (0..128).map(|n| format!("\"{}-{n}\"", seen.number)).collect();
        format!("200 OK\nCache-Group-Invalidation: {}", groups.join(", "))
    });
    let larder = Larder::with(&origin, &OPEN.replace("CONNECT", "443"));
    let of_other = || Client::to(larder.forward).ask(&format!("GET {}/", other.url()));
    larder.get("/");
    of_other();
    larder.settle();
    let purged = larder.ask_admin("POST /purge?tag=none&hard\nLarder-Admin: 1\nContent-Length: 0");
    assert_eq!(purged.status, 200);
    let mut client = Client::to(larder.forward);
    for _ in 0..513 {
        client.ask(&format!("POST {}/\n\nbody", hostile.url()));
    }
    assert_eq!((larder.get("/").cache(), of_other().cache()), ("hit".to_owned(), "hit".to_owned()));
    assert_eq!(origin.count() + other.count(), 2);
}
