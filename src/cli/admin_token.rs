//! The admin token that commands send: a token from the environment is not sent to programs of other users.
//!
//! Any user of a machine can listen at a larder's usual address. The kernel reports the user of the program at the other
//! end of a local connection; a token from the command line is sent to any program.

use std::env;
use std::net::SocketAddr;

use larder_proxy::settings::Token;

use super::tcp_sockets::{self, TcpSocket, canonical};

/// The variable with the admin token, for commands whose command line and config file have none.
pub(crate) const TOKEN: &str = "LARDER_TOKEN";

/// A token, and the programs that may receive it.
#[derive(Clone, Debug)]
pub(crate) struct Secret {
    token: Token,
    /// Whether the token comes from the environment.
    is_ambient: bool,
}

/// The decision about a token at a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum TokenDecision {
    /// There is no token.
    Nothing,
    /// The value of `Authorization` to send.
    Authorization(String),
    /// The token is not sent, for this reason.
    Withheld(String),
}

impl Secret {
    /// Returns the token that was `written`, or else that of the environment. Errors: the environment's value is not a
    /// token.
    pub(crate) fn of(written: Option<&Token>) -> Result<Option<Self>, String> {
        match (written, env::var(TOKEN)) {
            (Some(token), _) => Ok(Some(Self { token: token.clone(), is_ambient: false })),
            (None, Ok(text)) if !text.is_empty() => {
                let token = text.parse().map_err(|why| format!("${TOKEN}: {why}"))?;
                Ok(Some(Self { token, is_ambient: true }))
            }
            (None, _) => Ok(None),
        }
    }

    /// Decides whether to send the token at a connection from `here` to `there`.
    pub(crate) fn at(secret: Option<&Self>, here: SocketAddr, there: SocketAddr) -> TokenDecision {
        let Some(secret) = secret else { return TokenDecision::Nothing };
        let own = rustix::process::geteuid().as_raw();
        match owner(here, there, own) {
            Err(why) if secret.is_ambient => TokenDecision::Withheld(format!(
                "${TOKEN} was not sent: {why}; --token sends it nevertheless"
            )),
            _ => TokenDecision::Authorization(format!("Bearer {}", secret.token.secret())),
        }
    }
}

/// Returns an error if the program at `there` may belong to another user; `own` is this user.
fn owner(here: SocketAddr, there: SocketAddr, own: u32) -> Result<(), String> {
    judge(&tcp_sockets::all(), here, there, own)
}

fn judge(rows: &[TcpSocket], here: SocketAddr, there: SocketAddr, own: u32) -> Result<(), String> {
    let (here, there) = (canonical(here), canonical(there));
    let is_other_end = |row: &&TcpSocket| row.local == there && row.remote == here;
    let Some(end) = rows.iter().find(is_other_end) else {
        // The other end is on another machine, or unknown.
        return match there.ip().is_loopback() || there.ip() == here.ip() {
            true => Err(format!("the owner of the program at {there} is not known")),
            false => Ok(()),
        };
    };
    // A connection that has not been accepted belongs to no process yet; the listener will get it.
    let listens = |row: &&TcpSocket| {
        let ip = row.local.ip();
        row.listens && row.local.port() == there.port() && (ip == there.ip() || ip.is_unspecified())
    };
    let mut owners = rows.iter().filter(listens).chain([end]).map(|row| row.uid);
    match owners.find(|uid| *uid != 0 && *uid != own) {
        Some(uid) => Err(format!("the program at {there} belongs to another user ({uid})")),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(target_endian = "little")]
    #[test]
    fn the_system_says_whose_program_is_at_the_other_end() {
        let rows = |text: &str| text.lines().filter_map(TcpSocket::of).collect::<Vec<_>>();
        let header = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode";
        let row = |local: &str, remote: &str, state: &str, uid: u32| {
            format!(
                "   0: {local} {remote} {state} 00000000:00000000 00:00000000 00000000 {uid:>5} 0 7 1 0 100 0"
            )
        };
        let (server, client, none) = ("0100007F:23B9", "0100007F:8AE2", "00000000:0000");
        let mapped = "0000000000000000FFFF00000100007F";
        let (here, there) = ("127.0.0.1:35554".parse().unwrap(), "127.0.0.1:9145".parse().unwrap());
        for (lines, expected) in [
            (vec![row(server, none, "0A", 7), row(server, client, "01", 7)], true),
            (vec![row(server, none, "0A", 0), row(server, client, "01", 0)], true),
            (vec![row(server, none, "0A", 8), row(server, client, "01", 8)], false),
            // Not accepted yet.
            (vec![row(server, none, "0A", 8), row(server, client, "01", 0)], false),
            (vec![row("00000000:23B9", none, "0A", 8), row(server, client, "01", 0)], false),
            // Accepted by a program that has stopped listening.
            (vec![row(server, none, "0A", 7), row(server, client, "01", 8)], false),
            (vec![row(&format!("{mapped}:23B9"), &format!("{mapped}:8AE2"), "01", 8)], false),
            (vec![row(&format!("{mapped}:23B9"), &format!("{mapped}:8AE2"), "01", 7)], true),
            // The row of this user's end of the connection does not tell the owner of the other end.
            (vec![row(client, server, "01", 7)], false),
            (Vec::new(), false),
        ] {
            let table = [&[header.to_owned()], &lines[..]].concat().join("\n");
            assert_eq!(judge(&rows(&table), here, there, 7).is_ok(), expected, "{table}");
        }
        assert!(judge(&[], here, "192.0.2.1:9145".parse().unwrap(), 7).is_ok(), "another machine");
    }
}
