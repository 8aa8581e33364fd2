//! A relay between two programs that a test can cut: it refuses connections, or it accepts bytes without forwarding
//! them, as a network without a route does. The delayed bytes arrive after the relay is opened again.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use larder_testkit::locked;

/// A port of this machine that forwards to another port.
pub(crate) struct Relay {
    pub(crate) address: SocketAddr,
    way: Arc<Way>,
}

/// The treatment of connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Connections are forwarded.
    Open,
    /// Existing connections and each new one are closed.
    Refuses,
    /// Connections stay open, and no bytes are forwarded.
    Silent,
    /// The relay has ended.
    Over,
}

struct Way {
    state: Mutex<State>,
    changes: Condvar,
    /// The delay of bytes to the client, in milliseconds.
    delay: AtomicU64,
    /// All bytes that were forwarded, in either direction.
    heard: Mutex<Vec<u8>>,
}

struct State {
    mode: Mode,
    target: Option<SocketAddr>,
    /// Both ends of each connection.
    ends: Vec<TcpStream>,
}

impl Relay {
    /// Creates a relay without a target.
    pub(crate) fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        let state = State { mode: Mode::Open, target: None, ends: Vec::new() };
        let way = Arc::new(Way {
            state: Mutex::new(state),
            changes: Condvar::new(),
            delay: AtomicU64::new(0),
            heard: Mutex::default(),
        });
        let accepting = Arc::clone(&way);
        thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                if accepting.state().mode == Mode::Over {
                    return;
                }
                let way = Arc::clone(&accepting);
                thread::spawn(move || way.lead(client));
            }
        });
        Self { address, way }
    }

    /// Creates a relay to `target`.
    pub(crate) fn to(target: SocketAddr) -> Self {
        let relay = Self::new();
        relay.leads_to(target);
        relay
    }

    pub(crate) fn leads_to(&self, target: SocketAddr) {
        self.way.state().target = Some(target);
    }

    /// Delays the bytes to the client by `delay`.
    pub(crate) fn delay(&self, delay: Duration) {
        self.way.delay.store(delay.as_millis() as u64, Ordering::Relaxed);
    }

    /// Returns the number of forwarded bytes, and whether `text` was among them.
    pub(crate) fn has_heard(&self, text: &str) -> (usize, bool) {
        let heard = locked(&self.way.heard);
        (heard.len(), heard.windows(text.len()).any(|bytes| bytes == text.as_bytes()))
    }

    pub(crate) fn set(&self, mode: Mode) {
        let mut state = self.way.state();
        state.mode = mode;
        if matches!(mode, Mode::Refuses | Mode::Over) {
            for end in state.ends.drain(..) {
                let _ = end.shutdown(Shutdown::Both);
            }
        }
        drop(state);
        self.way.changes.notify_all();
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.set(Mode::Over);
        // The connection wakes the accepting thread, which then sees the mode.
        drop(TcpStream::connect(self.address));
    }
}

impl Way {
    fn state(&self) -> MutexGuard<'_, State> {
        locked(&self.state)
    }

    /// Waits while the mode is silent; returns the target, or `None` if there is none or the mode is not open.
    fn passed(&self) -> Option<SocketAddr> {
        let silent = |state: &mut State| state.mode == Mode::Silent;
        let state = self.changes.wait_while(self.state(), silent).unwrap_or_else(PoisonError::into_inner);
        state.target.filter(|_| state.mode == Mode::Open)
    }

    fn lead(self: Arc<Self>, client: TcpStream) {
        let Some(server) = self.passed().and_then(|target| TcpStream::connect(target).ok()) else { return };
        for stream in [&client, &server] {
            stream.set_nodelay(true).expect("no delay");
        }
        let copy = |stream: &TcpStream| stream.try_clone().expect("a descriptor");
        let mut state = self.state();
        if matches!(state.mode, Mode::Refuses | Mode::Over) {
            return;
        }
        // The ends of closed connections are removed.
        state.ends.retain(|end| end.peer_addr().is_ok());
        state.ends.extend([copy(&client), copy(&server)]);
        drop(state);
        let (back, from, to) = (Arc::clone(&self), copy(&server), copy(&client));
        thread::spawn(move || back.pump(from, to, true));
        self.pump(client, server, false);
    }

    /// Copies one direction until it ends.
    fn pump(&self, mut from: TcpStream, mut to: TcpStream, is_back: bool) {
        let mut buffer = vec![0; 1 << 16];
        loop {
            let read = from.read(&mut buffer).unwrap_or(0);
            locked(&self.heard).extend_from_slice(&buffer[..read]);
            if is_back {
                thread::sleep(Duration::from_millis(self.delay.load(Ordering::Relaxed)));
            }
            let goes_on = self.passed().is_some() && read > 0 && to.write_all(&buffer[..read]).is_ok();
            if !goes_on {
                // These tests do not use half-open connections.
                let _ = (from.shutdown(Shutdown::Both), to.shutdown(Shutdown::Both));
                return;
            }
        }
    }
}
