//! Common HTTP/2 clients.

use std::process::Command;

use larder_testkit::{Answer, Authority, Larder, Origin, file_with, output, site};

#[test]
fn curl_with_prior_knowledge() {
    let content: Vec<_> = (0..1_000_000).map(|at| b'a' + (at % 23) as u8).collect();
    let body = content.clone();
    let origin = Origin::answering(move |_| Answer::with_body("200 OK\nCache-Control: max-age=60", &body));
    let larder = Larder::before(&origin);
    let url = format!("http://{}/", larder.address());
    for hit in [false, true] {
        let text = output(Command::new("curl").args(["-sS", "-i", "--http2-prior-knowledge", &url]));
        let (head, rest) = text.split_once("\r\n\r\n").expect("a head");
        assert!(head.starts_with("HTTP/2 200"), "{head}");
        assert_eq!(head.contains("; hit"), hit, "{head}");
        assert!(rest.as_bytes() == content);
        larder.settle();
    }
    let sent = output(Command::new("curl").args(["-sS", "--http2-prior-knowledge", "-d", "abc", &url]));
    assert_eq!(sent.len(), content.len());
    assert_eq!(origin.last().body, b"abc");
}

#[test]
fn curl_gets_the_response_to_an_upload_that_is_refused() {
    let origin = Origin::always("200 OK\n\n");
    let larder = Larder::start(&format!("{}[limits]\nbody = '1KiB'\n", site(&[&origin], "")));
    let url = format!("http://{}/", larder.address());
    let (_directory, file) = file_with("upload", &"x".repeat(5 << 20));
    let curl = ["-sS", "--http2-prior-knowledge", "-w", "%{http_code}", "-o", "/dev/null", "--data-binary"];
    for _ in 0..5 {
        assert_eq!(
            output(Command::new("curl").args(curl).args([&format!("@{}", file.display()), &url])),
            "413"
        );
    }
}

#[test]
fn curl_over_tls_gets_content_of_any_length() {
    let content: Vec<_> = (0..3_000_000).map(|at| b'a' + (at % 23) as u8).collect();
    let body = content.clone();
    let origin = Origin::answering(move |seen| {
        let length = seen.target[1..].parse().expect("a length");
        Answer::with_body("200 OK\nCache-Control: max-age=60", &body[..length])
    });
    let (authority, listen) =
        (Authority::new(), "[reverse]\nlisten = '127.0.0.1:0'\nlisten_tls = '127.0.0.1:0'\n");
    let pair = authority.pair("site", &["localhost"]);
    let larder = Larder::start(&format!("{listen}{}{}", pair.table(), site(&[&origin], "")));
    let url = format!("https://localhost:{}", larder.door("reverse, TLS").port());
    let curl = ["-sS", "--http2", "--noproxy", "*", "--cacert", &authority.file()];
    for length in [1, 1_000, 65_535, 65_536, 131_000, 131_072, 1_000_000, 3_000_000] {
        for _ in 0..2 {
            let text = output(Command::new("curl").args(curl).arg(format!("{url}/{length}")));
            assert!(text.as_bytes() == &content[..length], "{length}");
            larder.settle();
        }
    }
    assert_eq!(origin.count(), 8);
}

#[test]
fn httpx() {
    let origin = Origin::by(|seen| format!("200 OK\nCache-Control: max-age=60\n\n{}", seen.target));
    let larder = Larder::before(&origin);
    let script = "import sys, httpx
with httpx.Client(http1=False, http2=True, base_url=sys.argv[1]) as client:
    for path in ('/a', '/b', '/a'):
        answer = client.get(path)
        print(answer.http_version, answer.status_code, answer.text)
    print(client.post('/', content=b'x' * 200_000).status_code)";
    let text = output(Command::new("/usr/bin/python3").args([
        "-c",
        script,
        &format!("http://{}", larder.address()),
    ]));
    assert_eq!(text, "HTTP/2 200 /a\nHTTP/2 200 /b\nHTTP/2 200 /a\n200\n");
    assert_eq!(origin.last().body.len(), 200_000);
}

#[test]
fn node() {
    let origin = Origin::by(|seen| format!("200 OK\nCache-Control: max-age=60\n\n{}", seen.target));
    let larder = Larder::before(&origin);
    let script = "const session = require('http2').connect(process.argv[1]);
        const ask = path => new Promise((done, failed) => {
            const stream = session.request({ ':path': path });
            let status, text = '';
            stream.on('response', head => status = head[':status']);
            stream.setEncoding('utf8').on('data', data => text += data);
            stream.on('end', () => done(`${status} ${text}`)).on('error', failed);
        });
        Promise.all(['/a', '/b', '/c'].map(ask)).then(all => { console.log(all.join(', ')); session.close(); });";
    let text = output(Command::new("node").args(["-e", script, &format!("http://{}", larder.address())]));
    assert_eq!(text, "200 /a, 200 /b, 200 /c\n");
}

#[test]
fn nghttp_and_h2load() {
    let origin = Origin::by(|seen| format!("200 OK\nCache-Control: max-age=60\n\n{}", seen.target));
    let larder = Larder::before(&origin);
    let url = format!("http://{}/", larder.address());
    assert_eq!(output(Command::new("nghttp").arg(format!("{url}page"))), "/page");
    larder.settle();
    let load = ["-n", "5000", "-c", "4", "-m", "50", "-w", "14"];
    let text = output(Command::new("h2load").args(load).arg(format!("{url}page")));
    assert!(text.contains("5000 succeeded, 0 failed, 0 errored, 0 timeout"), "{text}");
    assert!(text.contains("5000 2xx"), "{text}");
    assert_eq!(origin.count(), 1);
}
