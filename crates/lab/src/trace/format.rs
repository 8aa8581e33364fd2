//! The formats of trace files.

use std::str::FromStr;

use larder_words::named;

named! {
    /// The format of a trace file. Files are tried for the formats in this order.
    #[derive(PartialOrd, Ord)]
    pub enum Format, name {
        /// libCacheSim's lcs: binary records, described by a header.
        Lcs = "lcs",
        /// An SQLite database with the history of Chrome or Firefox.
        History = "history",
        /// libCacheSim's vscsi: binary records of disk requests.
        Vscsi = "vscsi",
        /// libCacheSim's oracleGeneral: binary records of 24 bytes with time, object, size and next access.
        OracleGeneral = "oraclegeneral",
        /// The output of `larder workload`.
        Workload = "workload",
        /// The extended log file format of the W3C, as of IIS and CloudFront: a line `#Fields:` names the fields.
        W3c = "w3c",
        /// JSON lines, such as Larder's access log or Caddy's.
        Json = "json",
        /// Larder's access log as text.
        Larder = "larder",
        /// Squid's native access.log, and Traffic Server's of that form.
        Squid = "squid",
        /// The access log of Amazon S3.
        S3 = "s3",
        /// The access log of an application load balancer of AWS.
        Alb = "alb",
        /// The access log of a classic load balancer of AWS.
        Elb = "elb",
        /// HAProxy's HTTP log.
        Haproxy = "haproxy",
        /// Envoy's access log as text.
        Envoy = "envoy",
        /// Envoy's access log as text, with the fields that Istio adds.
        Istio = "istio",
        /// The common log format or the combined one, as Apache and NGINX write them.
        Ncsa = "ncsa",
        /// Runs of blocks, as in the ARC paper.
        Arc = "arc",
        /// Values separated by a delimiter.
        Csv = "csv",
        /// Lines, each of which is a key.
        Plain = "plain",
        /// Lines of the form that the user describes.
        Custom = "custom",
    }
}

impl Format {
    /// Returns the unit in which broken parts are counted.
    pub(super) fn unit(self) -> &'static str {
        match self {
            Self::OracleGeneral | Self::Lcs | Self::Vscsi => "record",
            Self::History => "visit",
            _ => "line",
        }
    }
}

impl FromStr for Format {
    type Err = String;

    /// Reads the name of a format. The error names the valid ones.
    fn from_str(name: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|known| known.name().eq_ignore_ascii_case(name));
        found.ok_or_else(|| {
            let known = Self::ALL.map(Self::name).join(" ");
            format!("unknown format '{}'; known: {known}", name.escape_debug())
        })
    }
}
