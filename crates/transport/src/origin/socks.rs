//! Tunnels through a proxy of SOCKS 5 (RFC 1928, RFC 1929). The proxy resolves names.

use std::io;
use std::net::IpAddr;

use percent_encoding::percent_decode_str;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::base::networks::{bare, host_and_port};

const VERSION: u8 = 5;
/// Methods of authentication: none, and by user name and password.
const NONE: u8 = 0;
const PASSWORD: u8 = 2;
/// The most bytes of a host, a user name or a password.
const LONGEST: usize = 255;
/// Kinds of addresses.
const IPV4: u8 = 1;
const NAME: u8 = 3;
const IPV6: u8 = 4;

/// Opens a tunnel to `authority`, which has a port, on a new connection. `user` is a user name and a password, percent-encoded, with a
/// colon between them. The inner error is the reason why the proxy opens none.
pub(super) async fn open_tunnel(
    stream: &mut TcpStream,
    authority: &str,
    user: Option<&str>,
) -> io::Result<Result<(), String>> {
    let (host, port) = host_and_port(false, authority);
    if bare(host).len() > LONGEST {
        return Ok(Err("the host is longer than 255 bytes".to_owned()));
    }
    let methods: &[u8] = if user.is_some() { &[NONE, PASSWORD] } else { &[NONE] };
    stream.write_all(&[&[VERSION, methods.len() as u8], methods].concat()).await?;
    match (read(stream).await?, user.and_then(|user| user.split_once(':'))) {
        ([VERSION, NONE], _) => {}
        ([VERSION, PASSWORD], Some((name, password))) => {
            let mut login = vec![1];
            [name, password].iter().for_each(|part| write_text(part, &mut login));
            stream.write_all(&login).await?;
            if read::<2>(stream).await?[1] != 0 {
                return Ok(Err("it does not accept the user name and the password in its URL".to_owned()));
            }
        }
        ([VERSION, _], _) => {
            let why = match user {
                None => "it needs a user name and a password, as in socks5://USER:PASSWORD@HOST:PORT",
                Some(_) => "it accepts neither a user name and a password nor clients without",
            };
            return Ok(Err(why.to_owned()));
        }
        _ => return Err(io::Error::other("its answer is not one of SOCKS 5")),
    }
    let mut request = vec![VERSION, 1, 0];
    match bare(host).parse() {
        Ok(IpAddr::V4(ip)) => request.extend([&[IPV4], &ip.octets()[..]].concat()),
        Ok(IpAddr::V6(ip)) => request.extend([&[IPV6], &ip.octets()[..]].concat()),
        Err(_) => {
            request.push(NAME);
            write_text(host, &mut request);
        }
    }
    request.extend(port.to_be_bytes());
    stream.write_all(&request).await?;
    let [version, status, _, kind] = read(stream).await?;
    if (version, status) != (VERSION, 0) {
        return Ok(Err(format!("it opens no tunnel: {}", reason(status))));
    }
    // The address that it uses itself, and a port.
    let length = match kind {
        IPV4 => 4,
        IPV6 => 16,
        _ => usize::from(read::<1>(stream).await?[0]),
    };
    stream.read_exact(&mut vec![0; length + 2]).await?;
    Ok(Ok(()))
}

async fn read<const LENGTH: usize>(stream: &mut TcpStream) -> io::Result<[u8; LENGTH]> {
    let mut bytes = [0; LENGTH];
    stream.read_exact(&mut bytes).await?;
    Ok(bytes)
}

/// Appends the length of a percent-encoded text of at most [`LONGEST`] bytes, and the text.
fn write_text(text: &str, out: &mut Vec<u8>) {
    let text: Vec<u8> = percent_decode_str(text).take(LONGEST).collect();
    out.push(text.len() as u8);
    out.extend(text);
}

/// Returns the meaning of a status (RFC 1928 section 6).
fn reason(status: u8) -> String {
    match status {
        2 => "its rules do not allow it".to_owned(),
        3 | 4 => "the origin is unreachable, or unknown".to_owned(),
        5 => "the origin refuses the connection".to_owned(),
        6 => "the origin does not answer".to_owned(),
        _ => format!("status {status}"),
    }
}
