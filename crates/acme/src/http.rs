//! The HTTP client that the caller provides.

use std::error::Error as StdError;
use std::sync::Arc;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use instant_acme::{BodyWrapper, BytesResponse, Error, HttpClient};

use crate::Boxed;

/// The reason why there is no response.
pub type HttpError = Box<dyn StdError + Send + Sync>;

/// Sends requests to an authority.
pub trait Http: Send + Sync + 'static {
    /// Sends `request`, whose URL is absolute.
    fn send(&self, request: Request<Bytes>) -> Boxed<'static, Result<Response<Bytes>, HttpError>>;
}

/// The client as the library expects it.
pub(crate) struct Client(pub(crate) Arc<dyn Http>);

impl HttpClient for Client {
    fn request(&self, request: Request<BodyWrapper<Bytes>>) -> Boxed<'static, Result<BytesResponse, Error>> {
        let http = Arc::clone(&self.0);
        Box::pin(async move {
            let (parts, content) = request.into_parts();
            let content = content.collect().await.map_err(|error| Error::Other(error.into()))?.to_bytes();
            let response = http.send(Request::from_parts(parts, content)).await.map_err(Error::Other)?;
            Ok(BytesResponse::from(response.map(Full::new)))
        })
    }
}
