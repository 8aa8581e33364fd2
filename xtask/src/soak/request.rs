//! Requests to origins: a listener on 127.0.0.1, and the requests that arrive there.

use anyhow::{Context, Result};
use std::io::{BufRead, BufReader, Read};
use std::net::{TcpListener, TcpStream};

/// A request, without its content.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Request {
    pub(super) method: String,
    pub(super) target: String,
    /// Names in lower case, and values.
    pub(super) fields: Vec<(String, String)>,
}

impl Request {
    pub(super) fn field(&self, name: &str) -> Option<&str> {
        self.fields.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// Reads a request to the end of its content. Returns `None` at the end of the connection.
    ///
    /// # Errors
    /// If the connection fails.
    pub(super) fn read(reader: &mut impl BufRead) -> Result<Option<Self>> {
        let (mut line, mut request) = (String::new(), Self::default());
        loop {
            line.clear();
            if reader.read_line(&mut line)? == 0 {
                return Ok(None);
            }
            match line.trim_end().split_once(':') {
                _ if line == "\r\n" => break,
                _ if request.target.is_empty() => {
                    let mut words = line.split(' ').map(str::to_owned);
                    request.method = words.next().unwrap_or_default();
                    request.target = words.next().unwrap_or_else(|| "/".to_owned());
                }
                Some((name, value)) => {
                    request.fields.push((name.to_ascii_lowercase(), value.trim().to_owned()));
                }
                None => {}
            }
        }
        let length = request.field("content-length").and_then(|value| value.parse().ok()).unwrap_or(0);
        std::io::copy(&mut reader.take(length), &mut std::io::sink())?;
        Ok(Some(request))
    }
}

/// Answers the requests of each connection until the program ends. Returns the port.
///
/// # Errors
/// If it cannot listen.
pub(super) fn serve<A>(answer: A) -> Result<u16>
where
    A: Fn(&Request, &mut TcpStream) -> Result<()> + Clone + Send + 'static,
{
    let listener = TcpListener::bind("127.0.0.1:0").context("cannot listen on 127.0.0.1")?;
    let port = listener.local_addr()?.port();
    answer_at(listener, answer);
    Ok(port)
}

/// Does the same for an existing listener.
pub(super) fn answer_at<A>(listener: TcpListener, answer: A)
where
    A: Fn(&Request, &mut TcpStream) -> Result<()> + Clone + Send + 'static,
{
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let answer = answer.clone();
            // A connection that the proxy closes is no error of the origin.
            std::thread::spawn(move || drop(answer_all(stream, answer)));
        }
    });
}

fn answer_all(stream: TcpStream, answer: impl Fn(&Request, &mut TcpStream) -> Result<()>) -> Result<()> {
    stream.set_nodelay(true)?;
    let mut reader = BufReader::new(stream);
    while let Some(request) = Request::read(&mut reader)? {
        answer(&request, reader.get_mut())?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::Request;

    #[test]
    fn requests_are_read_to_their_end() {
        let mut bytes =
            &b"PUT /a HTTP/1.1\r\nHost: b\r\nContent-Length: 2\r\n\r\nxxGET /c HTTP/1.1\r\n\r\n"[..];
        let first = Request::read(&mut bytes).unwrap().unwrap();
        assert_eq!(
            (first.method.as_str(), first.target.as_str(), first.field("host")),
            ("PUT", "/a", Some("b"))
        );
        assert_eq!(Request::read(&mut bytes).unwrap().unwrap().target, "/c");
        assert_eq!(Request::read(&mut bytes).unwrap(), None);
    }
}
