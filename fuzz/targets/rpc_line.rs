//! Any bytes for the line protocol, from a client and from a server, in each form.

#![no_main]

use fuzz::{LIMITS, client, server};
use larder_rpc::line::{Client, Form, Server};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: (u8, &[u8])| {
    let (piece, wire) = input;
    for form in [Form::Framed, Form::Bare] {
        server(|| Server::new(form, LIMITS), wire, piece);
        client(|| Client::new(form, LIMITS), wire, piece);
    }
});
