//! The names of fields: those of columns in options, and those in the logs and traces of other programs.

use super::fields::Field;

/// The names that options, errors and pages use.
pub(super) const FIRST: &[&str] = &[
    "time", "key", "host", "size", "micros", "millis", "seconds", "method", "status", "cache", "client", "_",
];

/// The names of each field, in lower case and without `-`, `_` and parentheses. A name with `_` is meant literally.
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
            "timestampms",
            "edgestarttimestamp",
        ],
    ),
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
            "csuri",
            "csuristem",
            "clientrequesturi",
        ],
    ),
    (Field::Query, &["query", "querystring", "args", "csuriquery"]),
    (
        Field::Host,
        &[
            "host",
            "vhost",
            "servername",
            "httphost",
            "cshost",
            "xhostheader",
            "authority",
            "requesthost",
            "clientrequesthost",
        ],
    ),
    (Field::Scheme, &["scheme", "requestscheme", "csprotocol", "clientrequestscheme"]),
    (Field::Bucket, &["bucket"]),
    (Field::Request, &["request", "requestline", "firstline"]),
    (
        Field::Size,
        &[
            "size",
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
        ],
    ),
    (Field::Whole, &["objsize", "objectsize"]),
    // Varnish's examples use `time_taken` for microseconds, and the W3C's format `time-taken` for other units.
    (Field::Micros, &["micros", "cost", "time_taken", "timeelapsed", "requestlatency"]),
    (Field::Millis, &["millis", "durationms", "upstreamservicetime", "originresponsedurationms"]),
    (Field::Seconds, &["seconds", "requesttime", "timefirstbyte"]),
    (Field::Elapsed, &["duration", "timetaken", "elapsed"]),
    (Field::Method, &["method", "requestmethod", "requesttype", "csmethod", "clientrequestmethod"]),
    (Field::Operation, &["operation", "op", "optype", "opname"]),
    (
        Field::Status,
        &["status", "statuscode", "scstatus", "responsestatus", "responsecode", "edgeresponsestatus"],
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
        ],
    ),
    (Field::Client, &["client", "clientip", "clientid", "remoteaddr", "remoteip", "ipaddress", "cip"]),
];

/// Columns that have a name of their own, since the files have none, or lose them when they are cut.
const TABLES: &[(&str, &str)] = &[
    ("webcachesim", "time,key,size"),
    ("twitter", "time,key,_,size,client,operation,_"),
    ("meta-kv", "time,key,_,operation,_,size,_,_,_,_"),
    ("meta-cdn", "time,key,operation,objectsize,size"),
    ("wikimedia", "time,key,_,size,seconds"),
];

/// Returns the meaning of a field with this name; [`Field::Ignored`] if it is unknown.
pub(super) fn meaning(name: &str) -> Field {
    let name = name.trim();
    let plain: String = name.chars().filter(|c| !"-_()".contains(*c)).collect();
    let plain = plain.to_ascii_lowercase();
    let is = |known: &&str| *known == plain || *known == name;
    let found = NAMES.iter().find(|(_, names)| names.iter().any(&is));
    found.map_or(Field::Ignored, |(field, _)| *field)
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
        format!("{error}; known tables: {}", tables.join(" "))
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
