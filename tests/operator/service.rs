//! The unit of the packages under a real systemd: it starts, stays active over upgrades, reloads, restarts and stops.
//! Each test has a network of its own, for the usual ports.

use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use larder_testkit::{Answer, Client, Origin, Pair, Systemd, eventually, stderr, stdout, with_outer_address};

const REVERSE: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 80);

/// The service `larder`.
struct Service(Systemd);

impl Service {
    /// Prepares the service with these sites and a drop-in.
    fn with(sites: &str, drop_in: &str) -> Option<Self> {
        let service = Self(Systemd::start()?);
        service.write_config(sites);
        service.write("etc/systemd/system/larder.service.d/own.conf", drop_in);
        Some(service)
    }

    /// Starts the service with these sites.
    fn started(sites: &str) -> Option<Self> {
        let service = Self::with(sites, "")?;
        service.start("larder");
        Some(service)
    }

    fn start(&self, unit: &str) {
        self.0.control(&["daemon-reload"]);
        self.0.control(&["start", unit]);
    }

    /// Runs `larder upgrade`.
    fn upgrade(&self) {
        let said = self.0.run(&["larder", "upgrade"]);
        assert!(said.status.success(), "{}{}", stderr(&said), self.journal());
    }

    fn write_config(&self, sites: &str) {
        self.write("etc/larder/larder.toml", &format!("[reverse]\nlisten = '{REVERSE}'\n{sites}"));
    }

    fn write(&self, path: &str, text: &str) {
        let file = self.0.file(path);
        fs::create_dir_all(file.parent().expect("a folder")).expect("a folder");
        fs::write(file, text).expect("written");
    }

    fn property(&self, name: &str) -> String {
        self.0.control(&["show", "--value", "--property", name, "larder"])
    }

    /// Returns the lines of a file below `/proc` of the main process that begin with `name`.
    fn of_main(&self, name: &str) -> String {
        let status = self.0.file(&format!("proc/{}/status", self.property("MainPID")));
        let status = fs::read_to_string(status).expect("it runs");
        let value = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(":\t"));
        value.unwrap_or_else(|| panic!("no {name} in {status}")).to_owned()
    }

    /// Waits until another process than `before` is the main process, and answers.
    fn wait_for_another(&self, before: &str) {
        eventually("another main process", || {
            let main = self.property("MainPID");
            (main != before && main != "0" && self.property("ActiveState") == "active").then_some(())
        });
    }

    fn journal(&self) -> String {
        stdout(&self.0.run(&["journalctl", "--no-pager", "--output=cat", "--unit=larder"]))
    }
}

/// Returns the table of a site.
fn site(origin: &Origin) -> String {
    larder_testkit::site(&[origin], "")
}

/// Returns the answer to a request on a new connection.
fn get(path: &str) -> larder_testkit::Response {
    Client::to(REVERSE).ask(&format!("GET {path}"))
}

/// Requests `/page` on new connections while `run` runs. All answers are those of the memory.
fn while_asking(run: impl FnOnce()) {
    let ends = AtomicBool::new(false);
    thread::scope(|scope| {
        let client = scope.spawn(|| {
            while !ends.load(Ordering::Relaxed) {
                assert!(get("/page").is_hit());
            }
        });
        let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(run));
        ends.store(true, Ordering::Relaxed);
        client.join().expect("no request fails");
        ended.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    });
}

fn page() -> Origin {
    Origin::always("200 OK\nCache-Control: max-age=3600\n\na page")
}

#[test]
fn systemd_keeps_the_service_active_over_upgrades() {
    with_outer_address("service::apart_the_unit_stays_active_over_upgrades");
    with_outer_address("service::apart_a_stop_after_an_upgrade_waits_for_both_processes");
}

#[test]
fn systemd_reloads_and_restarts_the_service() {
    with_outer_address("service::apart_a_reload_applies_the_config_or_fails");
    with_outer_address("service::apart_a_restart_keeps_the_memory_and_a_stop_does_not");
    with_outer_address("service::apart_a_main_process_that_hangs_or_dies_is_replaced");
}

#[test]
fn systemd_gives_the_service_sockets_and_secrets_and_no_more() {
    with_outer_address("service::apart_sockets_of_systemd_lose_no_request_in_a_restart");
    with_outer_address("service::apart_the_service_has_its_folders_its_secret_and_one_right");
}

#[test]
#[ignore = "runs in a network of its own"]
fn apart_the_unit_stays_active_over_upgrades() {
    let origin = page();
    let Some(service) = Service::started(&site(&origin)) else { return };
    assert_eq!(get("/page").text(), "a page");
    let since = service.property("ActiveEnterTimestampMonotonic");
    let ways: [&[&str]; 2] = [&["larder", "upgrade"], &["systemctl", "kill", "--signal=USR2", "larder"]];
    while_asking(|| {
        for number in 0..6 {
            let before = service.property("MainPID");
            // The process before the running one has to end first.
            eventually("an upgrade", || {
                service.0.run(ways[number % 2]).status.success().then_some(())?;
                service.wait_for_another(&before);
                Some(())
            });
        }
    });
    assert_eq!(service.property("ActiveEnterTimestampMonotonic"), since, "{}", service.journal());
    assert_eq!(
        (service.property("NRestarts"), service.property("StatusText")),
        ("0".into(), format!("serving {REVERSE}"))
    );
    assert_eq!(origin.count(), 1);
}

#[test]
#[ignore = "runs in a network of its own"]
fn apart_a_stop_after_an_upgrade_waits_for_both_processes() {
    let (gate, origin) = Origin::gated(|_, held| {
        Answer::raw("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nha").then_wait(held).then("lf")
    });
    let Some(service) = Service::started(&site(&origin)) else { return };
    let ask = || {
        let mut client = Client::to(REVERSE);
        client.send("GET /held");
        assert_eq!(client.head().status, 200);
        client
    };
    let of_old = ask();
    service.upgrade();
    let of_new = ask();
    thread::scope(|scope| {
        let stop = scope.spawn(|| service.0.control(&["stop", "larder"]));
        eventually("the end of the listener", || {
            std::net::TcpStream::connect(REVERSE).is_err().then_some(())
        });
        assert_eq!(service.property("ActiveState"), "deactivating");
        gate.open();
        for mut client in [of_old, of_new] {
            assert_eq!(client.exactly(4), b"half");
        }
        stop.join().expect("it stops");
    });
    assert_eq!((&*service.property("ActiveState"), &*service.property("Result")), ("inactive", "success"));
}

#[test]
#[ignore = "runs in a network of its own"]
fn apart_a_reload_applies_the_config_or_fails() {
    let (first, second) = (page(), Origin::always("200 OK\n\nthe other page"));
    let Some(service) = Service::started(&site(&first)) else { return };
    assert_eq!(get("/1").text(), "a page");
    let main = service.property("MainPID");
    service.write_config(&site(&second));
    service.0.control(&["reload", "larder"]);
    // The signal comes back before the config is in force, and what was stored until then stays.
    let mut others = (2..).map(|number| get(&format!("/{number}")));
    eventually("the other site", || (others.next()?.text() == "the other page").then_some(()));

    service.write_config("threads = 0");
    let said = service.0.run(&["systemctl", "reload", "larder"]);
    assert!(!said.status.success(), "{}", stderr(&said));
    assert!(service.journal().contains("threads"), "{}", service.journal());
    assert_eq!(get("/0").text(), "the other page");
    // The signal without the check before it.
    service.0.control(&["kill", "--kill-who=main", "--signal=HUP", "larder"]);
    let status = format!("serving {REVERSE}; the config has errors, so the old one is in force");
    eventually("the status", || (service.property("StatusText") == status).then_some(()));
    assert_eq!((&*service.property("ActiveState"), service.property("MainPID")), ("active", main));
}

#[test]
#[ignore = "runs in a network of its own"]
fn apart_a_restart_keeps_the_memory_and_a_stop_does_not() {
    let origin = page();
    let Some(service) = Service::started(&site(&origin)) else { return };
    assert!(!get("/page").is_hit());
    for _ in 0..2 {
        service.0.control(&["restart", "larder"]);
        assert!(get("/page").is_hit(), "{}", service.journal());
        service.upgrade();
    }
    service.0.control(&["stop", "larder"]);
    service.0.control(&["start", "larder"]);
    assert!(!get("/page").is_hit());
}

#[test]
#[ignore = "runs in a network of its own"]
fn apart_a_main_process_that_hangs_or_dies_is_replaced() {
    let origin = page();
    let Some(service) = Service::with(&site(&origin), "[Service]\nWatchdogSec=3\n") else { return };
    service.start("larder");
    // Also one that systemd has not started itself.
    for (number, signal) in ["STOP", "KILL"].into_iter().enumerate() {
        service.upgrade();
        let before = service.property("MainPID");
        service.0.control(&["kill", "--kill-who=main", &format!("--signal={signal}"), "larder"]);
        service.wait_for_another(&before);
        assert_eq!(get("/page").text(), "a page", "{signal}");
        assert_eq!(service.property("NRestarts"), (number + 1).to_string(), "{}", service.journal());
    }
    assert!(service.journal().contains("Failed with result 'watchdog'"), "{}", service.journal());
}

#[test]
#[ignore = "runs in a network of its own"]
fn apart_sockets_of_systemd_lose_no_request_in_a_restart() {
    let origin = page();
    let no_right = "[Service]\nAmbientCapabilities=\nCapabilityBoundingSet=\n";
    let Some(service) = Service::with(&site(&origin), no_right) else { return };
    service.write("etc/systemd/system/larder.socket", &format!("[Socket]\nListenStream={REVERSE}\n"));
    service.start("larder.socket");
    assert_eq!(service.property("ActiveState"), "inactive");
    assert_eq!(get("/page").text(), "a page", "the request starts the service");
    while_asking(|| {
        for _ in 0..2 {
            service.0.control(&["restart", "larder"]);
            service.upgrade();
        }
    });
    assert_eq!((service.of_main("CapPrm"), origin.count()), ("0".repeat(16), 1), "{}", service.journal());
}

#[test]
#[ignore = "runs in a network of its own"]
fn apart_the_service_has_its_folders_its_secret_and_one_right() {
    let origin = page();
    let drop_in = "[Service]\nLoadCredential=shop.key:/etc/larder/shop.key\n";
    let tls = "listen_tls = '127.0.0.1:443'\n[[tls]]\ncert = '/etc/larder/shop.pem'\n\
               key = '/run/credentials/larder.service/shop.key'\n[[disk]]\npath = '/var/cache/larder'\nsize = '64MiB'\n";
    let Some(service) = Service::with(&format!("{tls}{}", site(&origin)), drop_in) else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let pair = Pair::self_signed(folder.path(), "shop.example");
    service.write("etc/larder/shop.pem", &fs::read_to_string(&pair.cert).expect("a file"));
    service.write("etc/larder/shop.key", &fs::read_to_string(&pair.key).expect("a file"));
    let of_root = fs::Permissions::from_mode(0o600);
    fs::set_permissions(service.0.file("etc/larder/shop.key"), of_root).expect("it is root's");
    service.start("larder");
    let checked = service.0.run(&["systemd-analyze", "--no-pager", "--man=no", "verify", "larder.service"]);
    let complaints: Vec<_> =
        stderr(&checked).lines().filter(|line| line.contains("larder")).map(str::to_owned).collect();
    assert!(checked.status.success() && complaints.is_empty(), "{complaints:?}");
    for _ in 0..2 {
        let mut curl = larder_testkit::program("curl", "curl");
        curl.args(["-sSk", "--resolve", "shop.example:443:127.0.0.1", "https://shop.example/page"]);
        assert_eq!(larder_testkit::output(&mut curl), "a page");
        // The right to bind ports below 1024.
        let rights = ["CapPrm", "CapBnd", "NoNewPrivs", "Seccomp"].map(|name| service.of_main(name));
        assert_eq!(rights, ["0000000000000400", "0000000000000400", "1", "2"]);
        assert!(!service.of_main("Uid").starts_with("0\t"));
        service.upgrade();
    }
    for path in ["var/lib/larder/statistics.db", "var/cache/larder"] {
        assert!(service.0.file(path).exists(), "{path}");
    }
}
