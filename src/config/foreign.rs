//! Words of other programs that are no keys here: what to write instead, for errors.

/// Returns the end of the error about an unknown key of `table` called `name`, if other programs have one of that name.
pub(super) fn way(table: &str, name: &str) -> Option<String> {
    let name = name.to_ascii_lowercase();
    let is_of_site = matches!(table, "" | "site") || table.starts_with("rule");
    let find = |table: &[(&[&str], &'static str)]| {
        table.iter().find(|(words, _)| words.contains(&&*name)).map(|(_, way)| *way)
    };
    let absent = || Some(format!("; it is absent on purpose (docs/limits.md): {}", find(ABSENT)?));
    let renamed = find(RENAMED).filter(|_| is_of_site);
    renamed.map(|way| format!("; {way}")).or_else(absent)
}

/// Returns the end of the error about an unknown table called `name`, if other programs have one of that name.
pub(super) fn table(name: &str) -> Option<String> {
    let name = name.to_ascii_lowercase();
    TABLES.iter().find(|(words, _)| words.contains(&&*name)).map(|(_, way)| format!("; {way}"))
}

/// Tables of other programs.
const TABLES: &[(&[&str], &str)] = &[
    (&["cache", "proxy_cache", "storage"], "the cache is in [memory] and [[disk]]"),
    (
        &["server", "http", "proxy", "host", "upstream", "backend", "frontend", "location"],
        "write a [[site]] with origin; its listeners are in [reverse]",
    ),
    (&["rule", "rules"], "rules are [[site.rule]] or [[forward.rule]]"),
    (&["log", "logs", "logging"], "write access_log = \"json\" above all tables"),
];

/// What a site or its rules have under another name.
const RENAMED: &[(&[&str], &str)] = &[
    (&["url", "uri", "location", "prefix"], "the path is in match.path, and parameters are in match.query"),
    (&["header", "user_agent", "referer", "accept_language"], "fields of the request are in match.field"),
    (&["args", "arg", "param", "params", "parameter"], "parameters are in match.query"),
    (&["content_type", "mime", "mime_type"], "media types of responses are in match.type"),
    (&["ext", "suffix", "file"], "write match.extension = [\"css\", \"js\"]"),
    (&["day", "days", "hours"], "write match.weekday = \"mon-fri\" and match.time = \"08:00-17:00\""),
    (&["delete", "unset", "hide"], "write remove"),
    (&["append"], "write add"),
    (&["return", "block", "reject", "forbid"], "write respond = 403, or deny = [\"203.0.113.0/24\"]"),
    (&["retry"], "write retries = 2, and retry_on = [404, \"5xx\"] for answers"),
    (
        &["ip", "address", "src", "network", "remote_addr", "cidr", "client_ip"],
        "addresses and networks are in match.client",
    ),
    (
        &["country", "geo", "geoip"],
        "match.client takes a file of networks, such as \"@germany.txt\"; a field of a CDN is in match.field",
    ),
    (
        &[
            "headers",
            "cache_control",
            "set_header",
            "add_header",
            "set_headers",
            "request_headers",
            "response_headers",
        ],
        "fields are changed in request, response and reply, as in reply = { set = { X-Frame-Options = \"DENY\" } }",
    ),
    (
        &["expires", "max_age", "s_maxage", "cache_ttl", "default_ttl", "grace", "stale", "swr"],
        "lifetimes are ttl, ttl_default, stale_while_revalidate and stale_if_error",
    ),
    (&["no_cache", "nocache", "bypass", "pass"], "write cache = false"),
    (
        &["cache_key", "key", "vary_by"],
        "query, key_fields, key_cookies and classes decide about the cache key",
    ),
    (&["gzip", "brotli", "compression"], "write compress = [\"zstd\", \"br\", \"gzip\"]"),
    (
        &["timeout", "timeouts", "read_timeout", "connect_timeout", "send_timeout"],
        "times for origins are connect, first_byte and origin_idle, in a rule or in [timeouts]",
    ),
    (&["rate_limit", "ratelimit", "limit_req", "throttle"], "write limit = { requests = \"10/s\" }"),
    (
        &["auth", "basic_auth", "password", "auth_basic"],
        "users names a file of passwords, and tokens one of tokens",
    ),
    (
        &["upstream", "upstreams", "backend", "backends", "proxy_pass", "server"],
        "write origin = \"http://127.0.0.1:3000\"",
    ),
    (
        &["server_name", "domain", "domains"],
        "the names of a site are in hosts, and conditions on them in match.host",
    ),
    (
        &["sni", "tls_verify", "insecure", "ssl_verify"],
        "tls_name is the name in certificates of origins, and ca the file with their authorities",
    ),
    (&["lb", "load_balance", "load_balancing"], "write balance = \"two-choices\""),
    (&["listen", "port", "bind"], "write listen = \"127.0.0.1:8080\" in [reverse]"),
    (
        &["cert", "certificate", "ssl", "tls", "https_port"],
        "certificates are in [[tls]], and listeners in [reverse]",
    ),
    (&["websocket", "websockets"], "WebSocket works without a key; tunnel is its time limit"),
];

/// What is absent, and the way round.
const ABSENT: &[(&[&str], &str)] = &[
    (&["esi", "ssi"], "let the page load its parts by their own URLs, or assemble it at the origin"),
    (
        &["image", "images", "image_filter", "resize", "webp"],
        "send these paths to an image server by a rule with origin",
    ),
    (
        &["tproxy", "transparent", "intercept", "wccp"],
        "configure clients to use the forward proxy, as by a PAC file or https_proxy",
    ),
    (&["mirror", "shadow"], "send a share of the users there by split, or the requests of the access log"),
    (
        &["sub_filter", "replace"],
        "let the origin write its name as clients know it; rewrite_urls covers Location and cookies",
    ),
    (
        &["lua", "vcl", "script", "wasm"],
        "rules are data; the origin may say the rest in Cache-Control and Vary",
    ),
];
