//! Clients with other TLS libraries than curl's: GnuTLS, and OpenSSL as Node and Python use it.

use std::process::Command;

use larder_testkit::{Larder, Origin, output};

use super::{Authority, TLS, larder};

const NODE: &str = "const https = require('https');
    const [port, file] = process.argv.slice(1);
    const agent = new https.Agent({ ca: require('fs').readFileSync(file) });
    const ask = path => new Promise((done, failed) => https.get(`https://localhost:${port}${path}`, { agent }, answer => {
        const { socket } = answer, how = socket.isSessionReused() ? 'resumed' : 'new';
        let text = '';
        answer.on('data', data => text += data);
        answer.on('end', () => done(`${answer.statusCode} ${text} ${socket.getProtocol()} ${how}`));
    }).on('error', failed));
    ask('/a').then(first => ask('/a').then(second => console.log(`${first}, ${second}`)));";

const PYTHON: &str = "import socket, ssl, sys
port, file, version = sys.argv[1:]
context = ssl.create_default_context(cafile=file)
context.minimum_version = context.maximum_version = ssl.TLSVersion[version]
session = None
for _ in range(2):
    with socket.create_connection(('localhost', int(port)), timeout=60) as stream:
        with context.wrap_socket(stream, server_hostname='localhost', session=session) as client:
            client.sendall(b'GET /a HTTP/1.1\\r\\nHost: localhost\\r\\nConnection: close\\r\\n\\r\\n')
            text = b''.join(iter(lambda: client.recv(4096), b'')).decode()
            session = client.session
            how = 'resumed' if client.session_reused else 'new'
            print(text.split()[1], text.rsplit('\\r\\n', 1)[1], client.version(), how)";

fn world() -> (Authority, Origin, Larder) {
    let authority = Authority::new();
    let origin = Origin::by(|seen| format!("200 OK\nCache-Control: max-age=60\n\n{}", seen.target));
    let larder = larder(&authority, &origin, "");
    (authority, origin, larder)
}

#[test]
fn wget() {
    let (authority, origin, larder) = world();
    let url = format!("https://localhost:{}/page", larder.door(TLS).port());
    for _ in 0..2 {
        for words in [&[][..], &["--secure-protocol=TLSv1_2"]] {
            let mut wget = Command::new("wget");
            wget.args(["--quiet", "--no-proxy", "--no-hsts", "--tries=1", "--output-document=-"]);
            wget.arg(format!("--ca-certificate={}", authority.file())).args(words);
            assert_eq!(output(wget.arg(&url)), "/page");
            larder.settle();
        }
    }
    assert_eq!(origin.count(), 1);
    // The file of another authority.
    let mut wget = Command::new("wget");
    wget.args(["--no-proxy", "--tries=1"]).arg(format!("--ca-certificate={}", Authority::new().file()));
    assert!(!wget.arg(&url).output().expect("wget").status.success());
}

#[test]
fn node() {
    let (authority, origin, larder) = world();
    let port = larder.door(TLS).port().to_string();
    let said = output(Command::new("node").args(["-e", NODE, &port, &authority.file()]));
    assert_eq!(said, "200 /a TLSv1.3 new, 200 /a TLSv1.3 resumed\n");
    assert_eq!(origin.count(), 1);
}

#[test]
fn python() {
    let (authority, origin, larder) = world();
    let port = larder.door(TLS).port().to_string();
    for (version, name) in [("TLSv1_2", "TLSv1.2"), ("TLSv1_3", "TLSv1.3")] {
        let words = ["-c", PYTHON, &port, &authority.file(), version];
        let said = output(Command::new("python3").args(words));
        assert_eq!(said, format!("200 /a {name} new\n200 /a {name} resumed\n"));
    }
    assert_eq!(origin.count(), 1);
}
