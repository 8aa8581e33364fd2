//! The kinds of values with a special syntax.

use std::net::SocketAddr;
use std::path::PathBuf;

use http::HeaderName;
use ipnet::IpNet;
use larder_evict::Spec;
use larder_proxy::settings::{
    AccessLog, Balance, ClientAddress, Counts, HostHeader, Hsts, NoProxy, Origin, ParentProxy, PathPrefix,
    Times, Token,
};
use larder_semantics::coding::{Coding, MediaRange};
use larder_semantics::early_hints::EarlyHints;
use larder_semantics::storable::{Cookies, Prediction};
use toml::de::DeValue;

use crate::config::draft::{AdminAddress, ListenAddress};
use crate::config::kinds::{Choice, Kind, OrWord, Secret, Size, Text, Words};
use crate::config::{hsts, names, parents, places};

pub(super) const ADDRESS: Text<SocketAddr> =
    Text("address with a port", names::address, SocketAddr::to_string);
pub(super) const ADMIN: Text<AdminAddress> =
    Text("address with a port, https:// in front for TLS", names::admin_address, names::show_admin_address);
pub(super) const LISTEN: Text<ListenAddress> =
    Text("address with a port or unix:/path", places::listen, places::show_listen);
pub(super) const MODE: Text<u32> = Text("file mode in octal", names::mode, names::show_mode);
pub(super) const NETWORK: Text<IpNet> = Text("address or network", names::network, names::show_network);
pub(super) const REQUEST_ID: Text<HeaderName> =
    Text("field name", names::request_id, |name| name.as_str().to_owned());
pub(super) const REAL_IP: Text<HeaderName> =
    Text("field name", names::real_ip, |name| name.as_str().to_owned());
pub(super) const POLICY: Text<Spec> =
    Text("policy, [filter+]name[:param=value,..]", names::policy, Spec::to_string);
pub(super) const TOKEN: Text<String> = Text("token", names::token, String::clone);
pub(super) const TEXT: Text<String> = Text("text", names::text, String::clone);
pub(super) const FIELD: Text<String> = Text("field name", names::field_name, String::clone);
pub(super) const HOST: Text<String> = Text("host", names::host, String::clone);
pub(super) const INTERCEPTED: Text<String> =
    Text("host, \"registries\" or \"*\"", names::intercepted, String::clone);
pub(super) const PATH: Text<String> = Text("path", names::path, String::clone);
pub(super) const PREFIX: Text<PathPrefix> = Text("path", names::site_path, PathPrefix::to_string);
pub(super) const NAME: Text<String> = Text("word", names::token, String::clone);
pub(crate) const ORIGIN: OriginText = OriginText;
pub(super) const PARENT: Secret<Text<ParentProxy>> = Secret(Text(
    "http://, https:// or socks5://user:password@host:port",
    parents::proxy,
    parents::show_proxy,
));
pub(super) const NO_PROXY: Text<NoProxy> =
    Text("host, .domain, address, network or *", parents::no_proxy, parents::show_no_proxy);
pub(super) const PARENT_FALLBACK: Choice<bool> = Choice(&[("off", false), ("direct", true)]);
pub(super) const NODE_URL: Text<Origin> = Text("http://host:port", places::node, places::show_origin);
pub(super) const COLLECTOR: Text<String> = Text("http://host:port", names::collector, String::clone);
pub(crate) const HOST_HEADER: Text<HostHeader> =
    Text("\"preserve\" or \"origin\" or a host", names::host_header, names::show_host_header);
pub(super) const SECRET: Secret<Text<Token>> =
    Secret(Text("at least 16 characters", |text| text.parse(), |token| token.secret().to_owned()));
pub(crate) const BALANCE: Choice<Balance> = Choice(Balance::NAMES);
pub(super) const ACCESS_LOG: Choice<AccessLog> = Choice(AccessLog::NAMES);
pub(super) const ACCESS_LOG_FLUSH: Choice<bool> = Choice(&[("batch", false), ("line", true)]);
pub(super) const ADVISE: Choice<bool> = Choice(&[("on", true), ("off", false)]);
pub(super) const AUTO: Choice<bool> = Choice(&[("off", false), ("policy", true)]);
pub(super) const LOG_FILE: Text<PathBuf> = Text("path", names::log_file, |path| path.display().to_string());
pub(super) const DIRECTORY: Text<PathBuf> = Text("path", names::directory, |path| path.display().to_string());
pub(super) const FILES: Text<String> =
    Text("path with * in its last part if wanted", |text| Ok(text.to_owned()), String::clone);
pub(super) const TIMES: Text<Times> =
    Text("minute, hour, day, month and weekday as in cron", |text| text.parse(), Times::to_string);
pub(super) const COOKIES: Choice<Cookies> = Choice(Cookies::NAMES);
pub(super) const CODING: Choice<Coding> = Choice(Coding::NAMES);
pub(super) const PREDICTION: Choice<Prediction> = Choice(Prediction::NAMES);
pub(super) const MEDIA_RANGE: Text<MediaRange> =
    Text("media type", names::media_range, MediaRange::to_string);
pub(super) const COUNTS: Choice<Counts> = Choice(Counts::NAMES);
pub(super) const RELOADS: Choice<bool> = Choice(&[("obey", false), ("ignore", true)]);
pub(crate) const PREFETCHES: Choice<bool> = Choice(&[("serve", false), ("cached-only", true)]);
pub(crate) const EARLY_HINTS: Choice<EarlyHints> = Choice(EarlyHints::NAMES);
pub(crate) const SLICE: OrWord<Size> = OrWord("off", Size(64 << 10..=1 << 30));
pub(super) const CLIENT_AUTH: Choice<bool> = Choice(&[("require", true), ("request", false)]);
pub(super) const HSTS: Text<Hsts> =
    Text("duration such as \"365d\", then includeSubDomains and preload if wanted", hsts::parse, hsts::show);
pub(super) const HTTPS: Choice<bool> = Choice(&[("serve", false), ("redirect", true)]);
pub(super) const CLIENT_ADDRESS: Choice<ClientAddress> = Choice(ClientAddress::NAMES);

/// The text of an origin. The error about a table says how to write it.
pub(crate) struct OriginText;

/// The same as text alone.
const ORIGIN_URL: Text<Origin> =
    Text("URL with weight=number and backup if wanted", places::origin, places::show_origin);

impl Words for OriginText {
    fn words(&self) -> String {
        ORIGIN_URL.words()
    }
}

impl Kind<Origin> for OriginText {
    fn read(&self, value: &DeValue<'_>) -> Result<Origin, String> {
        value.as_table().map_or_else(|| ORIGIN_URL.read(value), |table| Err(places::no_table(table)))
    }

    fn show(&self, value: &Origin) -> String {
        ORIGIN_URL.show(value)
    }
}
