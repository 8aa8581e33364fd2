//! The collector of OpenTelemetry, which gets spans and metrics with OTLP over HTTP (opentelemetry.io/docs/specs/otlp).

pub mod protobuf;

use std::env;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Request, header};
use percent_encoding::percent_decode_str;

use self::protobuf::Message;
use crate::base::error::Error;
use crate::base::settings::Settings;
use crate::origin::{Client, Connector, Destinations, tls_config};

/// The variable of OpenTelemetry with fields for the collector.
const HEADERS: &str = "OTEL_EXPORTER_OTLP_HEADERS";
/// Timeout of the collector for one message.
const PATIENCE: Duration = Duration::from_secs(5);
/// The most bytes of its answer.
const LONGEST: usize = 1 << 20;
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// A collector. Each thread that sends has its own.
#[derive(Debug)]
pub struct Collector {
    /// What it gets: `traces` or `metrics`.
    signal: &'static str,
    endpoint: String,
    client: Client,
    fields: HeaderMap,
    /// This service.
    resource: Message,
    /// Whether the log already has the current failure.
    failing: AtomicBool,
}

/// The value of an attribute.
pub enum Value<'v> {
    /// A text.
    Text(&'v str),
    /// A whole number.
    Number(u64),
}

impl Collector {
    /// Returns the collector of the settings for the `signal` `traces` or `metrics`, if there is one. Fails if TLS cannot be set
    /// up.
    pub fn new(settings: &Settings, signal: &'static str) -> Result<Option<Self>, Error> {
        let Some(endpoint) = settings.trace.endpoint.clone() else { return Ok(None) };
        let tls = tls_config::tls();
        let tls = tls.map_err(|why| Error::new(format!("cannot send {signal} to {endpoint}"), why))?;
        let Destinations { sites: common, .. } = &Destinations::new(1);
        let connector = Connector::new(PATIENCE, false, common).with_tls(&tls);
        let client = Client::new(connector, &settings.timeouts, common);
        let resource = resource(&settings.name);
        let failing = AtomicBool::new(false);
        Ok(Some(Self { signal, endpoint, client, fields: fields(), resource, failing }))
    }

    /// Sends spans or metrics. Returns whether the collector has accepted them; the log has the first failure in a row.
    pub async fn send(&self, items: &[Message]) -> bool {
        // The messages for spans and metrics have the same form.
        let scope = Message::default().text(1, "larder").text(2, VERSION);
        let of_scope =
            items.iter().fold(Message::default().message(1, &scope), |all, item| all.message(2, item));
        let of_resource = Message::default().message(1, &self.resource).message(2, &of_scope);
        let content = Message::default().message(1, &of_resource).into_bytes();
        let sent = tokio::time::timeout(PATIENCE, self.post(content)).await;
        let sent = sent.unwrap_or_else(|_| Err(format!("no answer within {PATIENCE:?}")));
        let (signal, endpoint) = (self.signal, &self.endpoint);
        let failed_before = self.failing.swap(sent.is_err(), Ordering::Relaxed);
        match &sent {
            Err(error) if !failed_before => tracing::warn!("{signal} do not reach {endpoint}: {error}"),
            Ok(()) if failed_before => tracing::info!("{signal} reach {endpoint} again"),
            _ => {}
        }
        sent.is_ok()
    }

    async fn post(&self, content: Vec<u8>) -> Result<(), String> {
        let url = format!("{}/v1/{}", self.endpoint, self.signal);
        let request = Request::post(url).body(Bytes::from(content));
        let mut request = request.map_err(|error| error.to_string())?;
        request.headers_mut().clone_from(&self.fields);
        let status = self.client.ask(request, LONGEST).await?.status();
        if status.is_success() { Ok(()) } else { Err(format!("it answers {status}")) }
    }
}

impl Message {
    /// Adds an attribute.
    pub fn attribute(self, field: u32, key: &str, value: &Value<'_>) -> Self {
        let value = match value {
            Value::Text(text) => Self::default().text(1, text),
            Value::Number(number) => Self::default().number(3, *number),
        };
        self.message(field, &Self::default().text(1, key).message(2, &value))
    }
}

/// Returns a time as nanoseconds since 1970.
pub fn nanos(time: SystemTime) -> u64 {
    time.duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_nanos() as u64)
}

/// Returns the fields of a request to the collector.
fn fields() -> HeaderMap {
    let mut fields = HeaderMap::new();
    for (name, value) in pairs(HEADERS) {
        match (HeaderName::from_bytes(name.as_bytes()), HeaderValue::from_str(&value)) {
            (Ok(name), Ok(value)) => _ = fields.insert(name, value),
            _ => tracing::warn!("{HEADERS}: {name} is no field of HTTP, and is not sent"),
        }
    }
    fields.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/x-protobuf"));
    fields
}

/// Returns this process as a resource, in the terms of OpenTelemetry.
fn resource(name: &str) -> Message {
    let machine = rustix::system::uname();
    // Several processes of a machine may have one name.
    let instance = format!("{}:{}", machine.nodename().to_string_lossy(), std::process::id());
    let mut attributes = pairs("OTEL_RESOURCE_ATTRIBUTES");
    attributes.retain(|(key, _)| key != "service.name");
    for (key, value) in
        [("service.name", name), ("service.version", VERSION), ("service.instance.id", &instance)]
    {
        if attributes.iter().all(|(known, _)| known != key) {
            attributes.push((key.to_owned(), value.to_owned()));
        }
    }
    attributes.iter().fold(Message::default(), |all, (key, value)| all.attribute(1, key, &Value::Text(value)))
}

/// Returns the pairs in a variable of OpenTelemetry, such as `a=1,b=two%20words`.
fn pairs(variable: &str) -> Vec<(String, String)> {
    let text = env::var(variable).unwrap_or_default();
    let pairs = text.split(',').filter_map(|pair| pair.split_once('='));
    let decoded = |text: &str| percent_decode_str(text.trim()).decode_utf8_lossy().into_owned();
    pairs.map(|(name, value)| (decoded(name), decoded(value))).collect()
}
