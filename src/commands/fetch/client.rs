//! The clients of `larder fetch`: calls to a server of pages, over any protocol.

use std::fmt::{self, Display};
use std::io::{self, ErrorKind};

use bytes::Bytes;
use larder_rpc::{Answer, Call};

/// The reason why there is no answer.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Problem {
    /// The connection broke: the call may be repeated on another one.
    Broken(String),
    /// A repeated call would not help.
    Failed(String),
}

impl Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Self::Broken(why) | Self::Failed(why)) = self;
        f.write_str(why)
    }
}

/// A client of a server of pages. It sends calls one after the other, and connects if necessary.
pub(super) trait PageClient {
    /// Returns the answer to `call`. Errors: there is no answer. The next call begins with a new connection.
    fn ask(&mut self, call: &Call) -> Result<Answer, Problem>;
}

/// Returns the answer to `call`, on a new connection if the present one breaks.
pub(super) fn ask(client: &mut dyn PageClient, call: &Call) -> Result<Answer, Problem> {
    match client.ask(call) {
        Err(Problem::Broken(_)) => client.ask(call),
        answer => answer,
    }
}

/// Returns the page at `url`. The error is the reason why there is none, in one line.
pub(super) fn page(client: &mut dyn PageClient, url: &str) -> Result<Bytes, String> {
    let why = match ask(client, &Call::Fetch { url: url.to_owned() }) {
        Ok(Answer::Page(page)) => return Ok(page),
        Ok(Answer::Failure(failure)) if failure.status > 0 => format!("{} {}", failure.status, failure.why),
        Ok(Answer::Failure(failure)) => failure.why,
        Ok(Answer::Statistics(_) | Answer::Done) => "no page, but an answer to another call".to_owned(),
        Err(problem) => problem.to_string(),
    };
    Err(why.chars().map(|letter| if letter.is_control() { ' ' } else { letter }).collect())
}

/// Describes a system error for the user.
pub(super) fn describe(error: &io::Error) -> String {
    match error.kind() {
        ErrorKind::ConnectionRefused => "connection refused".to_owned(),
        ErrorKind::ConnectionReset => "reset by the server".to_owned(),
        _ => error.to_string(),
    }
}
