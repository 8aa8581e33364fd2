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

use crate::config::draft::{AdminAddress, ListenAddress};
use crate::config::kinds::{Choice, OrWord, Secret, Size, Text};
use crate::config::{hsts, names, parents, places};

pub(super) const ADDRESS: Text<SocketAddr> =
    Text { words: "address with a port", parse: names::address, show: SocketAddr::to_string };
pub(super) const ADMIN: Text<AdminAddress> = Text {
    words: "address with a port, https:// in front for TLS",
    parse: names::admin_address,
    show: names::show_admin_address,
};
pub(super) const LISTEN: Text<ListenAddress> =
    Text { words: "address with a port or unix:/path", parse: places::listen, show: places::show_listen };
pub(super) const MODE: Text<u32> =
    Text { words: "file mode in octal", parse: names::mode, show: names::show_mode };
pub(super) const NETWORK: Text<IpNet> =
    Text { words: "address or network", parse: names::network, show: names::show_network };
pub(super) const REQUEST_ID: Text<HeaderName> =
    Text { words: "field name", parse: names::request_id, show: |name| name.as_str().to_owned() };
pub(super) const REAL_IP: Text<HeaderName> =
    Text { words: "field name", parse: names::real_ip, show: |name| name.as_str().to_owned() };
pub(super) const POLICY: Text<Spec> =
    Text { words: "policy, [filter+]name[:param=value,..]", parse: names::policy, show: Spec::to_string };
pub(super) const TOKEN: Text<String> = Text { words: "token", parse: names::token, show: String::clone };
pub(super) const TEXT: Text<String> = Text { words: "text", parse: names::text, show: String::clone };
pub(super) const FIELD: Text<String> =
    Text { words: "field name", parse: names::field_name, show: String::clone };
pub(super) const HOST: Text<String> = Text { words: "host", parse: names::host, show: String::clone };
pub(super) const INTERCEPTED: Text<String> =
    Text { words: "host, \"registries\" or \"*\"", parse: names::intercepted, show: String::clone };
pub(super) const PATH: Text<String> = Text { words: "path", parse: names::path, show: String::clone };
pub(super) const PREFIX: Text<PathPrefix> =
    Text { words: "path", parse: names::site_path, show: PathPrefix::to_string };
pub(super) const NAME: Text<String> = Text { words: "word", parse: names::token, show: String::clone };
pub(super) const ORIGIN: Text<Origin> = Text {
    words: "URL with weight=number and backup if wanted",
    parse: places::origin,
    show: places::show_origin,
};
pub(super) const PARENT: Secret<Text<ParentProxy>> = Secret(Text {
    words: "http://user:password@host:port",
    parse: parents::proxy,
    show: parents::show_proxy,
});
pub(super) const NO_PROXY: Text<NoProxy> = Text {
    words: "host, .domain, address, network or *",
    parse: parents::no_proxy,
    show: parents::show_no_proxy,
};
pub(super) const PARENT_FALLBACK: Choice<bool> = Choice(&[("off", false), ("direct", true)]);
pub(super) const NODE_URL: Text<Origin> =
    Text { words: "http://host:port", parse: places::node, show: places::show_origin };
pub(super) const COLLECTOR: Text<String> =
    Text { words: "http://host:port", parse: names::collector, show: String::clone };
pub(crate) const HOST_HEADER: Text<HostHeader> = Text {
    words: "\"preserve\" or \"origin\" or a host",
    parse: names::host_header,
    show: names::show_host_header,
};
pub(super) const SECRET: Secret<Text<Token>> = Secret(Text {
    words: "at least 16 characters",
    parse: |text| text.parse(),
    show: |token| token.secret().to_owned(),
});
pub(super) const BALANCE: Choice<Balance> = Choice(&[
    ("round-robin", Balance::RoundRobin),
    ("two-choices", Balance::TwoChoices),
    ("least-time", Balance::LeastTime),
    ("hash", Balance::Hash),
]);
pub(super) const ACCESS_LOG: Choice<AccessLog> = Choice(names::ACCESS_LOGS);
pub(super) const ACCESS_LOG_FLUSH: Choice<bool> = Choice(&[("batch", false), ("line", true)]);
pub(super) const ADVISE: Choice<bool> = Choice(&[("on", true), ("off", false)]);
pub(super) const AUTO: Choice<bool> = Choice(&[("off", false), ("policy", true)]);
pub(super) const DIRECTORY: Text<PathBuf> =
    Text { words: "path", parse: names::directory, show: |path| path.display().to_string() };
pub(super) const FILES: Text<String> = Text {
    words: "path with * in its last part if wanted",
    parse: |text| Ok(text.to_owned()),
    show: String::clone,
};
pub(super) const TIMES: Text<Times> = Text {
    words: "minute, hour, day, month and weekday as in cron",
    parse: |text| text.parse(),
    show: Times::to_string,
};
pub(super) const COOKIES: Choice<Cookies> =
    Choice(&[("short", Cookies::Short), ("all", Cookies::All), ("none", Cookies::None)]);
pub(super) const CODING: Choice<Coding> = Choice(names::CODINGS);
pub(super) const PREDICTION: Choice<Prediction> = Choice(names::PREDICTIONS);
pub(super) const MEDIA_RANGE: Text<MediaRange> =
    Text { words: "media type", parse: names::media_range, show: MediaRange::to_string };
pub(super) const COUNTS: Choice<Counts> = Choice(names::COUNTS);
pub(super) const RELOADS: Choice<bool> = Choice(&[("obey", false), ("ignore", true)]);
pub(crate) const PREFETCHES: Choice<bool> = Choice(names::CLIENT_PREFETCHES);
pub(crate) const EARLY_HINTS: Choice<EarlyHints> = Choice(names::EARLY_HINTS);
pub(crate) const SLICE: OrWord<Size> = OrWord("off", Size(64 << 10..=1 << 30));
pub(super) const CLIENT_AUTH: Choice<bool> = Choice(&[("require", true), ("request", false)]);
pub(super) const HSTS: Text<Hsts> = Text {
    words: "duration such as \"365d\", then includeSubDomains and preload if wanted",
    parse: hsts::parse,
    show: hsts::show,
};
pub(super) const HTTPS: Choice<bool> = Choice(&[("serve", false), ("redirect", true)]);
pub(super) const CLIENT_ADDRESS: Choice<ClientAddress> = Choice(names::CLIENT_ADDRESSES);
