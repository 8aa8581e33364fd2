//! Requests of this process itself, whose content is at hand, with responses that are read as a whole.

use bytes::Bytes;
use http::{Request, Response};
use http_body::Frame;

use super::{Client, OriginRequest, OutgoingHead};
use crate::http::body::Upload;

impl Client {
    /// Sends a request for an absolute URL, and reads its response of at most `most` bytes. The error is the reason why there
    /// is none, in one line.
    pub async fn ask(&self, request: Request<Bytes>, most: usize) -> Result<Response<Bytes>, String> {
        let (parts, content) = request.into_parts();
        let authority = parts.uri.authority().ok_or("a URL without a host")?.as_str();
        let is_https = parts.uri.scheme_str() == Some("https");
        let path = parts.uri.path_and_query().map_or("/", |path| path.as_str());
        let mut head = format!("{} {path} HTTP/1.1\r\nHost: {authority}\r\n", parts.method).into_bytes();
        for (name, value) in &parts.headers {
            head.extend([name.as_str().as_bytes(), b": ", value.as_bytes(), b"\r\n"].concat());
        }
        let mut upload = Upload::Empty;
        if !content.is_empty() {
            head.extend_from_slice(format!("Content-Length: {}\r\n", content.len()).as_bytes());
            let (frames, made) = Upload::channel(Some(content.len() as u64));
            frames.send(Ok(Frame::data(content))).await.map_err(|error| error.to_string())?;
            upload = made;
        }
        head.extend_from_slice(b"\r\n");
        let mut outgoing = OriginRequest::new(is_https, authority, &parts.method, &mut upload);
        let (head, mut download) =
            self.send(OutgoingHead::Http1(&head), &mut outgoing).await.map_err(|error| error.detail)?;
        let mut response = Response::new(Bytes::from(download.whole(most).await?));
        *response.status_mut() = head.status;
        *response.headers_mut() = head.fields.to_map();
        Ok(response)
    }
}
