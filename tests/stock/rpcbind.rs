//! The registration of the ONC door with the machine's rpcbind.

use std::os::unix::net::UnixStream;

use larder_testkit::{Larder, Process, eventually, output, program};
use rustix::process::Signal;

use crate::programs::Stock;
use crate::scenario::Site;

/// The program number 0x23451111.
const PROGRAM: &str = "591728913";

/// The machine's rpcbind, or one that ends with the test.
struct Directory(#[expect(dead_code, reason = "it ends when this is dropped")] Option<Process>);

impl Directory {
    fn open() -> Self {
        if is_running() {
            return Self(None);
        }
        let child = Process::start(program("rpcbind", "rpcbind").arg("-f")).expect("it starts");
        eventually("rpcbind, which needs root", || is_running().then_some(()));
        Self(Some(child))
    }
}

fn is_running() -> bool {
    UnixStream::connect("/run/rpcbind.sock").is_ok()
}

fn is_listed() -> bool {
    output(program("rpcinfo", "rpcbind").arg("127.0.0.1")).lines().any(|line| line.contains(PROGRAM))
}

/// rpcbind listens on all addresses, so a started one runs in a separate network namespace.
#[test]
fn clients_find_the_onc_door_by_its_program_number() {
    let may_unshare =
        || program("unshare", "util-linux").args(["--net", "true"]).status().is_ok_and(|it| it.success());
    if is_running() || !may_unshare() {
        return clients_find_the_door();
    }
    let mut apart = program("unshare", "util-linux");
    apart.args(["--net", "sh", "-c", "ip link set lo up && exec \"$0\" \"$@\""]);
    apart.arg(std::env::current_exe().expect("this program"));
    let said = output(apart.args(["--exact", "rpcbind::clients_find_the_door", "--ignored"]));
    assert!(said.contains("test result: ok. 1 passed"), "{said}");
}

#[test]
#[ignore = "part of another, which gives it a network of its own"]
fn clients_find_the_door() {
    let _directory = Directory::open();
    let site = Site::open();
    let mut larder = Larder::start("[onc]\nlisten = '127.0.0.1:0'\n[forward]\nallow_private = true");
    eventually("a registration", || is_listed().then_some(()));
    for transport in ["tcp", "udp"] {
        let said = output(program("rpcinfo", "rpcbind").args(["-T", transport, "127.0.0.1", PROGRAM, "1"]));
        assert_eq!(said.trim(), format!("program {PROGRAM} version 1 ready and waiting"));
    }
    let stock = Stock::c();
    for place in ["0", "udp0"] {
        let said = stock.says(&[place, "get", &format!("{}/small", site.url()), "page"]);
        assert_eq!(said, "page of 9");
    }
    larder.signal(Signal::TERM);
    larder.ended();
    assert!(!is_listed());
}
