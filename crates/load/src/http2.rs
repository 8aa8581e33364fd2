//! A client of HTTP/2 for load tools: one stream at a time of a connection that several clients share. In clear, with prior
//! knowledge (RFC 9113, section 3.3).

use std::net::SocketAddr;

use bytes::Bytes;
use h2::client::SendRequest;
use http::{Method, Request, Response, Uri};
use tokio::net::TcpStream;

use crate::http::{Content, Fault, JSON, kept_bytes};
use crate::reply::Reply;
use crate::requests::SentRequest;

/// The window of a stream and of a connection, in bytes: a page is sent without waiting for the client.
const WINDOW: u32 = 1 << 20;

/// A client's share of a connection.
#[derive(Clone)]
pub(super) struct Connection {
    requests: SendRequest<Bytes>,
    /// The host for URLs that are only a path.
    host: String,
}

impl From<h2::Error> for Fault {
    fn from(error: h2::Error) -> Self {
        Self { why: error.to_string(), is_closed: error.is_io() || error.is_go_away() }
    }
}

impl Connection {
    /// Exchanges the prefaces. The connection ends with the runtime, or with its last client.
    pub(super) async fn new(stream: TcpStream, to: SocketAddr) -> Result<Self, Fault> {
        let mut builder = h2::client::Builder::new();
        builder.initial_window_size(WINDOW).initial_connection_window_size(WINDOW).enable_push(false);
        let (requests, connection) = builder.handshake(stream).await?;
        tokio::spawn(connection);
        Ok(Self { requests, host: to.to_string() })
    }

    /// Sends a request and reads the complete answer. Returns it, and whether the connection can be reused. Fails if
    /// there is no answer, or only a part of it.
    pub(super) async fn ask(&mut self, sent: SentRequest<'_>, wants: bool) -> Result<(Reply, bool), Fault> {
        let request = request(sent, &self.host)?;
        let mut requests = self.requests.clone().ready().await?;
        let (answer, mut body) = requests.send_request(request, sent.body.is_empty())?;
        if !sent.body.is_empty() {
            body.send_data(Bytes::copy_from_slice(sent.body.as_bytes()), true)?;
        }
        let answer = answer.await?;
        let mut reply = reply(&answer);
        let mut content = Content::keeping(kept_bytes(reply.status, wants));
        let mut body = answer.into_body();
        while let Some(piece) = body.data().await {
            let piece = piece?;
            content.add(&piece);
            body.flow_control().release_capacity(piece.len())?;
        }
        (reply.bytes, reply.content) = content.end();
        Ok((reply, true))
    }
}

fn request(sent: SentRequest<'_>, host: &str) -> Result<Request<()>, String> {
    let SentRequest { method, url, fields, body } = sent;
    let failed = |error: http::Error| format!("{method} {url} cannot be sent: {error}");
    let has = |name: &str| fields.iter().any(|(known, _)| known.eq_ignore_ascii_case(name));
    let url = if url.starts_with('/') { format!("http://{host}{url}") } else { url.to_owned() };
    let uri = Uri::try_from(url).map_err(|error| failed(error.into()))?;
    let method = Method::from_bytes(method.as_bytes()).map_err(|error| failed(error.into()))?;
    let mut request = Request::builder().method(method).uri(uri);
    for (name, value) in fields {
        request = request.header(name, value);
    }
    if !body.is_empty() && !has("content-type") {
        request = request.header("content-type", JSON);
    }
    request.body(()).map_err(failed)
}

fn reply<B>(answer: &Response<B>) -> Reply {
    let status = answer.status();
    let reason = if status.as_u16() < 400 { "" } else { status.canonical_reason().unwrap_or_default() };
    let said = answer.headers().get_all("cache-status").iter();
    let cache = said.map(|line| String::from_utf8_lossy(line.as_bytes()).into_owned()).collect();
    Reply { status: status.as_u16(), reason: reason.to_owned(), cache, ..Reply::default() }
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::*;

    /// Answers each request with its method, target, fields and content as text, and the status in its path.
    async fn serve(listener: TcpListener) {
        let (stream, _) = listener.accept().await.unwrap();
        let mut connection = h2::server::handshake(stream).await.unwrap();
        while let Some(asked) = connection.accept().await {
            let (request, mut respond) = asked.unwrap();
            tokio::spawn(async move {
                let (head, mut body) = request.into_parts();
                let mut text =
                    format!("{} {} {:?} ", head.method, head.uri, head.headers.get("content-type"));
                while let Some(piece) = body.data().await {
                    text.push_str(std::str::from_utf8(&piece.unwrap()).unwrap());
                }
                let status = head.uri.path()[1..].parse().unwrap_or(200_u16);
                let answer =
                    Response::builder().status(status).header("cache-status", "A; hit").body(()).unwrap();
                respond.send_response(answer, false).unwrap().send_data(text.into(), true).unwrap();
            });
        }
    }

    #[tokio::test]
    async fn clients_share_a_connection_and_get_whole_answers() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let to = listener.local_addr().unwrap();
        // Only one connection is accepted.
        tokio::spawn(serve(listener));
        let first = Connection::new(TcpStream::connect(to).await.unwrap(), to).await.unwrap();
        let get = SentRequest { method: "GET", url: "http://a:1/x?y", fields: &[], body: "" };
        let put = SentRequest { method: "PUT", url: "/x", fields: &[], body: "{}" };
        let missing = SentRequest { url: "/404", ..get };
        let put_text = format!("PUT http://{to}/x Some(\"application/json\") {{}}");
        let missing_text = format!("GET http://{to}/404 None ");
        let all = [
            (get, 200, "", "GET http://a:1/x?y None "),
            (put, 200, "", put_text.as_str()),
            (missing, 404, "Not Found", missing_text.as_str()),
        ];
        let mut clients = [first.clone(), first.clone(), first];
        let [one, two, three] = &mut clients;
        let answers = tokio::join!(one.ask(get, true), two.ask(put, true), three.ask(missing, false));
        for (answer, (_, status, reason, text)) in [answers.0, answers.1, answers.2].into_iter().zip(all) {
            let (reply, is_kept) = answer.unwrap();
            assert_eq!(
                (reply.status, &*reply.reason, &reply.content[..], is_kept),
                (status, reason, text.as_bytes(), true)
            );
            assert_eq!((reply.is_hit(), reply.bytes), (Some(true), text.len() as u64));
        }
    }

    #[tokio::test]
    async fn a_server_of_http_1_1_is_an_error() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let to = listener.local_addr().unwrap();
        tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            tokio::io::AsyncWriteExt::write_all(&mut stream, b"HTTP/1.1 400 Bad Request\r\n\r\n")
                .await
                .unwrap();
        });
        let mut connection = Connection::new(TcpStream::connect(to).await.unwrap(), to).await.unwrap();
        let get = SentRequest { method: "GET", url: "/", fields: &[], body: "" };
        assert!(connection.ask(get, true).await.is_err());
    }
}
