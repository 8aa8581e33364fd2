//! The hostile clients: each kind is a function that attacks once, and is repeated until the run is over.
//!
//! Real attackers have separate processors. Here they share those of the proxy, so they run at the lowest priority, as
//! hostile origins do: the measurement covers the work that they cause in the proxy, not the CPU time that they use.

use super::ordinary::Random;
use super::server::Ports;
use super::{Over, content, give_way, traps};
use anyhow::Result;
use std::io::{Read, Write};
use std::net::{TcpStream, UdpSocket};
use std::time::Duration;

/// The pause between two attacks of a client.
const PAUSE: Duration = Duration::from_millis(40);
/// The maximum time that a client waits for data.
const PATIENCE: Duration = Duration::from_secs(2);

/// A kind of hostile client.
pub(super) struct Attack {
    pub(super) name: &'static str,
    /// The number of concurrent clients.
    pub(super) clients: u64,
    once: fn(&mut Round<'_>) -> Result<()>,
}

/// One attack.
struct Round<'r> {
    ports: &'r Ports,
    over: &'r Over,
    random: &'r mut Random,
}

pub(super) const ATTACKS: &[Attack] = &[
    Attack { name: "head-flood", clients: 4, once: head_flood },
    Attack { name: "slow-upload", clients: 16, once: slow_upload },
    Attack { name: "absent", clients: 8, once: absent },
    Attack { name: "trickle", clients: 8, once: trickle },
    Attack { name: "slow-request", clients: 16, once: slow_request },
    Attack { name: "vary", clients: 2, once: vary },
    Attack { name: "unique-fields", clients: 2, once: unique_fields },
    Attack { name: "behind", clients: 2, once: behind },
    Attack { name: "reload", clients: 2, once: reload },
    Attack { name: "forged-fields", clients: 2, once: forged_fields },
    Attack { name: "many-hosts", clients: 2, once: many_hosts },
    Attack { name: "silent-admin", clients: 1, once: silent_admin },
    Attack { name: "datagrams", clients: 1, once: datagrams },
    Attack { name: "groups", clients: 2, once: groups },
    Attack { name: "unread-heads", clients: 4, once: unread_heads },
    Attack { name: "bombs", clients: 4, once: bombs },
    Attack { name: "guesses", clients: 4, once: guesses },
];

/// Returns the kind of this name.
pub(super) fn named(name: &str) -> Option<&'static Attack> {
    ATTACKS.iter().find(|attack| attack.name == name)
}

impl Attack {
    /// Attacks until the run is over.
    pub(super) fn repeat(&self, number: u64, ports: &Ports, over: &Over) {
        give_way();
        let mut random = Random(number.wrapping_mul(0x5851_f42d_4c95_7f2d) ^ self.name.len() as u64);
        while !over.is_over() {
            // The proxy may refuse the connection or close it.
            drop((self.once)(&mut Round { ports, over, random: &mut random }));
            over.sleep(PAUSE);
        }
    }
}

impl Round<'_> {
    fn connect(&self, port: u16) -> Result<TcpStream> {
        let stream = TcpStream::connect(("127.0.0.1", port))?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        Ok(stream)
    }

    /// Sends a request with these field lines to the hostile site, and reads the answer.
    fn ask(&self, line: &str, fields: &str) -> Result<()> {
        self.ask_of("evil.test", line, fields)
    }

    fn ask_of(&self, host: &str, line: &str, fields: &str) -> Result<()> {
        let mut stream = self.connect(self.ports.site)?;
        write!(stream, "{line} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n{fields}\r\n")?;
        read_all(&mut stream)
    }

    /// Sends bytes one by one.
    fn drip(&self, stream: &mut TcpStream, bytes: &[u8], pause: Duration) -> Result<()> {
        for byte in bytes {
            if self.over.is_over() {
                break;
            }
            stream.write_all(&[*byte])?;
            self.over.sleep(pause);
        }
        Ok(())
    }
}

fn read_all(stream: &mut TcpStream) -> Result<()> {
    std::io::copy(&mut stream.take(1 << 20), &mut std::io::sink())?;
    Ok(())
}

/// Sends many requests with large response heads, and does not read them.
fn head_flood(round: &mut Round<'_>) -> Result<()> {
    round.ask("GET /large-head", "")?;
    let mut stream = round.connect(round.ports.site)?;
    let one = "HEAD /large-head HTTP/1.1\r\nHost: evil.test\r\n\r\n";
    stream.write_all(one.repeat((64 << 10) / one.len()).as_bytes())?;
    round.over.sleep(Duration::from_millis(500));
    Ok(())
}

fn slow_upload(round: &mut Round<'_>) -> Result<()> {
    let mut stream = round.connect(round.ports.site)?;
    stream.write_all(b"POST /upload HTTP/1.1\r\nHost: evil.test\r\nContent-Length: 1000000\r\n\r\n")?;
    round.drip(&mut stream, &[b'u'; 200], Duration::from_millis(200))
}

/// Requests a slow response, and leaves.
fn absent(round: &mut Round<'_>) -> Result<()> {
    let mut stream = round.connect(round.ports.site)?;
    write!(stream, "GET /slow-head/{} HTTP/1.1\r\nHost: evil.test\r\n\r\n", round.random.next())?;
    round.over.sleep(Duration::from_millis(50));
    Ok(())
}

/// Requests a response that never completes; leaves, or stays for a while.
fn trickle(round: &mut Round<'_>) -> Result<()> {
    let mut stream = round.connect(round.ports.site)?;
    write!(stream, "GET /trickle/{} HTTP/1.1\r\nHost: evil.test\r\n\r\n", round.random.next())?;
    let _ = stream.read(&mut [0; 100])?;
    round.over.sleep(Duration::from_secs(if round.random.coin() { 5 } else { 0 }));
    Ok(())
}

fn slow_request(round: &mut Round<'_>) -> Result<()> {
    let mut stream = round.connect(round.ports.site)?;
    let head = format!("GET / HTTP/1.1\r\nHost: evil.test\r\nX: {}\r\n\r\n", "x".repeat(100));
    round.drip(&mut stream, head.as_bytes(), Duration::from_millis(50))
}

/// Requests many variants that differ at the end of long fields.
fn vary(round: &mut Round<'_>) -> Result<()> {
    let other = format!("{}{}", "o".repeat(20_000), round.random.next() % 100);
    let fields = format!("Accept-Language: en;q=0.{}\r\nX-Other: {other}\r\n", round.random.next() % 9);
    round.ask("GET /vary", &fields)
}

fn unique_fields(round: &mut Round<'_>) -> Result<()> {
    let path = format!("GET /unique-fields/{}", round.random.next() % 5_000);
    round.ask(&path, "")?;
    round.ask(&path, "Cache-Control: no-cache\r\n")
}

fn behind(round: &mut Round<'_>) -> Result<()> {
    let method = if round.random.coin() { "HEAD" } else { "GET" };
    let length = (round.random.next() % 12) as usize;
    let page = round.random.next() % 10;
    round.ask(&format!("{method} /behind/{}{page}", "b".repeat(length)), "")
}

/// Makes the proxy fetch stored pages again, also where the origin fails.
fn reload(round: &mut Round<'_>) -> Result<()> {
    let fields = "Cache-Control: no-cache\r\nPragma: no-cache\r\n";
    let page = round.random.next() % 20;
    round.ask(&format!("GET /error/{page}"), fields)?;
    let (path, _) = content::path(round.random.next() % 50);
    round.ask_of("good.test", &format!("GET {path}"), fields)
}

/// Sends fields that tell the origin to serve another page.
fn forged_fields(round: &mut Round<'_>) -> Result<()> {
    let (path, _) = content::path(round.random.next() % 3_000);
    let fields = "X-Forwarded-Host: evil.test\r\nForwarded: for=192.0.2.1;host=evil.test\r\nX-Original-URL: /evil\r\n\
                  X-Rewrite-URL: /evil\r\nX_Forwarded_Host: evil.test\r\nX-Forwarded-Prefix: /evil\r\n\
                  X-HTTP-Method-Override: DELETE\r\nLarder-Peer: reverse 192.0.2.1:1 - -\r\n";
    round.ask_of("good.test", &format!("GET {path}"), fields)
}

fn many_hosts(round: &mut Round<'_>) -> Result<()> {
    let mut stream = round.connect(round.ports.forward)?;
    let host =
        format!("127.0.1.{}:{}", 1 + round.random.next() % u64::from(traps::NEIGHBOURS), round.ports.traps);
    write!(
        stream,
        "GET http://{host}/{} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n",
        round.random.next()
    )?;
    read_all(&mut stream)
}

/// Opens connections to the admin listener and sends no bytes.
fn silent_admin(round: &mut Round<'_>) -> Result<()> {
    let silent: Result<Vec<_>> = (0..200).map(|_| round.connect(round.ports.admin)).collect();
    round.over.sleep(Duration::from_secs(5));
    silent.map(drop)
}

/// Sends datagrams, with and without the form of calls.
fn datagrams(round: &mut Round<'_>) -> Result<()> {
    let socket = UdpSocket::bind("127.0.0.1:0")?;
    for _ in 0..20 {
        let mut call: Vec<u8> = [round.random.next() as u32, 0, 2, 0x2345_1111, 1, 1, 0, 0, 0, 0]
            .iter()
            .flat_map(|word| word.to_be_bytes())
            .collect();
        call.extend((0..round.random.next() % 32).map(|_| round.random.next() as u8));
        socket.send_to(&call, ("127.0.0.1", round.ports.onc))?;
    }
    Ok(())
}

/// Sends unsafe requests whose answers purge groups without members.
fn groups(round: &mut Round<'_>) -> Result<()> {
    let mut stream = round.connect(round.ports.site)?;
    for number in 0..50 {
        let close = if number == 49 { "Connection: close\r\n" } else { "" };
        write!(stream, "POST /group HTTP/1.1\r\nHost: evil.test\r\nContent-Length: 0\r\n{close}\r\n")?;
    }
    read_all(&mut stream)
}

/// Requests many long heads over HTTP/2, and does not read them.
fn unread_heads(round: &mut Round<'_>) -> Result<()> {
    const STREAMS: u32 = 100;
    let mut stream = round.connect(round.ports.site)?;
    stream.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0")?;
    for number in 0..STREAMS {
        let path = format!("/unstored-head/{}", round.random.next());
        let fields =
            [(":method", "HEAD"), (":scheme", "http"), (":authority", "evil.test"), (":path", path.as_str())];
        // Literal fields without indexing (RFC 7541 section 6.2.2).
        let literal = |text: &str| [&[text.len() as u8][..], text.as_bytes()].concat();
        let field = |(name, value)| [vec![0], literal(name), literal(value)].concat();
        let section = fields.map(field).concat();
        stream.write_all(&[0, 0, section.len() as u8, 1, 5])?;
        stream.write_all(&[&(2 * number + 1).to_be_bytes(), &section[..]].concat())?;
    }
    round.over.sleep(Duration::from_secs(5));
    Ok(())
}

/// Requests stored content that becomes too long without its coding, as a client that does not accept the coding.
fn bombs(round: &mut Round<'_>) -> Result<()> {
    let page = round.random.next() % 50;
    round.ask(&format!("GET /bomb/{page}"), "Accept-Encoding: identity\r\n")
}

/// Shows wrong passwords.
fn guesses(round: &mut Round<'_>) -> Result<()> {
    for _ in 0..10 {
        // `a:a`, with other last characters.
        let guess = format!("Authorization: Basic YTp{:04}\r\n", 1_000 + round.random.next() % 9_000);
        round.ask("GET /members", &guess)?;
    }
    Ok(())
}
