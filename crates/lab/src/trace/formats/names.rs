//! The names of fields: those of columns in options, and those in the logs and traces of other programs.

use larder_words::hint;

/// The meaning of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Field {
    /// Ignored.
    Ignored,
    /// The time of the request: seconds with decimals, a date in the format of HTTP, ISO 8601 or NCSA, or the time of
    /// day of a [`Self::Date`].
    Time,
    /// The time of the request, in milliseconds.
    TimeMillis,
    /// The day of the request.
    Date,
    /// The object.
    Key,
    /// The query of the object's URL, if the key has none.
    Query,
    /// The host of the object, if the key is a path.
    Host,
    /// The host that the client named, where [`Self::Host`] is the same for all sites of a distribution.
    Site,
    /// The scheme of the object's URL, if there is a host.
    Scheme,
    /// The bucket of the object, if the key is a path, with or without the bucket.
    Bucket,
    /// The volume of a disk's block: equal blocks of two volumes are two objects.
    Volume,
    /// The request line: method, target and version.
    Request,
    /// The size of the object or of the response, in bytes.
    Size,
    /// The size of the object, in bytes, even if the response has only a part of it.
    Whole,
    /// The time of the response, in microseconds.
    Micros,
    /// The time of the response, in milliseconds.
    Millis,
    /// The time of the response, in seconds with decimals.
    Seconds,
    /// The time of the response, in nanoseconds.
    Nanos,
    /// The time of the response, in seconds if it has decimals, and otherwise in milliseconds.
    Elapsed,
    /// The time of the response, with its unit: without one, programs mean seconds, milliseconds or nanoseconds.
    WithUnit,
    /// The method.
    Method,
    /// The operation of a cache or a disk, such as `get` or `write`.
    Operation,
    /// The status code.
    Status,
    /// The Cache-Status, or another product's word for hits and misses.
    Cache,
    /// The client.
    Client,
}

/// The names that options, errors and pages use.
pub(super) const FIRST: &[&str] = &[
    "time",
    "timems",
    "key",
    "host",
    "size",
    "micros",
    "millis",
    "seconds",
    "method",
    "status",
    "cache",
    "client",
    "operation",
    "volume",
    "_",
];

/// The names of each field, in lower case and without spaces, `-`, `_` and parentheses. A name with `_` or capitals is meant literally.
const NAMES: &[(Field, &[&str])] = &[
    (
        Field::Time,
        &[
            "time",
            "timestamp",
            "@timestamp",
            "ts",
            "clocktime",
            "timeiso8601",
            "timelocal",
            "msec",
            "datetime",
            "starttime",
            "timestart",
            "optime",
            "receivedat",
            "relativeunix",
            "edgestarttimestamp",
            "startutc",
            "reqtimesec",
            "startedat",
            "starteddatetime",
            "timemicros",
        ],
    ),
    (Field::TimeMillis, &["timestampms", "timems"]),
    (Field::Date, &["date"]),
    (
        Field::Key,
        &[
            "key",
            "object",
            "objectid",
            "objid",
            "id",
            "url",
            "uri",
            "requesturi",
            "requesturl",
            "documenturi",
            "path",
            "requestpath",
            "lbn",
            "block",
            "blockid",
            "cachekey",
            "anonymizedkey",
            "hashedpathquery",
            "hashedhostpathquery",
            "hashedhostandpath",
            "csuri",
            "csuristem",
            "csuripath",
            "clientrequesturi",
            "clientrequestpath",
            "reqpath",
        ],
    ),
    (Field::Query, &["query", "querystring", "args", "csuriquery", "querystr", "uriquery", "requestquery"]),
    (
        Field::Host,
        &[
            "host",
            "vhost",
            "servername",
            "httphost",
            "cshost",
            "authority",
            "requesthost",
            "clientrequesthost",
            "reqhost",
        ],
    ),
    (Field::Site, &["xhostheader"]),
    (Field::Scheme, &["scheme", "requestscheme", "csprotocol", "csurischeme", "clientrequestscheme"]),
    (Field::Bucket, &["bucket"]),
    (Field::Volume, &["volume", "volumeid", "asu", "disknumber"]),
    (Field::Request, &["request", "requestline", "firstline"]),
    (
        Field::Size,
        &[
            "size",
            "sizebytes",
            "bytes",
            "bytessent",
            "bodybytessent",
            "length",
            "responsebytes",
            "responsesize",
            "responsebodysize",
            "edgeresponsebytes",
            "valuesize",
            "scbytes",
            "iosize",
            "downstreamcontentsize",
            "bytesout",
            "sentbytes",
            "respbodysize",
        ],
    ),
    (Field::Whole, &["objsize", "objectsize"]),
    // Varnish's examples use `time_taken` for microseconds, and the W3C's format `time-taken` for other units; Traefik
    // writes nanoseconds.
    (Field::Micros, &["micros", "cost", "time_taken", "timeelapsed", "requestlatency", "timetakenmicros"]),
    (
        Field::Millis,
        &["millis", "durationms", "upstreamservicetime", "originresponsedurationms", "turnaroundtimemsec"],
    ),
    (Field::Seconds, &["seconds", "requesttime", "timefirstbyte"]),
    (Field::Nanos, &["Duration"]),
    (Field::Elapsed, &["duration", "timetaken", "elapsed"]),
    (Field::WithUnit, &["latency", "timetoresponse"]),
    (
        Field::Method,
        &[
            "method",
            "requestmethod",
            "requesttype",
            "csmethod",
            "clientrequestmethod",
            "httpmethod",
            "reqmethod",
            "verb",
        ],
    ),
    (Field::Operation, &["operation", "op", "optype", "opname"]),
    (
        Field::Status,
        &[
            "status",
            "statuscode",
            "scstatus",
            "responsestatus",
            "responsecode",
            "edgeresponsestatus",
            "downstreamstatus",
            "httpstatus",
            "httpstatuscode",
            "response",
        ],
    ),
    (
        Field::Cache,
        &[
            "cache",
            "cachestatus",
            "upstreamcachestatus",
            "senthttpcachestatus",
            "xcache",
            "hitmiss",
            "responsestate",
            "xedgeresulttype",
            "cachecachestatus",
            "cachehit",
            "vercelcache",
        ],
    ),
    (
        Field::Client,
        &[
            "client",
            "clientip",
            "clientid",
            "remoteaddr",
            "remoteip",
            "ipaddress",
            "cip",
            "clientaddr",
            "cliip",
        ],
    ),
];

/// Columns that have a name of their own, since the files have none, or lose them when they are cut.
const TABLES: &[(&str, &str)] = &[
    ("webcachesim", "time,key,size"),
    ("twitter", "time,key,_,size,client,operation,_"),
    ("meta-kv", "time,key,_,operation,_,size,_,_,_,_"),
    ("meta-cdn", "time,key,operation,objectsize,size"),
    ("wikimedia", "time,key,_,size,seconds"),
    ("msr", "time,_,volume,operation,key,size,_"),
    ("spc", "volume,key,size,operation,time"),
    ("alibaba", "volume,operation,key,size,time"),
    ("ibm", "timems,operation,key,size,_,_"),
    ("tencent", "time,key,size,operation,volume"),
    ("systor", "time,seconds,operation,volume,key,size"),
];

/// Returns the meaning of a field with this name; [`Field::Ignored`] if it is unknown.
pub(super) fn meaning(name: &str) -> Field {
    let name = name.trim();
    let plain: String = name.chars().filter(|c| !"-_() ".contains(*c)).collect();
    let plain = plain.to_ascii_lowercase();
    let is = |known: &&str| *known == plain || *known == name;
    let found = NAMES.iter().find(|(_, names)| names.iter().any(&is));
    found.map_or(Field::Ignored, |(field, _)| *field)
}

impl std::str::FromStr for Field {
    type Err = String;

    /// Returns the meaning of a column with this name. The error names the valid ones.
    fn from_str(name: &str) -> Result<Self, String> {
        match meaning(name) {
            Self::Ignored if name != "_" => {
                Err(format!("unknown column '{}'; known: {}", name.escape_debug(), FIRST.join(" ")))
            }
            field => Ok(field),
        }
    }
}

/// Returns the columns that `text` names: `time,key,size`, or a trace by its name, such as `twitter`.
///
/// # Errors
/// If a name is unknown; the error says which ones are known.
pub fn columns(text: &str) -> Result<Vec<Field>, String> {
    let table = TABLES.iter().find(|(name, _)| name.eq_ignore_ascii_case(text.trim()));
    let text = table.map_or(text, |(_, columns)| *columns);
    let columns: Vec<Field> = text.split(',').map(str::parse).collect::<Result<_, _>>().map_err(|error| {
        let tables: Vec<_> = TABLES.iter().map(|(name, _)| *name).collect();
        let unknown = text.split(',').find(|name| name.parse::<Field>().is_err()).unwrap_or_default();
        let near = hint(unknown, FIRST.iter().chain(&tables).copied());
        format!("{error}; known tables: {}{near}", tables.join(" "))
    })?;
    match columns.iter().any(|field| matches!(field, Field::Key | Field::Request)) {
        true => Ok(columns),
        false => Err("no column is the key; name it, such as time,key,size".to_owned()),
    }
}

/// The columns of Twitter's traces, which have no line of names.
pub(super) fn twitter() -> Vec<Field> {
    columns("twitter").unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_docs_have_every_name() {
        let page = include_str!("../../../../../docs/traces.md");
        for (field, names) in NAMES {
            let names = names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
            assert!(page.contains(&format!("| {names} |")), "{field:?}: {names}");
        }
    }

    #[test]
    fn each_table_has_columns() {
        for (name, _) in TABLES {
            assert!(columns(name).is_ok(), "{name}");
        }
    }
}
