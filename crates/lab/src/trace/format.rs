//! The formats of trace files.

use std::fmt::{self, Display};
use std::str::FromStr;

/// The format of a trace file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Format {
    /// libCacheSim's oracleGeneral: binary records of 24 bytes with time, object, size and next access.
    OracleGeneral,
    /// libCacheSim's lcs: binary records, described by a header.
    Lcs,
    /// libCacheSim's vscsi: binary records of disk requests.
    Vscsi,
    /// An SQLite database with the history of Chrome or Firefox.
    History,
    /// JSON lines, such as Larder's access log or Caddy's.
    Json,
    /// The output of `larder workload`.
    Workload,
    /// Larder's access log as text.
    Larder,
    /// The extended log file format of the W3C, as of IIS and CloudFront: a line `#Fields:` names the fields.
    W3c,
    /// Squid's native access.log, and Traffic Server's of that form.
    Squid,
    /// The access log of Amazon S3.
    S3,
    /// The access log of an application load balancer of AWS.
    Alb,
    /// The access log of a classic load balancer of AWS.
    Elb,
    /// HAProxy's HTTP log.
    Haproxy,
    /// Envoy's access log as text.
    Envoy,
    /// Envoy's access log as text, with the fields that Istio adds.
    Istio,
    /// The common log format or the combined one, as Apache and NGINX write them.
    Ncsa,
    /// Runs of blocks, as in the ARC paper.
    Arc,
    /// Values separated by a delimiter.
    Csv,
    /// Lines, each of which is a key.
    Plain,
    /// Lines of the form that the user describes.
    Custom,
}

impl Format {
    /// Every format and its name, in the order in which they are tried.
    pub const ALL: &[(&str, Self)] = &[
        ("lcs", Self::Lcs),
        ("history", Self::History),
        ("vscsi", Self::Vscsi),
        ("oraclegeneral", Self::OracleGeneral),
        ("workload", Self::Workload),
        ("w3c", Self::W3c),
        ("json", Self::Json),
        ("larder", Self::Larder),
        ("squid", Self::Squid),
        ("s3", Self::S3),
        ("alb", Self::Alb),
        ("elb", Self::Elb),
        ("haproxy", Self::Haproxy),
        ("envoy", Self::Envoy),
        ("istio", Self::Istio),
        ("ncsa", Self::Ncsa),
        ("arc", Self::Arc),
        ("csv", Self::Csv),
        ("plain", Self::Plain),
        ("custom", Self::Custom),
    ];

    /// Returns the name.
    pub fn name(self) -> &'static str {
        let found = Self::ALL.iter().find(|(_, format)| *format == self);
        found.map_or("", |(name, _)| name)
    }

    /// Returns the unit in which broken parts are counted.
    pub(super) fn unit(self) -> &'static str {
        match self {
            Self::OracleGeneral | Self::Lcs | Self::Vscsi => "record",
            Self::History => "visit",
            _ => "line",
        }
    }
}

impl Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Format {
    type Err = String;

    /// Reads the name of a format. The error names the valid ones.
    fn from_str(name: &str) -> Result<Self, String> {
        let found = Self::ALL.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
        found.map(|(_, format)| *format).ok_or_else(|| {
            let known = Self::ALL.iter().map(|(known, _)| *known).collect::<Vec<_>>().join(" ");
            format!("unknown format '{}'; known: {known}", name.escape_debug())
        })
    }
}
