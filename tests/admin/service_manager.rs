//! What a service manager such as systemd is told, on a socket of its own.

use std::io::IoSliceMut;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixDatagram;
use std::path::Path;

use larder_testkit::{Answer, Larder, Origin, PATIENCE, site};
use rustix::net::sockopt::set_socket_passcred;
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};
use rustix::process::Signal;
use tempfile::TempDir;

/// Becomes the program behind the first argument, a descriptor, which that gets as systemd passes it after a restart.
const NEXT_PROCESS: &str = "
import os, sys
os.dup2(int(sys.argv[1]), 3)
os.environ.update(LISTEN_FDS='1', LISTEN_PID=str(os.getpid()))
os.execvp(sys.argv[2], sys.argv[2:])
";

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

    /// Returns the next descriptor that it is to keep.
    fn kept(&self) -> OwnedFd {
        loop {
            let mut message = [0; 4096];
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
            let mut beside = RecvAncillaryBuffer::new(&mut space);
            let into = &mut [IoSliceMut::new(&mut message)];
            // Programs that are started inherit it.
            recvmsg(&self.socket, into, &mut beside, RecvFlags::empty()).expect("a message");
            for part in beside.drain() {
                if let RecvAncillaryMessage::ScmRights(mut descriptors) = part {
                    return descriptors.next().expect("a descriptor");
                }
            }
        }
    }

    /// Returns the sender of the next message, and its lines.
    fn next_from(&self) -> (u32, Vec<String>) {
        let mut message = [0; 4096];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmCredentials(1))];
        let mut beside = RecvAncillaryBuffer::new(&mut space);
        let into = &mut [IoSliceMut::new(&mut message)];
        let length = recvmsg(&self.socket, into, &mut beside, RecvFlags::empty()).expect("a message").bytes;
        let sender = beside.drain().find_map(|part| match part {
            RecvAncillaryMessage::ScmCredentials(sender) => Some(sender.pid.as_raw_nonzero().get() as u32),
            _ => None,
        });
        let lines = String::from_utf8_lossy(&message[..length]).lines().map(str::to_owned).collect();
        (sender.expect("a sender"), lines)
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
fn the_old_process_names_the_new_one_as_the_main_process() {
    let origin = Origin::always("200 OK\n\n");
    let manager = Manager::start();
    set_socket_passcred(&manager.socket, true).expect("senders are told");
    let mut proxy = manager.serve(&site(&[&origin], ""), "0");
    assert_eq!(manager.next_from().1[0], "READY=1");
    for _ in 0..2 {
        let before = proxy.id();
        proxy.upgrade(&[]).expect("it serves");
        assert_eq!(manager.next_from(), (before, vec![format!("MAINPID={}", proxy.id())]));
        proxy.wait_for_predecessor();
    }
    proxy.signal(Signal::TERM);
    let (sender, lines) = manager.next_from();
    assert_eq!((sender, &*lines[0]), (proxy.id(), "STOPPING=1"));
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

#[test]
fn a_restart_by_the_service_manager_keeps_what_is_in_memory() {
    let body = |target: &str| target.repeat(if target == "/large" { 30_000 } else { 50 });
    let origin = Origin::answering(move |seen| {
        Answer::with_body("200 OK\nCache-Control: max-age=3600", body(&seen.target).as_bytes())
    });
    let (manager, config) = (Manager::start(), site(&[&origin], ""));
    let socket = manager.folder.path().join("notify");
    let mut proxy = Larder::start_in(&config, &[("NOTIFY_SOCKET", &socket), ("FDSTORE", Path::new("1"))]);
    for target in ["/small", "/large", "/purged"] {
        assert_eq!(proxy.get(target).status, 200);
    }
    let purge = "POST /purge?url=http://site.test/purged&hard\nLarder-Admin: 1";
    assert_eq!(proxy.ask_admin(purge).status, 200);
    proxy.signal(Signal::TERM);
    assert!(proxy.ended().success());

    let kept = manager.kept();
    let number = kept.as_raw_fd().to_string();
    let next = Larder::start_behind(&["python3", "-c", NEXT_PROCESS, &number], &config);
    for target in ["/small", "/large"] {
        let page = next.get(target);
        assert!(page.is_hit() && page.text() == body(target), "{target}");
    }
    assert!(!next.get("/purged").is_hit());
    assert_eq!(origin.count(), 4);
}
