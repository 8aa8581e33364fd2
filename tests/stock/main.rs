//! Independent clients: clients compiled by the usual compilers from the definitions that ship, and tools of the
//! system.

mod programs;
mod rpcbind;
mod scenario;

use std::io::Write;
use std::process::{Child, Stdio};

use larder_testkit::{Larder, Pair, program};
use programs::Stock;
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
fn python_by_thrift_over_tls() {
    pages_over_tls(&Stock::python());
}

#[test]
fn cpp_by_thrift_over_tls() {
    pages_over_tls(&Stock::cpp());
}

fn pages_over_tls(stock: &Stock) {
    let site = Site::open();
    let folder = tempfile::tempdir().expect("a folder");
    let certificate = Pair::self_signed(folder.path(), "127.0.0.1");
    let larder = Larder::start(&format!(
        "[thrift]\nlisten = '127.0.0.1:0'\ntls = true\n[forward]\nallow_private = true\n{}",
        certificate.table()
    ));
    let port = format!("{},{}", larder.door("thrift, TLS").port(), certificate.cert.display());
    for path in ["/small", "/huge"] {
        let said = stock.says(&[&port, "get", &format!("{}{path}", site.url()), "page"]);
        assert!(said.starts_with("page of "), "{said}");
        let expected = if path == "/huge" { scenario::huge() } else { b"small one".to_vec() };
        assert!(stock.saved() == expected, "{path}");
    }
    assert_eq!(stock.says(&[&port, "many", &format!("{}/small", site.url()), "20"]), "20 pages of 9");
}

#[test]
fn c_by_rpcgen() {
    let stock = Stock::c();
    let failed = "failed: RPC: Remote system error";
    scenario::all(&stock, "onc", failed, failed);
    scenario::a_page_of_25_mib_is_refused(&stock, "onc");
    scenario::a_string_is_whole_or_fails(&stock);
    scenario::a_datagram_carries_a_small_page(&stock);
}

#[test]
fn netcat_by_lines() {
    let site = Site::open();
    let larder = open();
    let address = larder.door("line");
    let begin = |url: &str| {
        let mut command = program("nc", "netcat-openbsd");
        command.args(["-N", &address.ip().to_string(), &address.port().to_string()]);
        let mut nc = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("it starts");
        writeln!(nc.stdin.take().expect("a pipe"), "{url}").expect("it reads");
        nc
    };
    let end = |nc: Child| nc.wait_with_output().expect("it ends").stdout;
    let ask = |path: &str| end(begin(&format!("{}{path}", site.url())));
    for _ in 0..2 {
        assert_eq!(ask("/small"), b"+9\nsmall one.\n");
        larder.settle();
    }
    assert_eq!((site.count("/small"), larder.stat("hits")), (1, 1));
    assert!(ask("/nothing").starts_with(b"!404 "));
    assert!(end(begin("http://127.0.0.1:65535/")).starts_with(b"!502 "));
    for (path, whole) in [("/binary", scenario::binary()), ("/huge", scenario::huge())] {
        assert!(page(&ask(path)) == whole, "{path}");
    }
    let many: Vec<_> = (0..200).map(|_| begin(&format!("{}/small", site.url()))).collect();
    assert!(many.into_iter().all(|nc| end(nc) == b"+9\nsmall one.\n"));
}

/// Returns the page from an answer of the line protocol, which frames it in chunks of at most 1,024 bytes.
fn page(mut answer: &[u8]) -> Vec<u8> {
    let mut page = Vec::new();
    while answer != b".\n" {
        let end = answer.iter().position(|&byte| byte == b'\n').expect("a line");
        let length =
            std::str::from_utf8(&answer[1..end]).ok().and_then(|length| length.parse::<usize>().ok());
        let length = length.filter(|length| answer[0] == b'+' && *length <= 1024).expect("a chunk");
        page.extend_from_slice(&answer[end + 1..][..length]);
        answer = &answer[end + 1 + length..];
    }
    page
}
