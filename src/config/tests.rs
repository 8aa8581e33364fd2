//! Config files and flags, and the exact lines of their errors.

mod generated;
mod settled;

use clap::Parser;
use larder_proxy::Settings;

use super::flags::Flags;
use super::{needs_restart, parse, self_signed, summary};

#[derive(Parser)]
struct Line {
    #[command(flatten)]
    flags: Flags,
}

fn flags(words: &[&str]) -> Flags {
    Line::try_parse_from(["serve"].iter().chain(words)).expect("valid words").flags
}

fn settings(text: &str, words: &[&str]) -> Settings {
    parse("larder.toml", text, &flags(words)).expect("a valid config")
}

/// Returns the errors of `text` under `words`, without the file's name.
fn problems(text: &str, words: &[&str]) -> Vec<String> {
    let wrong = parse("larder.toml", text, &flags(words)).expect_err("a wrong config").problems;
    wrong.iter().map(|line| line.replace("larder.toml:", "")).collect()
}

/// `text` and its problem in one line.
type Row = (&'static str, &'static str);

#[test]
fn values_of_the_wrong_kind() {
    let table: &[Row] = &[
        ("[timeouts]\nidle = '366d'", "2: timeouts.idle: 366d is not a duration from 1ms to 365d"),
        ("[limits]\nqueue = 99999999", "2: limits.queue: 99999999 is not a number from 0 to 10000000"),
        ("threads = 0", "1: threads: 0 is not a number from 1 to 1024"),
        ("\nthreads = -1", "2: threads: -1 is not a number from 1 to 1024"),
        ("[stats]\nclient = 'all'", "2: stats.client: unknown word 'all'; known: whole truncated off"),
        (
            "[stats]\nurl = 'mysql://u:p@h'",
            "2: stats.url: statistics database 'mysql://u@h': names no database",
        ),
        ("threads = '4'", "1: threads: expected number from 1 to 1024, got type string"),
        (
            "admin = 9145",
            "1: admin: expected address with a port, https:// in front for TLS, got type integer",
        ),
        ("[line]\nform = 1", "2: line.form: expected \"framed\" or \"bare\", got type integer"),
        ("admin = 'no'", "1: admin: 'no' is not an address with a port, such as '127.0.0.1:8080'"),
        (
            "access_log = 'jsn'",
            "1: access_log: unknown word 'jsn'; did you mean 'json'?; known: off text combined squid json",
        ),
        ("name = 'a b'", "1: name: 'a b' is not a token: letters, digits and -._~ only"),
        ("memory = 5", "1: 'memory' is a table: write [memory]"),
        ("[memory]\nsize = 0", "2: memory.size: 0B is not a size from 1B to 128TiB"),
        (
            "[memory]\nsize = '1GBit'",
            "2: memory.size: unknown unit 'GBit' in '1GBit'; known: B KiB MiB GiB TiB",
        ),
        (
            "[memory]\npolicy = 'belady'",
            "2: memory.policy: policy 'belady' needs future requests; it runs in larder simulate only",
        ),
        ("[memory]\npolicy = 'lur'", "2: memory.policy: unknown policy 'lur'; did you mean 'lru'?"),
        ("[limits]\nuri = '64KiB'", "2: limits.uri: 64KiB is not a size from 16B to 65535B"),
        ("[timeouts]\nhead = '0s'", "2: timeouts.head: 0s is not a duration from 1ms to 365d"),
        (
            "[timeouts]\nhead = '3 parsecs'",
            "2: timeouts.head: unknown unit 'parsecs' in '3 parsecs'; known: ms s m h d",
        ),
        (
            "[forward]\nheuristic = '12.5%'",
            "2: forward.heuristic: 12.5% is not a share from 0% to 100%, in whole percent",
        ),
        ("[forward]\nheuristic = '110%'", "2: forward.heuristic: '110%' is not a share from 0% to 100%"),
        (
            "[forward]\nheuristic_max = '1500ms'",
            "2: forward.heuristic_max: 1500ms is not a duration in whole seconds",
        ),
        (
            "[forward]\nconnect_ports = [443, 0]",
            "2: forward.connect_ports: 0 is not a number from 1 to 65535",
        ),
        ("[site]\norigin = 'http://a'", "1: [site] may occur several times: write [[site]]"),
        ("site = [1]", "1: 'site' is a list of tables: write [[site]]"),
        ("[[site]]\norigin = 'http://a:0'", "2: site.origin: 'http://a:0': port '0' is not from 1 to 65535"),
        ("[[site]]\norigin = 'http://a'\nhosts = 'b:80'", "3: site.hosts: 'b:80': write it without a port"),
        (
            "[[site]]\norigin = 'http://a'\nhealth = 'up'",
            "3: site.health: 'up' is not a path such as '/health'",
        ),
    ];
    assert_problems(table);
}

#[test]
fn origins_in_the_words_of_other_programs() {
    assert_problems(&[
        (
            "[[site]]\norigin = ['http://a', { url = 'http://b:1', weight = 2, backup = true }]",
            "2: site.origin: an origin is text, with its options behind its URL: write \"http://b:1 weight=2 backup\"",
        ),
        (
            "[[site]]\norigin = 'http://a'\n[[site.rule]]\norigin = [{ url = 'http://b', backup = true }]",
            "4: rule.origin: an origin is text, with its options behind its URL: write \"http://b backup\"",
        ),
        (
            "[[site]]\norigin = 'http://a'\nbackup = true",
            "3: unknown key 'backup' in [[site]]; write it behind the URL, as in origin = [\"http://10.0.0.1 weight=2\", \"http://10.0.0.2 backup\"]",
        ),
    ]);
}

#[test]
fn durations_without_a_unit() {
    assert_problems(&[
        ("[timeouts]\nhead = 3600", "2: timeouts.head: 3600 has no unit: write \"3600s\" for seconds"),
        (
            "[forward]\nheuristic_max = 60",
            "2: forward.heuristic_max: 60 has no unit: write \"60s\" for seconds",
        ),
    ]);
}

fn assert_problems(table: &[Row]) {
    for (text, line) in table {
        let found = problems(text, &[]);
        assert!(found.len() == 1 && found[0].starts_with(line), "{text}\n{found:?}");
    }
}

#[test]
fn values_beside_a_word_and_paths_of_sites() {
    let table: &[Row] = &[
        ("[memory]\nsize = -1", "2: memory.size: -1 is not a size from 1B to 128TiB; also valid: \"auto\""),
        (
            "[cluster]\ntls = 'yes'",
            "2: cluster.tls: unknown word 'yes'; known: token files off; also valid: \"auto\"",
        ),
        (
            "access_log_file = 'syslog:server=10.0.0.1'",
            "1: access_log_file: 'syslog:server=10.0.0.1' is not a file: for syslog or a program, write to standard output (docs/logs.md); also valid: \"stdout\"",
        ),
        ("[onc]\nudp = 'yes'", "2: onc.udp: expected true or false, got type string; also valid: \"auto\""),
        (
            "[[site]]\norigin = 'http://a'\npath = '/api/*'",
            "3: site.path: '/api/*': write '/api', which includes all paths below it",
        ),
    ];
    for (text, line) in table {
        assert_eq!(problems(text, &[]), [*line], "{text}");
    }
}

#[test]
fn codings_and_types_that_are_none() {
    let table: &[Row] = &[
        (
            "[forward]\ncompress = ['br', 'gzpi']",
            "2: forward.compress: unknown word 'gzpi'; did you mean 'gzip'?; known: zstd br gzip",
        ),
        (
            "[forward]\ncompress_types = 'text'",
            "2: forward.compress_types: 'text' is not a media type, such as 'text/html', 'text/*' or 'application/*+json'",
        ),
    ];
    for (text, line) in table {
        assert_eq!(problems(text, &[]), [*line], "{text}");
    }
}

/// Texts with a key or a table that is unknown, and what is told of it.
const UNKNOWN: &[Row] = &[
    ("trheads = 4", "1: unknown key 'trheads' above all tables; did you mean 'threads'?"),
    ("[limit]", "1: unknown table [limit]; did you mean 'limits'?"),
    ("[[sites]]\na = 1", "1: unknown table [[sites]]; did you mean 'site'?"),
    ("[[test]]\na = 1", "1: unknown table [[test]]; it belongs in a file for larder check --test"),
    ("[admin]\nlisten = 'off'", "1: unknown table [admin]; it is a key: write admin = .. above all tables"),
    ("colour = 'red'", "1: unknown key 'colour' above all tables"),
    ("[cache]\na = 1", "1: unknown table [cache]; the cache is in [memory] and [[disk]]"),
    ("[redis]\nurl = 'a'", "1: unknown table [redis]; write engine = \"redis://127.0.0.1\" in [cluster]"),
    (
        "error_log = 'a'",
        "1: unknown key 'error_log' above all tables; messages go to standard error; the environment variable LARDER_LOG has their level",
    ),
    (
        "listen = ':80'",
        "1: unknown key 'listen' above all tables; write listen = \"127.0.0.1:8080\" in [reverse]",
    ),
    (
        "[[site]]\norigin = 'http://a'\naccess_log_file = 'a'",
        "3: unknown key 'access_log_file' in [[site]]; write it above all tables",
    ),
    (
        "[[site]]\norigin = 'http://a'\n[[site.rule]]\nstatus = 404",
        "4: unknown key 'status' in this rule; conditions are in match, as in match = { status = .. }",
    ),
    (
        "[[site]]\norigin = 'http://a'\n[[site.rule]]\nset = { A = 'b' }",
        "4: unknown key 'set' in this rule; write it in request, response or reply, as in reply = { set = .. }",
    ),
    (
        "[[site]]\norigin = 'http://a'\n[[site.rule]]\nreply = { X-A = 'b' }",
        "4: unknown key 'X-A' in 'reply' of this rule; write set = { X-A = .. }",
    ),
    (
        "[ssl]\ncert = 'a'",
        "1: unknown table [ssl]; write [[tls]] with cert and key; its listener is listen_tls in [reverse]",
    ),
    (
        "[[site]]\norigin = 'http://a'\nhost_header = 'b'",
        "3: unknown key 'host_header' in [[site]]; write host = \"preserve\" or host = \"origin\"",
    ),
    (
        "[[site]]\norigin = 'http://a'\n[[site.rule]]\nmatch = { ttl = '1h' }",
        "4: unknown key 'ttl' in 'match' of this rule; write it in the rule, beside match",
    ),
    (
        "tproxy = true",
        "1: unknown key 'tproxy' above all tables; it is absent on purpose (docs/limits.md): configure clients to use the forward proxy, as by a PAC file or https_proxy",
    ),
    (
        "[[site]]\norigin = 'http://a'\nttl = '1h'",
        "3: unknown key 'ttl' in [[site]]; write it in a [[site.rule]] of this site",
    ),
    (
        "[[site]]\norigin = 'http://a'\n[[site.rule]]\nhealth = '/h'",
        "4: unknown key 'health' in this rule; write it in the [[site]]",
    ),
    (
        "[[site]]\norigin = 'http://a'\nserver_name = 'b'",
        "3: unknown key 'server_name' in [[site]]; the names of a site are in hosts, and conditions on them in match.host",
    ),
    ("[reverse]\ntrust = '10.0.0.1'", "2: unknown key 'trust' in [reverse]; write it above all tables"),
    (
        "[[site]]\norigin = 'http://a'\n[[site.rule]]\nproxy_cache_valid = '10m'",
        "4: unknown key 'proxy_cache_valid' in this rule; write ttl = { 200 = \"1h\", 404 = \"1m\" }",
    ),
    (
        "[[site]]\norigin = 'http://a'\n[[site.rule]]\nkeep = '1h'",
        "4: unknown key 'keep' in this rule; lifetimes are ttl, ttl_default, stale_while_revalidate and stale_if_error",
    ),
    ("[limits]\nurl = '8KiB'", "2: unknown key 'url' in [limits]; did you mean 'uri'?"),
    ("[[site]]\norigin = 'http://a'\nhots = 'b'", "3: unknown key 'hots' in [[site]]; did you mean 'host'?"),
    ("[[disk]]\npath = 'd'\nsiz = 1", "3: unknown key 'siz' in [[disk]]; did you mean 'size'?"),
    ("\"a\\nb\" = 1", "1: unknown key 'a\\nb' above all tables"),
];

#[test]
fn unknown_keys_get_the_nearest_name() {
    for (text, line) in UNKNOWN {
        assert_eq!(problems(text, &[]), [*line], "{text}");
    }
}

#[test]
fn words_without_a_near_key_lead_to_what_helps() {
    let table: &[Row] = &[
        (
            "[[site]]\norigin = 'http://a'\n[[site.rule]]\nkey_body = true",
            "4: unknown key 'key_body' in this rule; it is absent on purpose (docs/limits.md): let clients send queries by GET; store_post stores an answer to POST for later GETs",
        ),
        (
            "[[site]]\norigin = 'http://a'\nip_hash = true",
            "3: unknown key 'ip_hash' in [[site]]; write balance = \"client\", or sticky for a cookie",
        ),
        (
            "[[site]]\nhosts = 'old.test'\n[[site.rule]]\nmatch = { path = '/' }\nredirect = 'https://new.test/'",
            "1: [[site]] has no 'origin'; one whose rules answer everything needs a rule without match that answers, such as respond = 404",
        ),
    ];
    for (text, line) in table {
        assert_eq!(problems(text, &[]), [*line], "{text}");
    }
}

#[test]
fn keys_of_a_site_that_disagree() {
    let table: &[Row] = &[
        (
            "[[site]]\nhosts = 'a'\n[[site.rule]]\nmatch = { path = '/a' }\nstop = true\n[[site.rule]]\nrespond = 404",
            "1: [[site]] has no 'origin': the rule at 3 keeps requests by stop from the rule that answers everything",
        ),
        (
            "[[site]]\nhosts = 'a'\n[[site.rule]]\nrespond = 404\n[[rule]]\nmatch = { path = '/a' }\nstop = true",
            "1: [[site]] has no 'origin': the rule at 5 keeps requests by stop from the rule that answers everything",
        ),
        (
            "[[site]]\norigin = 'http://a'\nhealth = '/'\nhealth_status = []",
            "4: site.health_status: no status passes: name one, or leave it out for 200 to 399",
        ),
        (
            "[[site]]\norigin = ['http://a', 'unix:/a']\nhealth = '/'\nhealth_port = 81",
            "4: site.health_port: unix:/a has no port that another could replace; leave it out",
        ),
        (
            "[[site]]\norigin = 'http+srv://_web._tcp.a'\nhealth = '/'\nhealth_port = 81",
            "4: site.health_port: http+srv://_web._tcp.a has no port that another could replace; leave it out",
        ),
    ];
    for (text, line) in table {
        assert_eq!(problems(text, &[]), [*line], "{text}");
    }
    let answering = "[[site]]\n[[site.rule]]\nmatch = { path = '/a' }\norigin = 'http://a'\nstop = true\n";
    assert_eq!(settings(&format!("{answering}[[site.rule]]\nrespond = 404"), &[]).sites.len(), 1);
}

#[test]
fn values_that_disagree() {
    let table: &[Row] = &[
        (
            "[memory]\nsize = '1GiB'\nentries = 10",
            "3: memory has either a size or entries, not both 1GiB and 10 entries",
        ),
        (
            "[memory]\nsize = '1MiB'\nmax_object = '2MiB'",
            "3: memory.max_object 2MiB is larger than memory.size 1MiB",
        ),
        (
            "[[disk]]\npath = 'a'\nsize = '1GiB'\n[[disk]]\npath = 'a'\nsize = '1GiB'",
            "4: a is already the directory of the disk at 1",
        ),
        (
            "[limits]\nhead = '4KiB'",
            "2: limits.head 4KiB is smaller than limits.uri 8KiB, which is part of it",
        ),
        (
            "[reverse]\nlisten = '[::1]:80'",
            "2: reverse.listen needs an origin: add a [[site]], or --origin URL",
        ),
        (
            "[reverse]\nlisten = ['unix:/a', 'unix:/a']\n[[site]]\norigin = 'http://a'",
            "2: reverse.listen has unix:/a twice",
        ),
        ("[forward]\nlisten = []", "2: nothing listens: forward.listen is empty, and there is no [[site]]"),
        (
            "[reverse]\nlisten = []\n[[site]]\norigin = 'http://a'",
            "3: no listener serves this site: reverse.listen is empty",
        ),
        ("[[site]]\nhosts = 'a'", "1: [[site]] has no 'origin'"),
        ("[[site]]\norigin = []", "1: [[site]] has no origin in its 'origin' list"),
        (
            "admin = '0.0.0.0:3128'\nadmin_token = '0123456789abcdef'",
            "1: admin 0.0.0.0:3128 and forward.listen 127.0.0.1:3128 cannot both listen",
        ),
        (
            "admin = '[::]:9145'",
            "1: admin [::]:9145 can be reached from other machines: set admin_token in the file, or $LARDER_TOKEN",
        ),
        (
            "[line]\nlisten = '127.0.0.1:3128'",
            "2: line.listen 127.0.0.1:3128 and forward.listen 127.0.0.1:3128 cannot both listen",
        ),
        (
            "[forward]\nlisten = '127.0.0.1:8080'\n[[site]]\norigin = 'http://a'",
            "2: forward.listen 127.0.0.1:8080 and reverse.listen 127.0.0.1:8080 cannot both listen",
        ),
    ];
    for (text, line) in table {
        assert_eq!(problems(text, &[]), [*line], "{text}");
    }
}

#[test]
fn sites_that_no_request_reaches() {
    let site = |name: &str, hosts: &str| {
        format!("[[site]]\norigin = 'http://o'\nname = '{name}'\nhosts = {hosts}\n")
    };
    let table = [
        (site("x", "['a', 'b']") + &site("y", "['B']"), "5: host 'b' is taken by 'b' of the [[site]] at 1"),
        (site("x", "'*.a'") + &site("y", "'c.a'"), "5: host 'c.a' is taken by '*.a' of the [[site]] at 1"),
        (
            site("x", "[]") + &site("y", "'a'"),
            "5: no request reaches this [[site]]: the one at 1 takes every host; put it last",
        ),
        (site("x", "'a'") + &site("x", "'b'"), "5: the name 'x' belongs to the site at 1"),
    ];
    for (text, line) in table {
        assert_eq!(problems(&text, &[]), [line], "{text}");
    }
    assert_eq!(settings(&(site("x", "'a.b'") + &site("y", "'*.b'") + &site("z", "[]")), &[]).sites.len(), 3);
    let paths =
        site("x", "[]") + &site("y", "'a'") + "path = '/y/'\n" + &site("z", "'a'") + "path = '/y/z'\n";
    assert_eq!(settings(&paths, &[]).sites.len(), 3);
    let same = paths + &site("w", "'a'") + "path = '/y'\n";
    assert_eq!(problems(&same, &[]), ["15: host 'a' is taken by 'a' of the [[site]] at 5"]);
}

#[test]
fn all_problems_are_reported_in_the_order_of_the_file() {
    let text = "threads = 0\n[[site]]\norgin = 'http://a'\n[limits]\nuri = 'x'\n";
    let expected = [
        "1: threads: 0 is not a number from 1 to 1024; also valid: \"auto\"",
        "2: [[site]] has no 'origin'",
        "3: unknown key 'orgin' in [[site]]; did you mean 'origin'?",
        "5: limits.uri: 'x' is not a number with a unit, such as '64MiB'",
    ];
    assert_eq!(problems(text, &[]), expected);
}

#[test]
fn broken_toml_names_its_line() {
    for (text, line) in [("threads = ", "1: "), ("threads = 1\nthreads = 2", "2: "), ("\n\n[limits", "3: ")] {
        let found = problems(text, &[]);
        assert!(found[0].starts_with(line) && !found[0].contains('\n'), "{text}: {found:?}");
    }
}

#[test]
fn doors_listen_beside_the_forward_proxy_or_alone() {
    let words = ["--thrift", "127.0.0.1:1", "--onc", "127.0.0.1:2", "--line", "[::1]:3", "--line", "[::1]:4"];
    let doors = "127.0.0.1:1 (thrift), 127.0.0.1:2 (onc), [::1]:3 (line), [::1]:4 (line)";
    let rows = summary(&settings("[line]\nlisten = '[::1]:9'", &words));
    assert_eq!(rows[0], ("listen", "127.0.0.1:3128 (forward)".to_owned()));
    assert_eq!(rows[1], ("doors", doors.to_owned()));
    assert!(settings("[forward]\nlisten = []", &words).listen.is_empty());
    let expected = [
        "2: doors.user_agent: ' a' is not visible ASCII such as 'Larder/1.0'",
        "4: onc.rpcbind: 'on' is not an absolute path such as '/run/rpcbind.sock'; also valid: \"off\"",
    ];
    assert_eq!(problems("[doors]\nuser_agent = ' a'\n[onc]\nrpcbind = 'on'", &[]), expected);
}

#[test]
fn settings_that_need_a_restart_are_reported_on_reload() {
    let old = settings("threads = 1\n[memory]\nsize = '1MiB'", &["--stats", "sqlite:a.db"]);
    let new = settings(
        "threads = 2\nx_cache = true\n[memory]\nsize = '1MiB'\npolicy = 'fifo'\n[stats]\nurl = 'none'",
        &[],
    );
    let stats = "stats stays sqlite:a.db, keep 7d, max_size 1GiB, client truncated, rate 1000, queue 65536, contents 5m until a restart; the config says none";
    assert_eq!(needs_restart(&old, &new), ["threads stays 1 until a restart; the config says 2", stats]);
    assert_eq!(needs_restart(&old, &old), [""; 0]);
}

#[test]
fn a_certificate_is_made_only_where_no_other_user_could_place_one() {
    let mut settings = settings("", &["--origin", "http://a.test", "--tls-self-signed"]);
    settings.state = None;
    let refused = self_signed::provide(&settings).expect_err("there is no state directory");
    assert!(refused.starts_with("--tls-self-signed") && refused.contains("set STATE_DIRECTORY"), "{refused}");
}

#[test]
fn a_node_is_reached_without_a_path() {
    let cluster = |advertise: &str| {
        format!(
            "[cluster]\nengine = 'redis://127.0.0.1:6379'\nnode = 'a'\nadvertise = '{advertise}'\n\
             [[site]]\norigin = 'http://a.test'"
        )
    };
    let settled = settings(&cluster("http://10.0.0.1:7000/"), &[]).cluster.expect("a cluster");
    assert_eq!(settled.advertise.expect("an address").to_string(), "http://10.0.0.1:7000");
    let told = problems(&cluster("http://10.0.0.1:7000/a"), &[]).join("\n");
    assert!(told.contains("cluster.advertise: 'http://10.0.0.1:7000/a': a node has no path"), "{told}");
}

#[test]
fn the_docs_list_the_parameters_that_tracking_stands_for() {
    let page = include_str!("../../docs/rules.md");
    for name in larder_proxy::settings::TRACKING {
        assert!(page.contains(&format!("`{name}`")), "{name}");
    }
}
