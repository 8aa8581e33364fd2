//! Any bytes for ONC RPC, from a client, from a server and from rpcbind.

#![no_main]

use bytes::BytesMut;
use fuzz::{LIMITS, client, server};
use larder_rpc::onc::{Client, Server, datagram, rpcbind};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: (u8, &[u8])| {
    let (piece, wire) = input;
    server(|| Server::new(LIMITS), wire, piece);
    let _ = datagram(wire);
    client(|| Client::new(0, LIMITS), wire, piece);
    let mut bound = rpcbind::Client::new(1, 1, 0);
    bound.encode(rpcbind::Request::Unset);
    let _ = bound.decode(&mut BytesMut::from(wire));
});
