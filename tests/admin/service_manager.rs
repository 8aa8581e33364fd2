//! What a service manager such as systemd is told, on a socket of its own.

use std::os::unix::net::UnixDatagram;
use std::path::Path;

use larder_testkit::{Larder, Origin, PATIENCE, site};
use rustix::process::Signal;
use tempfile::TempDir;

/// The socket of a service manager.
struct Manager {
    socket: UnixDatagram,
    folder: TempDir,
}

impl Manager {
    fn start() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let socket = UnixDatagram::bind(folder.path().join("notify")).expect("a socket");
        socket.set_read_timeout(Some(PATIENCE)).expect("a limit");
        Self { socket, folder }
    }

    /// Starts a proxy as a service.
    fn serve(&self, config: &str, watchdog_usec: &str) -> Larder {
        let socket = self.folder.path().join("notify");
        Larder::start_in(config, &[("NOTIFY_SOCKET", &socket), ("WATCHDOG_USEC", Path::new(watchdog_usec))])
    }

    /// Returns the lines of the next message.
    fn next(&self) -> Vec<String> {
        let mut message = [0; 4096];
        let length = self.socket.recv(&mut message).expect("a message");
        String::from_utf8_lossy(&message[..length]).lines().map(str::to_owned).collect()
    }
}

#[test]
fn a_service_says_when_it_is_ready_reloads_and_stops() {
    let origin = Origin::always("200 OK\n\n");
    let manager = Manager::start();
    let proxy = manager.serve(&site(&[&origin], ""), "0");
    let serving = format!("STATUS=serving {}, {}", proxy.address(), proxy.forward);
    assert_eq!(manager.next(), ["READY=1", &serving]);

    proxy.reload("threads = 0");
    let reloading = manager.next();
    assert_eq!(reloading[0], "RELOADING=1");
    assert!(reloading[1].starts_with("MONOTONIC_USEC="), "{reloading:?}");
    let refused = format!("{serving}; the config has errors, so the old one is in force");
    assert_eq!(manager.next(), ["READY=1", &refused]);

    proxy.reload(&site(&[&origin], ""));
    assert_eq!(manager.next()[0], "RELOADING=1");
    assert_eq!(manager.next(), ["READY=1", &serving]);

    proxy.signal(Signal::TERM);
    assert_eq!(manager.next(), ["STOPPING=1", "STATUS=finishing the requests in progress"]);
}

#[test]
fn a_watchdog_gets_pings() {
    let origin = Origin::always("200 OK\n\n");
    let manager = Manager::start();
    let proxy = manager.serve(&site(&[&origin], ""), "200000");
    let messages = [manager.next(), manager.next(), manager.next()];
    assert_eq!(messages.iter().filter(|message| *message == &["WATCHDOG=1"]).count(), 2, "{messages:?}");
    drop(proxy);
}
