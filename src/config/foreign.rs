//! Words of other programs that are no keys here: what to write instead, for errors.

/// Returns the end of the error about an unknown key of `table` called `name`, if other programs have one of that name.
pub(super) fn way(table: &str, name: &str) -> Option<String> {
    let name = name.to_ascii_lowercase().replace('-', "_");
    let is_of_site = matches!(table, "" | "site" | "reverse" | "forward") || table.starts_with("rule");
    let find = |table: &[(&[&str], &'static str)]| {
        let short = PREFIXES.iter().find_map(|prefix| name.strip_prefix(prefix));
        let known = |name: &str| table.iter().find(|(words, _)| words.contains(&name)).map(|(_, way)| *way);
        known(&name).or_else(|| known(short?))
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

/// Beginnings of words of other programs that say nothing here.
const PREFIXES: &[&str] = &["proxy_cache_", "proxy_", "cache_", "beresp_"];

/// Tables of other programs.
const TABLES: &[(&[&str], &str)] = &[
    (&["cache", "proxy_cache", "storage"], "the cache is in [memory] and [[disk]]"),
    (
        &["server", "http", "proxy", "host", "upstream", "backend", "frontend", "location"],
        "write a [[site]] with origin; its listeners are in [reverse]",
    ),
    (
        &["ssl", "certificate", "certificates"],
        "write [[tls]] with cert and key; its listener is listen_tls in [reverse]",
    ),
    (&["rules"], "rules are [[site.rule]], [[forward.rule]], or [[rule]] for all sites"),
    (&["log", "logs", "logging"], "write access_log = \"json\" above all tables"),
    (&["redis", "valkey", "memcached"], "write engine = \"redis://127.0.0.1\" in [cluster]"),
    (
        &["acme", "letsencrypt", "lets_encrypt"],
        "write acme = { contact = \"mailto:admin@site.example\", accept_terms = true } in the [[site]]",
    ),
    (&["user", "users", "basic_auth"], "write users = \"passwords.txt\" in a rule (larder passwd)"),
];

/// What a site or its rules have under another name.
const RENAMED: &[(&[&str], &str)] = &[
    (&["url", "uri", "location", "prefix"], "the path is in match.path, and parameters are in match.query"),
    (&["header", "user_agent", "referer", "accept_language"], "fields of the request are in match.field"),
    (&["args", "arg", "param", "params", "parameter"], "parameters are in match.query"),
    (&["content_type", "mime", "mime_type"], "media types of responses are in match.type"),
    (&["ext", "suffix", "file"], "write match.extension = [\"css\", \"js\"]"),
    (&["day", "days", "hours"], "write match.weekday = \"mon-fri\" and match.time = \"08:00-17:00\""),
    (
        &["delete", "unset", "hide", "hide_header"],
        "write remove, as in reply = { remove = [\"X-Powered-By\"] }",
    ),
    (&["append"], "write add"),
    (
        &["return", "block", "reject", "forbid", "synth", "http_access", "acl"],
        "write respond = 403, or deny = [\"203.0.113.0/24\"]",
    ),
    (
        &["when", "if", "condition", "conditions", "paths", "methods", "statuses", "ignore_case"],
        "conditions are in match, as in match = { path = [\"/a\", \"/b/*\"], method = \"GET\" }",
    ),
    (
        &["then", "action", "effect", "http_request"],
        "effects are keys of the rule, as respond = 403 or cache = false",
    ),
    (&["worker_processes", "workers", "nbthread"], "write threads above all tables"),
    (&["http2"], "limits.streams = 0 turns HTTP/2 off"),
    (&["priority"], "rules apply in the order in which they are written; stop = true ends it"),
    (&["min_size", "max_size"], "lengths of responses are in match.min_length and match.max_length"),
    (&["retry"], "write retries = 2, and retry_on = [404, \"5xx\"] for answers"),
    (
        &["ip", "address", "src", "network", "remote_addr", "cidr", "client_ip"],
        "addresses and networks are in match.client",
    ),
    (
        &["country", "geo", "geoip", "geo_block"],
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
            "header_up",
            "header_down",
        ],
        "fields are changed in request, response and reply, as in reply = { set = { X-Frame-Options = \"DENY\" } }",
    ),
    (
        &[
            "expires",
            "max_age",
            "s_maxage",
            "ttl",
            "default_ttl",
            "edge_ttl",
            "grace",
            "keep",
            "stale",
            "swr",
            "use_stale",
            "background_update",
            "refresh_pattern",
        ],
        "lifetimes are ttl, ttl_default, stale_while_revalidate and stale_if_error",
    ),
    (&["valid", "negative_ttl", "ttl_404"], "write ttl = { 200 = \"1h\", 404 = \"1m\" }"),
    (
        &["browser_ttl", "surrogate_control"],
        "browsers see the origin's Cache-Control, or that of reply = { set = { Cache-Control = \"max-age=60\" } }",
    ),
    (&["no_cache", "nocache", "bypass", "pass", "pipe", "level"], "write cache = false"),
    (&["bypass_cache_on_cookie"], "write match = { cookie = \"session\" } and cache = false"),
    (
        &["ignore_headers"],
        "ignore has directives of Cache-Control; response = { remove = [\"Vary\"] } removes fields",
    ),
    (&["ignore_vary", "vary_ignore"], "write response = { remove = \"Vary\" }"),
    (
        &["strip_cookies", "remove_cookies", "drop_cookies", "cookies"],
        "write request = { cookies = \"drop\" }, and response = { cookies = \"drop\" } for Set-Cookie",
    ),
    (
        &["sort_query", "normalize_query", "ignore_query", "query_string"],
        "write query = \"drop\", or query = { drop = [\"@tracking\"], sort = true }",
    ),
    (
        &["lock", "coalesce", "request_coalescing", "collapse"],
        "requests for a URL share one fetch, without a key",
    ),
    (&["min_uses"], "an admission filter is a part of memory.policy (docs/cookbook.md, 110)"),
    (&["buffering", "etag", "range", "keepalive", "soft"], "it needs no key here"),
    (
        &["key", "vary_by", "hash_data"],
        "query, key_fields, key_cookies and classes decide about the cache key",
    ),
    (&["gzip_types", "brotli_types"], "write compress_types in the [[site]]"),
    (&["gzip", "brotli", "compression", "encode"], "write compress = [\"zstd\", \"br\", \"gzip\"]"),
    (
        &["timeout", "timeouts", "read_timeout", "timeout_connect", "connect_timeout", "send_timeout"],
        "times for origins are connect, first_byte and origin_idle, in a rule or in [timeouts]",
    ),
    (
        &["rate_limit", "ratelimit", "limit_req", "throttle", "limit_conn", "stick_table"],
        "write limit = { requests = \"10/s\", concurrent = 5 }",
    ),
    (
        &["maxconn", "max_conns", "max_connections", "concurrency"],
        "write limit = { concurrent = 20, by = \"all\", count = \"misses\" } in a rule; with limits.in_flight, requests wait",
    ),
    (
        &["whitelist", "allowlist", "allow_from"],
        "write allow = [\"10.0.0.0/8\"] in a rule; for the forward proxy, clients",
    ),
    (&["blacklist", "blocklist", "denylist", "block_ips"], "write deny = [\"203.0.113.0/24\"] in a rule"),
    (&["inactive"], "what is not used is evicted by itself (memory.policy)"),
    (&["slow_log", "slowlog"], "write log = { slower = \"1s\" } in a rule"),
    (&["default_backend"], "a [[site]] without hosts gets the requests for all others"),
    (
        &["limit_rate", "rate", "delay_pools"],
        "write bandwidth = \"1MiB\", or { rate = \"1MiB\", by = \"all\" }",
    ),
    (&["limit_rate_after"], "write bandwidth = { rate = \"500KiB\", after = \"1MiB\" }"),
    (
        &["upstream_addr", "server_timing", "backend_name"],
        "write reply = { set = { X-Origin = \"{origin}\", Server-Timing = \"origin;dur={origin_time}\" } }",
    ),
    (&["client_max_body_size", "max_body_size"], "write max_body = \"50MiB\""),
    (&["real_ip_header", "set_real_ip_from"], "write trust and real_ip above all tables"),
    (&["forwarded_for"], "write client_address above all tables, or in [forward]"),
    (&["secure_link"], "write signed = \"signing-keys.txt\""),
    (
        &["try_files", "fallback", "index", "spa"],
        "write retry_on = 404 with a second origin, or rewrite (docs/cookbook.md)",
    ),
    (
        &["strip_prefix", "handle_path"],
        "write rewrite = \"/{1}\" with match = { path = \"/app/*\" } and origin",
    ),
    (
        &["https_redirect", "http_to_https", "force_https", "redirect_https", "force_ssl", "ssl_redirect"],
        "write https = \"redirect\" in the [[site]]",
    ),
    (&["canonical_host", "trailing_slash", "lowercase"], "write redirect (docs/cookbook.md)"),
    (&["probe", "httpchk", "health_check"], "write health = \"/health\" in the [[site]]"),
    (&["http_check", "health_code", "expected_status"], "write health_status = [401] in the [[site]]"),
    (&["fall", "rise", "health_fall", "health_rise"], "write health_fails and health_passes in the [[site]]"),
    (&["sticky_cookie", "session", "affinity"], "write sticky in the [[site]]"),
    (&["circuit_breaker"], "write max_fails in the [[site]]"),
    (
        &["weight", "backup", "backups", "failover"],
        "write it behind the URL, as in origin = [\"http://10.0.0.1 weight=2\", \"http://10.0.0.2 backup\"]",
    ),
    (
        &["ban", "purge", "soft_purge"],
        "write purge_from in the [[site]], or run larder purge (docs/purge.md)",
    ),
    (&["maintenance", "maintenance_page"], "write respond = { status = 503, file = \"sorry.html\" }"),
    (
        &["hotlink", "referers"],
        "write match = { not = { field = { Referer = \"*://site.example/*\" } } } and respond = 403",
    ),
    (&["lets_encrypt", "letsencrypt"], "write acme in the [[site]]"),
    (&["log_format"], "write access_log above all tables"),
    (
        &["error_log", "log_level", "loglevel"],
        "messages go to standard error; the environment variable LARDER_LOG has their level",
    ),
    (
        &["metrics", "prometheus"],
        "write admin = \"127.0.0.1:9145\" above all tables; metrics are at /metrics",
    ),
    (&["user", "group", "pid", "daemon"], "systemd or the container decides about it (docs/install.md)"),
    (&["debug"], "larder why URL explains what is done with a request"),
    (&["shield"], "write its URL as origin, and purge_edges there (docs/purge.md)"),
    (
        &["auth", "basic_auth", "password", "auth_basic", "basicauth"],
        "users names a file of passwords, and tokens one of tokens",
    ),
    (
        &[
            "upstream",
            "upstreams",
            "backend",
            "backends",
            "proxy_pass",
            "server",
            "director",
            "use_backend",
            "reverse_proxy",
        ],
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
    (&["ip_hash", "source_hash"], "write balance = \"client\", or sticky for a cookie"),
    (&["host_header", "set_host", "preserve_host"], "write host = \"preserve\" or host = \"origin\""),
    (&["set_status"], "write error_page = { 404 = { status = 410 } } in a rule"),
    (&["error_document", "errorfile", "error_pages"], "write error_page = { 404 = \"404.html\" } in a rule"),
    (&["remote_user", "send_user"], "write user_field = \"X-Remote-User\" beside users or tokens"),
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
    (
        &["min_tls", "ssl_protocols", "tls_versions", "ciphers", "ssl_ciphers"],
        "there are only TLS 1.2 and 1.3 with ciphers that testssl.sh finds no fault with",
    ),
    (
        &["root", "file_server", "fastcgi_pass", "php_fastcgi", "uwsgi_pass"],
        "put a web server behind; rules with respond = { file = \"robots.txt\" } serve single files",
    ),
    (
        &["key_body", "cache_post", "cache_methods", "methods_cached", "graphql"],
        "let clients send queries by GET; store_post stores an answer to POST for later GETs",
    ),
    (
        &["key_host", "key_scheme", "ignore_host"],
        "host and scheme are a part of the key: redirect to one of the hosts, as in redirect = \"https://www.example.com{uri}\"",
    ),
    (
        &["access_log_fields", "log_fields", "log_headers", "access_log_format", "capture"],
        "the forms of access_log have what docs/logs.md lists, and the id of request_id",
    ),
    (&["send_proxy", "send_proxy_v2"], "origins get the client in X-Forwarded-For"),
    (
        &["ssl_stapling", "stapling", "ocsp", "ocsp_stapling"],
        "Let's Encrypt has ended OCSP, and certificates by acme are short-lived",
    ),
    (&["merge_slashes"], "a link rel=canonical tells search engines which address counts"),
    (&["on_demand", "on_demand_tls"], "list the names in hosts; acme gets their certificates"),
    (&["replace_header"], "classes make a field of some words of another"),
    (&["keys_zone", "quota"], "all sites share the memory, by its policy"),
    (&["set_method"], "let the origin accept the method that clients send"),
    (&["waf", "bot", "captcha"], "rules refuse what path, query, field and cookie say, as respond = 403"),
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
