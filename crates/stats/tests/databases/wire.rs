//! A connection between a recorder and its server that fails at the worst moment: while a transaction is committed.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

use larder_testkit::{listen, serve};

/// The fault of the next commit once the wire is armed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The server commits, and its answer is lost.
    LosesAnswer,
    /// The commit reaches the server when the client has given up and reconnected.
    ComesLate,
}

/// The wire. It ends with the test.
pub(crate) struct Wire {
    pub(crate) port: u16,
    state: Arc<State>,
}

struct State {
    fault: Fault,
    is_armed: AtomicBool,
    /// A delayed commit, and its destination.
    late: Mutex<Option<(TcpStream, Vec<u8>)>>,
}

impl Wire {
    pub(crate) fn to(server: u16, fault: Fault) -> Self {
        let (listener, address) = listen();
        let state = Arc::new(State { fault, is_armed: AtomicBool::new(false), late: Mutex::default() });
        let shared = Arc::clone(&state);
        serve(listener, move |client| {
            if let Ok(server) = TcpStream::connect(("127.0.0.1", server)) {
                carry(&client, &server, &shared);
            }
        });
        Self { port: address.port(), state }
    }

    /// Makes the next commit fail.
    pub(crate) fn arm(&self) {
        self.state.is_armed.store(true, Ordering::SeqCst);
    }

    pub(crate) fn has_struck(&self) -> bool {
        !self.state.is_armed.load(Ordering::SeqCst)
    }
}

/// Forwards in both directions until a side closes.
fn carry(client: &TcpStream, server: &TcpStream, state: &State) {
    // After a faulty commit, the server's answers are dropped.
    let is_deaf = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            copy(server, |bytes| !is_deaf.load(Ordering::SeqCst) && { client }.write_all(bytes).is_ok());
            hang_up(client);
        });
        copy(client, |bytes| {
            let is_struck = contains(bytes, "COMMIT") && state.is_armed.swap(false, Ordering::SeqCst);
            is_deaf.fetch_or(is_struck, Ordering::SeqCst);
            if is_struck && state.fault == Fault::ComesLate {
                *state.late.lock().unwrap() = server.try_clone().ok().map(|server| (server, bytes.to_vec()));
                return true;
            }
            let is_sent = { server }.write_all(bytes).is_ok();
            // The client has reconnected, and wants to write.
            if contains(bytes, "INTO writers")
                && let Some((mut server, commit)) = state.late.lock().unwrap().take()
            {
                server.write_all(&commit).unwrap();
            }
            is_sent
        });
        if state.fault == Fault::LosesAnswer || !is_deaf.load(Ordering::SeqCst) {
            hang_up(server);
        }
    });
}

/// Passes all bytes read to `hand_over` until that fails.
fn copy(mut from: &TcpStream, mut hand_over: impl FnMut(&[u8]) -> bool) {
    let mut buffer = [0; 64 << 10];
    while let Ok(count @ 1..) = from.read(&mut buffer)
        && hand_over(&buffer[..count])
    {}
}

fn contains(bytes: &[u8], words: &str) -> bool {
    bytes.windows(words.len()).any(|window| window == words.as_bytes())
}

/// Shuts a connection down; either side may have closed already.
fn hang_up(stream: &TcpStream) {
    let _ = stream.shutdown(Shutdown::Both);
}
