//! Any bytes for Thrift, from a client and from a server, in each transport and protocol.

#![no_main]

use fuzz::{LIMITS, client, server};
use larder_rpc::thrift::{Client, Protocol, Server, Transport};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: (u8, &[u8])| {
    let (piece, wire) = input;
    server(|| Server::new(LIMITS), wire, piece);
    for transport in [Transport::Framed, Transport::Buffered] {
        for protocol in [Protocol::Binary, Protocol::OldBinary, Protocol::Compact] {
            client(|| Client::new(transport, protocol, LIMITS), wire, piece);
        }
    }
});
