//! The keys of the RPC listeners.

use std::path::PathBuf;

use larder_proxy::settings::LineForm;

use super::key::{Key, MANY, key};
use super::values::{ADDRESS, NETWORK};
use crate::config::draft::Draft;
use crate::config::kinds::{AtLeast, Choice, Count, Flag, Kind, List, Or, Size, Text, Words};
use crate::config::names;

const FORM: Choice<LineForm> = Choice(&[("framed", LineForm::Framed), ("bare", LineForm::Bare)]);
const SOCKET: Text<PathBuf> =
    Text { words: "absolute path", parse: names::socket, show: |path| path.display().to_string() };
const USER_AGENT: Text<String> = Text { words: "text", parse: names::user_agent, show: String::clone };

/// The keys of `[thrift]`.
pub(super) const THRIFT: &[Key<Draft>] = &[
    key!("listen", List(ADDRESS), thrift_listen, "addresses; none: off"),
    key!("tls", Flag, doors.thrift_tls, "clients connect over TLS, with the certificates of [[tls]]"),
];

/// The keys of `[onc]`.
pub(super) const ONC: &[Key<Draft>] = &[
    key!("listen", List(ADDRESS), onc_listen, "addresses; none: off"),
    key!(
        "udp",
        Or("auto", Flag),
        doors.onc_udp,
        "also over UDP, where senders can be forged; auto: at loopback addresses only"
    ),
    key!(
        "udp_rate",
        Count(1..=MANY),
        doors.onc_udp_rate,
        "calls over UDP from one address in a second; no limit for loopback (dropped)"
    ),
    key!("rpcbind", Or("off", SOCKET), doors.rpcbind, "socket of rpcbind, for registration if it runs"),
];

/// The keys of `[line]`.
pub(super) const LINE: &[Key<Draft>] = &[
    key!("listen", List(ADDRESS), line_listen, "addresses; none: off"),
    key!("tls", Flag, doors.line_tls, "clients connect over TLS, with the certificates of [[tls]]"),
    key!(
        "form",
        FORM,
        doors.line_form,
        "end of a page: framed: a line with a dot; bare: the connection closes, or is reset after a failure"
    ),
];

/// The keys of `[doors]`.
pub(super) const DOORS: &[Key<Draft>] = &[
    key!(
        "clients",
        List(NETWORK),
        doors.clients,
        "addresses and networks whose clients may use them (closed); a listener for all addresses needs it"
    ),
    key!("user_agent", USER_AGENT, doors.user_agent, "User-Agent of their requests to origins"),
    key!("redirects", Count(0..=1_000), doors.redirects, "redirects followed for one page (502)"),
    key!("cross_scheme", Flag, doors.cross_scheme, "follow redirects from http to https, and back"),
    key!(
        "max_page",
        Size(1..=2 << 30),
        doors.max_page,
        "largest page that is assembled before it is sent: coded, or of unknown length (502). The pages of a client take 128MiB \
         together at most"
    ),
    key!("idle", AtLeast(1), doors.idle, "between two calls of a connection (closed)"),
];
