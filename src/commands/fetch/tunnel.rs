//! The answer of a proxy that refuses a tunnel, which the HTTP client does not report.

use bytes::Bytes;
use http::header::HOST;
use http::{HeaderMap, Method, Request};
use http_body_util::{BodyExt, Empty};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use larder_semantics::status::Why;
use reqwest::Url;
use tokio::net::TcpStream;

use super::explanations::{first_line, is_text, reason};

/// Requests a tunnel to the server of `url` from the proxy at `server` once more. Returns its answer in one line, if it
/// refuses.
pub(super) async fn refusal(server: &str, url: &str) -> Option<String> {
    let url = Url::parse(url).ok().filter(|url| url.scheme() == "https")?;
    let authority = format!("{}:{}", url.host_str()?, url.port_or_known_default()?);
    let stream = TcpStream::connect(server).await.ok()?;
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.ok()?;
    // An error of the connection ends the request, too.
    tokio::spawn(connection);
    let request = Request::builder().method(Method::CONNECT).uri(&authority).header(HOST, &authority);
    let mut answer = sender.send_request(request.body(Empty::<Bytes>::new()).ok()?).await.ok()?;
    let status = answer.status();
    if status.is_success() {
        return None;
    }
    let help = help(answer.headers());
    let is_text = is_text(answer.headers());
    let frame = answer.body_mut().frame().await.and_then(Result::ok);
    let text = frame.and_then(|frame| frame.into_data().ok()).filter(|_| is_text).unwrap_or_default();
    let (code, why) = (status.as_u16(), reason(status, &first_line(&text)));
    Some(format!("{server} refuses a tunnel to {authority}: {code} {why}{help}"))
}

/// Returns the remedy for the reason that a Larder names, if it names one.
fn help(fields: &HeaderMap) -> String {
    let words = fields.get_all("cache-status").iter().filter_map(|line| line.to_str().ok());
    let mut named =
        words.flat_map(|line| line.split([';', ','])).filter_map(|word| word.trim().strip_prefix("detail="));
    let reason = named.next_back().and_then(|token| Why::ALL.iter().find(|why| why.token() == token));
    let help = reason.map(|why| why.help()).filter(|help| !help.is_empty());
    help.map_or_else(String::new, |help| format!("; {help}"))
}
