//! Clients that nobody here wrote: made by the stock compilers from the definitions that ship, and tools that
//! systems bring.

#[allow(dead_code, unused_imports, reason = "each test program uses a part of it")]
#[path = "../support/mod.rs"]
mod support;

mod programs;
mod rpcbind;
mod scenario;

use std::io::Write;
use std::process::Stdio;

use programs::{Stock, program};
use scenario::{Site, open};

#[test]
fn python_by_thrift() {
    let stock = Stock::python();
    scenario::all(&stock, "thrift", "failed 502", "failed 404 ");
    scenario::a_page_of_25_mib_arrives(&stock, "thrift");
    scenario::statistics_are_counted_and_reset(&stock);
}

#[test]
fn cpp_by_thrift() {
    let stock = Stock::cpp();
    scenario::all(&stock, "thrift", "failed 502", "failed 404 ");
    scenario::a_page_of_25_mib_arrives(&stock, "thrift");
    scenario::statistics_are_counted_and_reset(&stock);
}

#[test]
fn c_by_rpcgen() {
    let stock = Stock::c();
    let failed = "failed: RPC: Remote system error";
    scenario::all(&stock, "onc", failed, failed);
    scenario::a_page_of_25_mib_is_refused(&stock, "onc");
    scenario::a_datagram_carries_a_small_page(&stock);
}

#[test]
fn netcat_by_lines() {
    let site = Site::open();
    let larder = open();
    let address = larder.door("line");
    let ask = |path: &str| {
        let mut command = program("nc", "netcat-openbsd");
        command.args(["-N", &address.ip().to_string(), &address.port().to_string()]);
        let mut nc = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("it starts");
        writeln!(nc.stdin.take().expect("a pipe"), "{}{path}", site.url()).expect("it reads");
        nc.wait_with_output().expect("it ends").stdout
    };
    for _ in 0..2 {
        assert_eq!(String::from_utf8_lossy(&ask("/small")), "+9\nsmall one.\n");
        larder.settle();
    }
    assert_eq!((site.count("/small"), larder.stat("hits")), (1, 1));
    assert!(ask("/nothing").starts_with(b"!404 "));
    let binary = ask("/binary");
    assert!(binary.starts_with(b"+1024\n\0\x01\x02") && binary.ends_with(b".\n"));
}
