//! Listeners, connections, and heads of HTTP/1.1 messages.

use std::io::{self, BufRead, Error, ErrorKind};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::Duration;

use rustix::net::{self, AddressFamily, SocketFlags, SocketType};

/// Binds a listener to a free port of 127.0.0.1.
pub fn listen() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let address = listener.local_addr().expect("an address");
    (listener, address)
}

/// Runs `each` for every connection in a separate thread, until the program ends.
pub fn serve(listener: TcpListener, each: impl Fn(TcpStream) + Clone + Send + 'static) {
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let each = each.clone();
            thread::spawn(move || each(stream));
        }
    });
}

/// Returns free ports of 127.0.0.1 outside of the range that the kernel assigns to programs that ask for any port. So a
/// port is still free after a server on it has ended.
pub fn free_ports<const N: usize>() -> [u16; N] {
    let free = |port| TcpListener::bind((Ipv4Addr::LOCALHOST, port)).ok();
    let any = || std::iter::repeat_with(|| fastrand::u16(12_000..32_000)).find_map(free).expect("a port");
    // All ports are bound before the first is released, so that they differ.
    let listeners: [TcpListener; N] = std::array::from_fn(|_| any());
    listeners.map(|listener| listener.local_addr().expect("an address").port())
}

/// Returns an address with such a free port.
pub fn free() -> SocketAddr {
    let [port] = free_ports();
    SocketAddr::from((Ipv4Addr::LOCALHOST, port))
}

/// Connects from the address `source` of this machine.
///
/// # Errors
/// If there is no such address, or no listener.
pub fn connect_from(source: Ipv4Addr, address: SocketAddr) -> io::Result<TcpStream> {
    let socket = net::socket_with(AddressFamily::INET, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    net::bind(&socket, &SocketAddr::from((source, 0)))?;
    net::connect(&socket, &address)?;
    Ok(TcpStream::from(socket))
}

/// Disables Nagle's algorithm, and limits each read and write to `patience`.
///
/// # Errors
/// If the kernel refuses an option.
pub fn limited(stream: TcpStream, patience: Duration) -> io::Result<TcpStream> {
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(patience))?;
    stream.set_write_timeout(Some(patience))?;
    Ok(stream)
}

/// Reads the head of a message: returns its first line, and passes the name and the value of each field to `field`.
/// `None` at the end of the connection.
///
/// # Errors
/// If the connection fails, or ends within the head.
pub fn head(reader: &mut impl BufRead, field: impl FnMut(&str, &str)) -> io::Result<Option<String>> {
    let mut first = String::new();
    if reader.read_line(&mut first)? == 0 {
        return Ok(None);
    }
    fields(reader, field)?;
    first.truncate(first.trim_end().len());
    Ok(Some(first))
}

/// Reads field lines up to and including the empty line after them.
///
/// # Errors
/// The same as for [`head`].
pub fn fields(reader: &mut impl BufRead, mut field: impl FnMut(&str, &str)) -> io::Result<()> {
    let mut line = String::new();
    loop {
        line.clear();
        reader.read_line(&mut line)?;
        match line.strip_suffix("\r\n").ok_or_else(|| Error::from(ErrorKind::UnexpectedEof))? {
            "" => return Ok(()),
            line => {
                let (name, value) = line.split_once(':').unwrap_or((line, ""));
                field(name, value.strip_prefix(' ').unwrap_or(value));
            }
        }
    }
}
