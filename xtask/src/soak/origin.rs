//! The ordinary origin: pages that live for seconds, so that some are always fetched. It believes what a request says of
//! its host, as many frameworks do, so that a field of another client which reaches it spoils the page for everybody.

use super::content;
use anyhow::{Context, Result};
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};

/// Fields by which clients tell origins that another page is meant; none of them may come here from a client.
const BELIEVED: [&str; 6] = [
    "x-original-url",
    "x-rewrite-url",
    "x-http-method-override",
    "x_forwarded_host",
    "x-forwarded-prefix",
    "larder-peer",
];

/// Listens until the program ends; the port.
pub(super) fn start() -> Result<u16> {
    let listener = TcpListener::bind("127.0.0.1:0").context("cannot listen on 127.0.0.1")?;
    let port = listener.local_addr()?.port();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            // A connection that the proxy gives up is no error of the origin.
            std::thread::spawn(move || drop(answer_all(stream)));
        }
    });
    Ok(port)
}

fn answer_all(stream: TcpStream) -> Result<()> {
    stream.set_nodelay(true)?;
    let mut reader = BufReader::new(stream);
    while let Some((path, is_spoilt)) = head(&mut reader)? {
        let lines = "Cache-Control: public, max-age=5\r\nETag: \"1\"\r\nContent-Type: text/plain\r\n";
        let bytes = match content::page(&path) {
            Some(_) if is_spoilt => content::answer("200 OK", lines, b"spoilt"),
            Some((number, length)) => content::answer("200 OK", lines, &content::of(number, length)),
            None => content::answer("404 Not Found", "", b"no such page"),
        };
        reader.get_mut().write_all(&bytes)?;
    }
    Ok(())
}

/// The path that is asked for, and whether a field asks for something else. `None` at the end.
fn head(reader: &mut impl BufRead) -> Result<Option<(String, bool)>> {
    let (mut line, mut path, mut is_spoilt) = (String::new(), None, false);
    loop {
        line.clear();
        if reader.read_line(&mut line)? == 0 {
            return Ok(None);
        }
        if line == "\r\n" {
            return Ok(path.map(|path| (path, is_spoilt)));
        }
        match path {
            None => path = line.split(' ').nth(1).map(str::to_owned),
            Some(_) => is_spoilt |= spoils(&line),
        }
    }
}

fn spoils(line: &str) -> bool {
    let line = line.to_ascii_lowercase();
    let Some((name, value)) = line.split_once(':') else { return false };
    BELIEVED.contains(&name)
        || (name == "x-forwarded-host" && value.contains("evil"))
        || (name == "forwarded" && value.contains("evil"))
}

#[cfg(test)]
mod tests {
    use super::head;

    #[test]
    fn fields_that_name_another_page_spoil_it() {
        for (fields, expected) in [
            ("Host: a\r\n", false),
            ("X-Forwarded-Host: good.test\r\n", false),
            ("X-Forwarded-Host: evil.test\r\n", true),
            ("Forwarded: for=1;host=evil.test\r\n", true),
            ("X-Original-URL: /b\r\n", true),
        ] {
            let found = head(&mut format!("GET /a HTTP/1.1\r\n{fields}\r\n").as_bytes()).unwrap();
            assert_eq!(found, Some(("/a".to_owned(), expected)), "{fields}");
        }
        assert_eq!(head(&mut &b""[..]).unwrap(), None);
    }
}
