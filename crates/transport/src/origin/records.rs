//! The records in the answers of name servers: services (SRV, RFC 2782) and addresses (A and AAAA).
//!
//! Only records that belong to the question count: for a host, those of its name, or of the name to which its CNAME
//! records lead (RFC 1034 section 3.6.2).

use std::io::{self, ErrorKind};
use std::net::IpAddr;

use simple_dns::rdata::RData;
use simple_dns::{CLASS, Packet, RCODE, ResourceRecord};

/// The most aliases (CNAME) between a name and its addresses.
const ALIASES: usize = 16;
/// The most addresses of a host.
const ADDRESSES: usize = 64;

/// A server of a service (RFC 2782).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceRecord {
    pub(super) priority: u16,
    pub(super) weight: u16,
    pub(super) port: u16,
    /// The name of the server, without the dot at its end.
    pub(super) target: Box<str>,
}

/// The records of a service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceRecords {
    /// At least one.
    pub(super) records: Vec<ServiceRecord>,
    /// The shortest lifetime of the records, in seconds.
    pub(super) lifetime: u32,
}

/// The addresses of a host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostAddresses {
    /// At most 64.
    pub addresses: Vec<IpAddr>,
    /// The shortest lifetime of the records that lead to them, in seconds; `None`: a source without lifetimes has
    /// answered.
    pub lifetime: Option<u32>,
}

/// Returns the servers of a service in an answer.
///
/// # Errors
/// `NotFound` if it has none; else the failure of the name server.
pub fn services(answer: &[u8]) -> io::Result<ServiceRecords> {
    let packet = parse(answer)?;
    let lifetime = packet.answers.iter().map(lifetime).min();
    let records = packet.answers.iter().filter_map(|record| match &record.rdata {
        RData::SRV(found) => Some(ServiceRecord {
            priority: found.priority,
            weight: found.weight,
            port: found.port,
            target: found.target.to_string().trim_end_matches('.').into(),
        }),
        _ => None,
    });
    // The root as the only target says that there is no such service (RFC 2782).
    let records: Vec<_> = records.filter(|record| !record.target.is_empty()).collect();
    match lifetime.filter(|_| !records.is_empty()) {
        Some(lifetime) => Ok(ServiceRecords { records, lifetime }),
        None => Err(ErrorKind::NotFound.into()),
    }
}

/// Returns the addresses of a host in an answer.
///
/// # Errors
/// `NotFound` if it has none; `InvalidData` if its aliases lead in a circle; else the failure of the name server.
pub fn addresses(answer: &[u8]) -> io::Result<HostAddresses> {
    let packet = parse(answer)?;
    let mut owner = &packet.questions.first().ok_or(ErrorKind::InvalidData)?.qname;
    let mut shortest = u32::MAX;
    for _ in 0..=ALIASES {
        let (mut addresses, mut alias) = (Vec::new(), None);
        let own = |record: &&ResourceRecord<'_>| record.class == CLASS::IN && record.name == *owner;
        for record in packet.answers.iter().filter(own) {
            match &record.rdata {
                RData::A(found) => addresses.push(IpAddr::from(found.address.to_be_bytes())),
                RData::AAAA(found) => addresses.push(IpAddr::from(found.address.to_be_bytes())),
                RData::CNAME(found) => alias = Some(&found.0),
                _ => continue,
            }
            shortest = shortest.min(lifetime(record));
        }
        if !addresses.is_empty() {
            addresses.truncate(ADDRESSES);
            return Ok(HostAddresses { addresses, lifetime: Some(shortest) });
        }
        owner = alias.ok_or(ErrorKind::NotFound)?;
    }
    Err(invalid("too many aliases"))
}

/// Returns the lifetime of a record in seconds. One with the highest bit set counts as zero (RFC 2181 section 8).
fn lifetime(record: &ResourceRecord<'_>) -> u32 {
    i32::try_from(record.ttl).map_or(0, i32::unsigned_abs)
}

/// Parses an answer without an error. Errors: `NotFound` if there is no such name; else what the name server says.
fn parse(answer: &[u8]) -> io::Result<Packet<'_>> {
    let packet = Packet::parse(answer).map_err(invalid)?;
    match packet.rcode() {
        RCODE::NoError => Ok(packet),
        RCODE::NameError => Err(ErrorKind::NotFound.into()),
        code => Err(io::Error::other(format!("the name server answers {code:?}"))),
    }
}

pub(super) fn invalid(why: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, why)
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use simple_dns::rdata::{AAAA, CNAME};
    use simple_dns::{Name, QCLASS, QTYPE, Question, TYPE};

    use super::*;

    /// Returns an answer to a question for the addresses of `a.test`, with these records: owner, lifetime and data, which
    /// is an address or the name of an alias.
    fn answer(records: &[(&str, u32, &str)]) -> Vec<u8> {
        let mut packet = Packet::new_reply(1);
        let name = |text| Name::new(text).unwrap();
        let question = Question::new(name("a.test"), QTYPE::TYPE(TYPE::A), QCLASS::CLASS(CLASS::IN), false);
        packet.questions.push(question);
        for &(owner, lifetime, data) in records {
            let data = match data.parse() {
                Ok(IpAddr::V4(ip)) => RData::A(ip.into()),
                Ok(IpAddr::V6(ip)) => RData::AAAA(AAAA::from(ip)),
                Err(_) => RData::CNAME(CNAME(name(data))),
            };
            packet.answers.push(ResourceRecord::new(name(owner), CLASS::IN, lifetime, data));
        }
        packet.build_bytes_vec_compressed().unwrap()
    }

    #[test]
    fn addresses_are_those_to_which_the_name_leads() {
        let found = |records: &[_]| addresses(&answer(records)).map_err(|error| error.kind());
        let one = IpAddr::from(Ipv4Addr::new(192, 0, 2, 1));
        let is = |lifetime| Ok(HostAddresses { addresses: vec![one], lifetime: Some(lifetime) });
        for (records, expected) in [
            (&[("A.Test", 60, "192.0.2.1")][..], is(60)),
            (&[("b.test", 9, "192.0.2.9"), ("a.test", 60, "192.0.2.1")], is(60)),
            (&[("c.test", 60, "192.0.2.1"), ("a.test", 5, "b.test"), ("b.test", 9, "c.test")], is(5)),
            (&[("a.test", 1 << 31, "192.0.2.1")], is(0)),
            (&[("b.test", 60, "192.0.2.1")], Err(ErrorKind::NotFound)),
            (&[("a.test", 60, "b.test"), ("b.test", 60, "a.test")], Err(ErrorKind::InvalidData)),
        ] {
            assert_eq!(found(records), expected, "{records:?}");
        }
        let both = found(&[("a.test", 9, "192.0.2.1"), ("a.test", 7, "2001:db8::1")]).unwrap();
        assert_eq!((both.addresses.len(), both.lifetime), (2, Some(7)));
        let many: Vec<_> = (0..100).map(|_| ("a.test", 9, "192.0.2.1")).collect();
        assert_eq!(found(&many).unwrap().addresses.len(), ADDRESSES);
    }
}
