//! `larder stats`: reads the counters of a running proxy and shows them.
//!
//! HTTP/1.0 gives an answer that ends with the connection, so that no client library is needed here.

use std::io::{self, ErrorKind, IsTerminal, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;

use serde_json::{Map, Value};

use crate::args::Stats;
use crate::remote::Listener;
use crate::secret::{Secret, Shown};
use crate::units::{about_count, about_size};
use crate::{Failure, say, summary};

/// How often `--watch` shows the numbers.
const EVERY: Duration = Duration::from_secs(1);
/// Clears a terminal.
const CLEAR: &str = "\x1b[H\x1b[J";
/// How long an admin listener may take for anything.
const PATIENCE: Duration = Duration::from_secs(5);
/// More than any answer of ours has, in bytes.
const LARGEST: u64 = 64 << 20;

/// Prints the numbers of the proxy at `stats.admin`, or what was asked of the statistics database.
pub(crate) fn run(stats: &Stats) -> Result<(), Failure> {
    if stats.asked.answer(stats.json)? {
        return Ok(());
    }
    if stats.findings.answer(&stats.listener, stats.json)? {
        return Ok(());
    }
    loop {
        print(stats)?;
        if !stats.watch {
            return Ok(());
        }
        std::thread::sleep(EVERY);
        say(if io::stdout().is_terminal() { CLEAR } else { "" });
    }
}

/// Prints the numbers once: as JSON, all of them, or those that fit one screen.
fn print(stats: &Stats) -> Result<(), Failure> {
    let (text, numbers) = numbers(&stats.listener).map_err(Failure::Failed)?;
    match (stats.json, stats.all) {
        (true, _) => say(text.trim_end()),
        (false, true) => table(&numbers).iter().for_each(|line| say(line)),
        (false, false) => summary::lines(&numbers).iter().for_each(|line| say(line)),
    }
    Ok(())
}

/// The numbers of the proxy with this admin listener: as they came, and what they say.
///
/// # Errors
/// Why there are none, in one line.
pub(crate) fn numbers(listener: &Listener) -> Result<(String, Map<String, Value>), String> {
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

/// That the admin listener at `admin` gave no answer.
pub(crate) fn unanswered(admin: &str, why: String) -> String {
    format!("no larder answers at {admin}: {why}")
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

/// What an error of a connection to an admin listener means.
pub(crate) fn explain(error: &io::Error) -> String {
    match error.kind() {
        ErrorKind::ConnectionRefused => {
            "connection refused; is it running, or was it started with --admin elsewhere?".to_owned()
        }
        ErrorKind::WouldBlock | ErrorKind::TimedOut => format!("silent for {} seconds", PATIENCE.as_secs()),
        ErrorKind::InvalidData => "not an HTTP server".to_owned(),
        _ => error.to_string(),
    }
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

/// The keys that most people look for, which come first.
const FIRST: &[&str] = &[
    "requests",
    "hits",
    "validated",
    "misses",
    "hit_ratio",
    "validated_hit_ratio",
    "byte_hit_ratio",
    "bytes_served",
    "objects",
    "bytes_stored",
    "capacity",
    "policy",
];

/// One aligned line for each number: the well-known ones, then the others by name.
fn table(numbers: &Map<String, Value>) -> Vec<String> {
    let by_entries = numbers.get("by").is_some_and(|by| by == "entries");
    let mut rows = Vec::new();
    for (name, value) in numbers {
        flatten(name.clone(), value, by_entries, &mut rows);
    }
    rows.sort_by_key(|(name, _)| FIRST.iter().position(|first| first == name).unwrap_or(FIRST.len()));
    let widest = rows.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0);
    rows.into_iter().map(|(name, value)| format!("{name:<widest$}  {value}")).collect()
}

/// `value` as rows of a name and a text; what lies in an object is called `outer.inner`, what lies in a list
/// by its place, from 1.
fn flatten(name: String, value: &Value, by_entries: bool, rows: &mut Vec<(String, String)>) {
    match value {
        Value::Object(inner) => {
            for (key, value) in inner {
                flatten(format!("{name}.{key}"), value, by_entries, rows);
            }
        }
        Value::Array(all) => {
            for (at, value) in all.iter().enumerate() {
                flatten(format!("{name}.{}", at + 1), value, by_entries, rows);
            }
        }
        _ => {
            let text = show(&name, value, by_entries);
            rows.push((name.escape_debug().to_string(), text));
        }
    }
}

/// A value as people read it: names tell ratios and sizes from counts.
fn show(name: &str, value: &Value, by_entries: bool) -> String {
    let is_size = name.contains("bytes") || name == "capacity" && !by_entries;
    match (value, value.as_u64(), value.as_f64()) {
        (_, _, Some(ratio)) if name.ends_with("ratio") => format!("{:.2}%", ratio * 100.0),
        (_, Some(bytes), _) if is_size => about_size(bytes),
        (_, Some(count), _) => about_count(count),
        (Value::String(text), ..) => text.escape_debug().to_string(),
        _ => value.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn lines(value: &Value) -> Vec<String> {
        table(value.as_object().expect("an object"))
    }

    #[test]
    fn numbers_are_aligned_and_humanised_and_none_is_left_out() {
        let numbers = json!({
            "capacity": 1_073_741_824, "hit_ratio": 0.75, "hits": 3, "requests": 1_234_567,
            "bytes_served": 123_456_789, "policy": "lru", "origin": {"errors": 2}, "disks": [{"size": 1}],
        });
        let expected = [
            "requests       1,234,567",
            "hits           3",
            "hit_ratio      75.00%",
            "bytes_served   117.7 MiB",
            "capacity       1.00 GiB",
            "policy         lru",
            "disks.1.size   1",
            "origin.errors  2",
        ];
        assert_eq!(lines(&numbers), expected);
    }

    #[test]
    fn a_capacity_by_entries_is_a_count() {
        assert_eq!(
            lines(&json!({"capacity": 2048, "by": "entries"})),
            ["capacity  2,048", "by        entries"]
        );
    }

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
