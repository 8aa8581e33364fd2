//! A client of name servers, for what the system's resolver does not return: services (SRV), and the lifetimes of
//! addresses.
//!
//! It requests the [records](super::records) from the servers in `/etc/resolv.conf`, with its search list, time limit and
//! attempts. It blocks, and is for the threads of the [resolver](super::resolve).

use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream, UdpSocket};
use std::time::{Duration, Instant};

use simple_dns::{CLASS, Name, Packet, PacketFlag, QCLASS, QTYPE, Question, TYPE};

use super::records::{self, HostAddresses, ServiceRecords, invalid};

const FILE: &str = "/etc/resolv.conf";
/// The port of name servers.
const PORT: u16 = 53;
/// The longest answer by UDP, in bytes: longer ones are cut short and requested by TCP (RFC 1035 section 4.2.1).
const DATAGRAM: usize = 512;

/// The system's settings for the resolution of names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct NameServers {
    servers: Vec<SocketAddr>,
    /// Domains that are appended to names with fewer dots than `dots`.
    search: Vec<String>,
    dots: usize,
    /// The time limit of one answer.
    timeout: Duration,
    attempts: usize,
    /// Whether hosts are asked for IPv6 addresses, too.
    has_ipv6: bool,
}

impl NameServers {
    /// Returns the settings in `/etc/resolv.conf`, or else their defaults.
    pub(super) fn of_system() -> Self {
        Self::parse(&std::fs::read_to_string(FILE).unwrap_or_default())
    }

    /// Reads the lines of a file in the form of `resolv.conf(5)`, and ignores those that it does not know.
    fn parse(text: &str) -> Self {
        let mut found = Self {
            servers: Vec::new(),
            search: Vec::new(),
            dots: 1,
            timeout: Duration::from_secs(5),
            attempts: 2,
            has_ipv6: true,
        };
        for line in text.lines() {
            let mut words = line.split_whitespace();
            match words.next() {
                Some("nameserver") => {
                    let address = words.next().and_then(|word| word.parse::<IpAddr>().ok());
                    found.servers.extend(address.map(|address| SocketAddr::new(address, PORT)));
                }
                Some("search" | "domain") => found.search = words.map(str::to_owned).collect(),
                Some("options") => words.for_each(|word| found.set(word)),
                _ => {}
            }
        }
        if found.servers.is_empty() {
            found.servers.push((Ipv4Addr::LOCALHOST, PORT).into());
        }
        found
    }

    /// Applies a word such as `ndots:5`, with the limits of the system.
    fn set(&mut self, option: &str) {
        self.has_ipv6 &= option != "no-aaaa";
        let Some((name, Ok(number))) =
            option.split_once(':').map(|(name, value)| (name, value.parse::<u8>()))
        else {
            return;
        };
        match name {
            "ndots" => self.dots = usize::from(number.min(15)),
            "timeout" => self.timeout = Duration::from_secs(u64::from(number.clamp(1, 30))),
            "attempts" => self.attempts = usize::from(number.clamp(1, 5)),
            _ => {}
        }
    }

    /// Returns the full names for `name`, in the order in which they are tried.
    fn full_names(&self, name: &str) -> Vec<String> {
        if name.ends_with('.') {
            return vec![name.to_owned()];
        }
        let searched = self.search.iter().map(|domain| format!("{name}.{domain}"));
        let is_first = name.matches('.').count() >= self.dots;
        let own = |wanted: bool| (is_first == wanted).then(|| name.to_owned());
        own(true).into_iter().chain(searched).chain(own(false)).collect()
    }

    /// Returns the servers of the service `name`. Errors: `NotFound` if none of the full names has any; else the failure
    /// for the first one that could not be looked up.
    pub(super) fn service(&self, name: &str) -> io::Result<ServiceRecords> {
        self.search(name, |name| self.ask(name, TYPE::SRV, self.attempts, records::services))
    }

    /// Returns the addresses of the host `name`, in the order in which they are tried. Errors: as for
    /// [`service`](Self::service).
    pub(super) fn host(&self, name: &str) -> io::Result<HostAddresses> {
        self.search(name, |name| self.ask_for_host(name))
    }

    fn ask_for_host(&self, name: &str) -> io::Result<HostAddresses> {
        let families: &[TYPE] = if self.has_ipv6 { &[TYPE::AAAA, TYPE::A] } else { &[TYPE::A] };
        let (mut addresses, mut lifetime) = (Vec::new(), None);
        for family in families {
            // The system's resolver follows after a failure, with all its attempts.
            match self.ask(name, *family, 1, records::addresses) {
                Ok(found) => {
                    addresses.extend(found.addresses);
                    lifetime = lifetime.into_iter().chain(found.lifetime).min();
                }
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        if addresses.is_empty() {
            return Err(ErrorKind::NotFound.into());
        }
        // As far as RFC 6724 matters here: what cannot be reached comes last.
        addresses.sort_by_key(|address| !has_route(*address));
        Ok(HostAddresses { addresses, lifetime })
    }

    /// Returns what `ask` finds for the first of the full names for `name` that exists. While it is unknown whether one
    /// does, the next one may be another host.
    fn search<T>(&self, name: &str, ask: impl Fn(&str) -> io::Result<T>) -> io::Result<T> {
        for name in self.full_names(name) {
            match ask(&name) {
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                found => return found,
            }
        }
        Err(ErrorKind::NotFound.into())
    }

    /// Returns what `read` finds in the first good answer to a question for records of the type `kind`.
    fn ask<T>(
        &self,
        name: &str,
        kind: TYPE,
        attempts: usize,
        read: impl Fn(&[u8]) -> io::Result<T>,
    ) -> io::Result<T> {
        let mut packet = Packet::new_query(fastrand::u16(..));
        packet.set_flags(PacketFlag::RECURSION_DESIRED);
        // No record has a name that cannot be written, such as one that is too long.
        let owner = Name::new(name).map_err(|_| ErrorKind::NotFound)?;
        packet.questions.push(Question::new(owner, QTYPE::TYPE(kind), QCLASS::CLASS(CLASS::IN), false));
        let query = packet.build_bytes_vec().map_err(invalid)?;
        let mut last = io::Error::from(ErrorKind::TimedOut);
        for server in self.servers.iter().cycle().take(self.servers.len() * attempts) {
            let answer = self.exchange(*server, &query);
            match answer.and_then(|answer| read(&answer)) {
                Err(error) if error.kind() != ErrorKind::NotFound => last = error,
                found => return found,
            }
        }
        Err(last)
    }

    /// Returns the answer of a name server to `query`.
    fn exchange(&self, server: SocketAddr, query: &[u8]) -> io::Result<Vec<u8>> {
        // Others would have to guess the port and the number of the query. The kernel chooses the port at random.
        let socket = connected(server)?;
        socket.send(query)?;
        let end = Instant::now() + self.timeout;
        let mut buffer = [0; DATAGRAM];
        loop {
            let left = end.checked_duration_since(Instant::now()).filter(|left| !left.is_zero());
            socket.set_read_timeout(Some(left.ok_or(ErrorKind::TimedOut)?))?;
            let length = socket.recv(&mut buffer)?;
            let answer = &buffer[..length];
            if !answers(answer, query) {
                continue;
            }
            let is_cut = answer[2] & 2 != 0;
            return if is_cut { self.exchange_by_tcp(server, query) } else { Ok(answer.to_vec()) };
        }
    }

    fn exchange_by_tcp(&self, server: SocketAddr, query: &[u8]) -> io::Result<Vec<u8>> {
        let end = Instant::now() + self.timeout;
        let mut stream = TcpStream::connect_timeout(&server, self.timeout)?;
        stream.set_write_timeout(Some(self.timeout))?;
        let length = u16::try_from(query.len()).map_err(invalid)?;
        stream.write_all(&[&length.to_be_bytes(), query].concat())?;
        let (mut answer, mut wanted, mut piece) = (Vec::new(), 2, [0; DATAGRAM]);
        while answer.len() < wanted {
            let left = end.checked_duration_since(Instant::now()).filter(|left| !left.is_zero());
            stream.set_read_timeout(Some(left.ok_or(ErrorKind::TimedOut)?))?;
            let most = piece.len().min(wanted - answer.len());
            match stream.read(&mut piece[..most])? {
                0 => return Err(ErrorKind::UnexpectedEof.into()),
                length => answer.extend_from_slice(&piece[..length]),
            }
            if let [high, low] = answer[..] {
                wanted += usize::from(u16::from_be_bytes([high, low]));
            }
        }
        answer.drain(..2);
        if answers(&answer, query) { Ok(answer) } else { Err(ErrorKind::InvalidData.into()) }
    }
}

/// Returns a socket for datagrams to `address`. Nothing is sent.
fn connected(address: SocketAddr) -> io::Result<UdpSocket> {
    let any: IpAddr =
        if address.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    let socket = UdpSocket::bind((any, 0))?;
    socket.connect(address)?;
    Ok(socket)
}

/// Whether this machine has a route to `address`.
fn has_route(address: IpAddr) -> bool {
    connected(SocketAddr::new(address, PORT)).is_ok()
}

/// Whether a message is the answer to `query`: with its number and its question.
fn answers(answer: &[u8], query: &[u8]) -> bool {
    let is_response = answer.get(2).is_some_and(|flags| flags & 0x80 != 0);
    is_response
        && answer.len() >= query.len()
        && answer[..2] == query[..2]
        && answer[4..6] == query[4..6]
        && answer[12..query.len()].eq_ignore_ascii_case(&query[12..])
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::thread;

    use simple_dns::rdata::{RData, SRV};
    use simple_dns::{RCODE, ResourceRecord};

    use super::*;

    #[test]
    fn the_settings_of_the_system_are_read() {
        let text = "# comment\nnameserver 192.0.2.1\nnameserver ::1\nnameserver x\nsearch a.example b.example\n\
            options ndots:5 timeout:99 attempts:0 rotate\n";
        let found = NameServers::parse(text);
        assert_eq!(found.servers, ["192.0.2.1:53", "[::1]:53"].map(|text| text.parse().unwrap()));
        assert_eq!((found.timeout, found.attempts), (Duration::from_secs(30), 1));
        let searched = ["_http._tcp.web.a.example", "_http._tcp.web.b.example", "_http._tcp.web"];
        assert_eq!(found.full_names("_http._tcp.web"), searched);
        assert_eq!(found.full_names("_a._tcp.b.c.d.e")[0], "_a._tcp.b.c.d.e");
        assert_eq!(NameServers::parse("").servers, ["127.0.0.1:53".parse().unwrap()]);
    }

    /// Returns the answer to `query` with these targets; with an error if there are none.
    fn reply(query: &[u8], targets: &[&str]) -> Vec<u8> {
        let mut packet = Packet::parse(query).unwrap().into_reply();
        if targets.is_empty() {
            *packet.rcode_mut() = RCODE::ServerFailure;
        }
        for (weight, target) in (1..).zip(targets) {
            let target = Name::new(target).unwrap();
            let data = RData::SRV(SRV { priority: 1, weight, port: 80, target });
            let owner = packet.questions[0].qname.clone();
            packet.answers.push(ResourceRecord::new(owner, CLASS::IN, 60, data));
        }
        packet.build_bytes_vec_compressed().unwrap()
    }

    /// Starts a name server that answers one query by UDP, and one by TCP if the first answer is cut short.
    fn server(targets: &'static [&str], is_cut: bool) -> SocketAddr {
        let (udp, tcp) = std::iter::repeat_with(|| UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap())
            .find_map(|udp| TcpListener::bind(udp.local_addr().unwrap()).ok().map(|tcp| (udp, tcp)))
            .expect("a port that is free for both");
        let address = udp.local_addr().unwrap();
        thread::spawn(move || {
            let mut query = [0; DATAGRAM];
            let (length, client) = udp.recv_from(&mut query).unwrap();
            let query = &query[..length];
            if !is_cut {
                return udp.send_to(&reply(query, targets), client).unwrap();
            }
            let mut cut = query.to_vec();
            cut[2] |= 0x82;
            udp.send_to(&cut, client).unwrap();
            let (mut stream, _) = tcp.accept().unwrap();
            let mut query = vec![0; 2 + length];
            stream.read_exact(&mut query).unwrap();
            let answer = reply(&query[2..], targets);
            stream.write(&[&(answer.len() as u16).to_be_bytes(), &answer[..]].concat()).unwrap()
        });
        address
    }

    #[test]
    fn services_are_requested_from_the_next_server_and_by_tcp() {
        let servers = vec![server(&[], false), server(&["a.example", "b.example"], true)];
        let settings = NameServers { servers, ..NameServers::parse("") };
        let found = settings.service("_web._tcp.example").unwrap();
        let targets: Vec<_> = found.records.iter().map(|record| (record.weight, &*record.target)).collect();
        assert_eq!((targets, found.lifetime), (vec![(1, "a.example"), (2, "b.example")], 60));
        let settings = NameServers { servers: vec![server(&["."], false)], ..settings };
        assert_eq!(settings.service("_web._tcp.example").unwrap_err().kind(), ErrorKind::NotFound);
    }

    #[test]
    fn a_name_that_cannot_be_looked_up_is_not_searched_elsewhere() {
        let settings = NameServers::parse("search a.example b.example c.example");
        let answers = |name: &str| match name {
            "web.a.example" | "gone.a.example" => Err(ErrorKind::NotFound.into()),
            "web.b.example" => Err(ErrorKind::TimedOut.into()),
            "web.c.example" => Ok("another host"),
            _ => Ok("found"),
        };
        assert_eq!(settings.search("web", answers).unwrap_err().kind(), ErrorKind::TimedOut);
        assert_eq!(settings.search("gone", answers).unwrap(), "found");
        let unknown = settings.search("web", |_| Err::<(), _>(ErrorKind::NotFound.into()));
        assert_eq!(unknown.unwrap_err().kind(), ErrorKind::NotFound);
    }

    #[test]
    fn a_name_that_is_too_long_is_searched_in_the_next_domain() {
        let text = format!("search {}.example b.example\noptions ndots:5", "a".repeat(64));
        let settings =
            NameServers { servers: vec![server(&["web.b.example"], false)], ..NameServers::parse(&text) };
        assert_eq!(&*settings.service("_web._tcp").unwrap().records[0].target, "web.b.example");
    }

    #[test]
    fn only_the_answer_to_a_query_is_taken() {
        let query = b"\x12\x34\x01\x00\x00\x01\0\0\0\0\0\0\x01a\0\0\x21\0\x01";
        let mut answer = *query;
        assert!(!answers(&answer, query), "a query");
        answer[2] |= 0x80;
        assert!(answers(&answer, query) && answers(&answer.map(|byte| byte.to_ascii_uppercase()), query));
        for at in [0, 1, 5, 13, 15, 17] {
            let mut other = answer;
            other[at] ^= 1;
            assert!(!answers(&other, query), "{at}");
        }
        assert!(!answers(&answer[..12], query) && !answers(b"", query));
    }
}
