//! The keys of the RPC listeners.

use std::path::PathBuf;

use larder_proxy::settings::LineForm;

use super::key::{Key, MANY, keys};
use super::values::{ADDRESS, NETWORK};
use crate::config::draft::Draft;
use crate::config::kinds::{AtLeast, Choice, Count, Flag, Kind, List, OrWord, Size, Text, Words};
use crate::config::names;

const FORM: Choice<LineForm> = Choice(&[("framed", LineForm::Framed), ("bare", LineForm::Bare)]);
const SOCKET: Text<PathBuf> = Text("absolute path", names::socket, |path| path.display().to_string());
const USER_AGENT: Text<String> = Text("text", names::user_agent, String::clone);

/// The keys of `[thrift]`.
pub(super) const THRIFT: &[Key<Draft>] = keys! {
    "listen" in thrift_listen: List(ADDRESS), "addresses; none: off";
    "tls" in values.doors.thrift_tls: Flag, "clients connect over TLS, with the certificates of [[tls]]";
};

/// The keys of `[onc]`.
pub(super) const ONC: &[Key<Draft>] = keys! {
    "listen" in onc_listen: List(ADDRESS), "addresses; none: off";
    "udp" in values.doors.onc_udp: OrWord("auto", Flag),
        "also over UDP, where senders can be forged; auto: at loopback addresses only";
    "udp_rate" in values.doors.onc_udp_rate: Count(1..=MANY),
        "calls over UDP from one address in a second; no limit for loopback (dropped)";
    "rpcbind" in values.doors.rpcbind: OrWord("off", SOCKET), "socket of rpcbind, for registration if it runs";
};

/// The keys of `[line]`.
pub(super) const LINE: &[Key<Draft>] = keys! {
    "listen" in line_listen: List(ADDRESS), "addresses; none: off";
    "tls" in values.doors.line_tls: Flag, "clients connect over TLS, with the certificates of [[tls]]";
    "form" in values.doors.line_form: FORM,
        "end of a page: framed: a line with a dot; bare: the connection closes, or is reset after a failure";
};

/// The keys of `[doors]`.
pub(super) const DOORS: &[Key<Draft>] = keys! {
    "clients" in values.doors.clients: List(NETWORK),
        "addresses and networks whose clients may use them (closed); a listener for all addresses needs it";
    "user_agent" in values.doors.user_agent: USER_AGENT, "User-Agent of their requests to origins";
    "redirects" in values.doors.redirects: Count(0..=1_000), "redirects followed for one page (502)";
    "cross_scheme" in values.doors.cross_scheme: Flag, "follow redirects from http to https, and back";
    "max_page" in values.doors.max_page: Size(1..=2 << 30),
        "largest page that is assembled before it is sent: coded, or of unknown length (502). The pages of a client take 128MiB \
         together at most";
    "idle" in values.doors.idle: AtLeast(1), "between two calls of a connection (closed)";
};
