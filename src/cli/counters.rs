//! The counters of a running proxy, as its admin listener returns them.
//!
//! HTTP/1.0 gives an answer that ends with the connection, so that no client library is needed here.

use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;

use serde_json::{Map, Value};

use super::admin::{AdminListener, explain, unanswered};
use super::admin_token::{Secret, Shown};

/// How long an admin listener may take for anything.
const PATIENCE: Duration = Duration::from_secs(5);
/// More than any answer of ours has, in bytes.
const LARGEST: u64 = 64 << 20;

/// The numbers of the proxy with this admin listener: as they came, and what they say.
///
/// # Errors
/// Why there are none, in one line.
pub(crate) fn read(listener: &AdminListener) -> Result<(String, Map<String, Value>), String> {
    let failed = |why: String| unanswered(&listener.admin, why);
    let secret = listener.secret()?;
    let (answer, shown) = ask(&listener.admin, secret.as_ref()).map_err(|error| failed(explain(&error)))?;
    let text = content(&answer).map_err(|why| match shown {
        Shown::Withheld(reason) => failed(format!("{why}; {reason}")),
        Shown::Nothing | Shown::Authorization(_) => failed(why),
    })?;
    let numbers = serde_json::from_str(text)
        .map_err(|error| failed(format!("its /stats are no JSON object: {error}")))?;
    Ok((text.to_owned(), numbers))
}

fn ask(admin: &str, secret: Option<&Secret>) -> io::Result<(String, Shown)> {
    let mut outcome = Err(io::Error::other("no such address"));
    for address in admin.to_socket_addrs()? {
        outcome = TcpStream::connect_timeout(&address, PATIENCE);
        if outcome.is_ok() {
            break;
        }
    }
    let mut connection = outcome?;
    connection.set_read_timeout(Some(PATIENCE))?;
    connection.set_write_timeout(Some(PATIENCE))?;
    let shown = Secret::at(secret, connection.local_addr()?, connection.peer_addr()?);
    let line = match &shown {
        Shown::Authorization(value) => format!("Authorization: {value}\r\n"),
        Shown::Nothing | Shown::Withheld(_) => String::new(),
    };
    let request = format!("GET /stats HTTP/1.0\r\nHost: {admin}\r\nAccept: application/json\r\n{line}\r\n");
    connection.write_all(request.as_bytes())?;
    let mut answer = String::new();
    connection.take(LARGEST).read_to_string(&mut answer)?;
    Ok((answer, shown))
}

/// The content of a 200 answer, or what is wrong with the answer.
fn content(answer: &str) -> Result<&str, String> {
    let (head, body) = answer.split_once("\r\n\r\n").ok_or("not an HTTP server")?;
    let line = head.lines().next().unwrap_or_default();
    match line.strip_prefix("HTTP/1.").and_then(|rest| rest.get(2..5)) {
        Some("200") => Ok(body),
        Some("401" | "403") => Err(body.lines().next().unwrap_or_default().escape_debug().to_string()),
        Some(status) => Err(format!("status {}; is this its admin listener?", status.escape_debug())),
        None => Err("not an HTTP server".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_that_are_not_ours_say_so() {
        assert_eq!(content("HTTP/1.1 200 OK\r\nA: b\r\n\r\n{}"), Ok("{}"));
        let wrong = [
            ("HTTP/1.1 404 Not Found\r\n\r\n", "status 404; is this its admin listener?"),
            ("SSH-2.0-x\r\n", "not an HTTP server"),
            ("HTTP/1.1\r\n\r\n", "not an HTTP server"),
            ("", "not an HTTP server"),
        ];
        for (answer, error) in wrong {
            assert_eq!(content(answer), Err(error.to_owned()), "{answer}");
        }
    }
}
