//! Any fields of an entry of the stream: no panic, and a decoded message is encoded to the same fields.

#![no_main]

use larder_cluster::Message;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|fields: Vec<(Vec<u8>, Vec<u8>)>| {
    let read = || fields.iter().map(|(name, value)| (&name[..], &value[..]));
    if let Ok(message) = Message::parse(read()) {
        let written = message.fields();
        let written = written.iter().map(|(name, value)| (name.as_bytes(), &value[..]));
        assert!(written.eq(read()));
    }
});
