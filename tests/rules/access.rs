//! Rules that require passwords or tokens.

use std::fs::{self, Permissions};
use std::io::Write;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::path::Path;
use std::process::{Command, Output, Stdio};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use larder_testkit::{Client, Larder, Origin, eventually, file_with, site};

/// The password `open sesame`, as `htpasswd -B -C 4` writes it.
const BEA: &str = "bea:$2y$04$kTb6CD33HQu5TaNPdAbYNujtpQj1pW5VBgqhBLfyhnd.v0UWCPJza\n";

fn passwd(file: &Path, arguments: &[&str], password: &str) -> Output {
    let mut larder = Command::new(env!("CARGO_BIN_EXE_larder"));
    larder.arg("passwd").arg(file).args(arguments).stdin(Stdio::piped());
    let mut larder = larder.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("larder runs");
    // The command may exit before it reads the password.
    let _ = writeln!(larder.stdin.take().expect("its input"), "{password}");
    larder.wait_with_output().expect("it ends")
}

fn basic(name: &str, password: &str) -> String {
    format!("Basic {}", STANDARD.encode(format!("{name}:{password}")))
}

#[test]
fn a_password_opens_a_part_of_a_site_whose_responses_are_shared() {
    let (_folder, users) = file_with("users", &format!("# users\n{BEA}"));
    assert!(passwd(&users, &["ann"], "secret").status.success());
    let origin = Origin::by(|seen| {
        let is_told = seen.field("authorization").is_some();
        format!("200 OK\nCache-Control: max-age=100\n\n{} {is_told}", seen.number)
    });
    let rules = format!(
        "[[site.rule]]\nmatch = {{ path = '/intern*' }}\nusers = '{}'\nrealm = 'Intern'\n\
         [[site.rule]]\nmatch = {{ path = '/intern/open' }}\nusers = false\n",
        users.display()
    );
    let larder = Larder::start(&site(&[&origin], &rules));
    let ask = |path: &str, shown: &str| larder.ask(&format!("GET {path}\nAuthorization: {shown}"));
    let refused = larder.get("/intern");
    assert_eq!(refused.status, 401);
    assert_eq!(refused.field("www-authenticate"), Some("Basic realm=\"Intern\", charset=\"UTF-8\""));
    assert_eq!(refused.field("cache-status"), Some("Larder; detail=unauthorized"));
    for (name, password, is_hit) in
        [("ann", "secret", false), ("bea", "open sesame", true), ("ann", "secret", true)]
    {
        let answer = ask("/intern", &basic(name, password));
        assert_eq!((answer.status, answer.text(), answer.is_hit()), (200, "0 false", is_hit), "{name}");
    }
    for shown in [
        basic("ann", "Secret"),
        basic("eve", "secret"),
        basic("ann", ""),
        "Basic !".to_owned(),
        "Bearer secret".to_owned(),
        "Basic".to_owned(),
        format!("{}\nAuthorization: {}", basic("ann", "secret"), basic("eve", "x")),
    ] {
        assert_eq!(ask("/intern", &shown).status, 401, "{shown}");
    }
    assert_eq!((larder.get("/intern/open").status, larder.get("/").status), (200, 200));
    assert!(passwd(&users, &["ann", "--delete"], "").status.success());
    larder.wait_for_log("config reloaded");
    assert_eq!(ask("/intern", &basic("ann", "secret")).status, 401);
    assert_eq!(ask("/intern", &basic("bea", "open sesame")).status, 200);
}

#[test]
fn a_token_opens_an_api() {
    let (_folder, tokens) = file_with("tokens", "0123456789abcdef\napp fedcba9876543210\n");
    let origin = Origin::always("200 OK\nCache-Control: max-age=100\n\nx");
    let larder =
        Larder::start(&site(&[&origin], &format!("[[site.rule]]\ntokens = '{}'\n", tokens.display())));
    for (shown, status) in [
        ("Bearer 0123456789abcdef", 200),
        ("bearer fedcba9876543210", 200),
        ("Bearer 0123456789abcdeg", 401),
        ("Bearer", 401),
    ] {
        let answer = larder.ask(&format!("GET /\nAuthorization: {shown}"));
        assert_eq!(answer.status, status, "{shown}");
    }
    assert_eq!(larder.get("/").field("www-authenticate"), Some("Bearer realm=\"larder\""));
}

#[test]
fn purges_and_limits_distinguish_clients_by_their_passwords() {
    let folder = tempfile::tempdir().expect("a folder");
    let (users, tokens) = (folder.path().join("users"), folder.path().join("tokens"));
    fs::write(&users, BEA).expect("written");
    fs::write(&tokens, "0123456789abcdef\n").expect("written");
    let origin = Origin::always("200 OK\nCache-Control: max-age=100\n\nx");
    let rules = format!(
        "purge_from = '127.0.0.1'\n[[site.rule]]\nusers = '{}'\ntokens = '{}'\n\
         limit = {{ requests = '1/h', by = 'field:authorization' }}\n",
        users.display(),
        tokens.display()
    );
    let larder = Larder::start(&site(&[&origin], &rules));
    let ask = |shown: &str| larder.ask(&format!("GET /\nAuthorization: {shown}")).status;
    for shown in [&basic("bea", "open sesame"), "Bearer 0123456789abcdef"] {
        assert_eq!((ask(shown), ask(shown)), (200, 429), "{shown}");
    }
    assert_eq!(larder.ask("PURGE /").status, 200, "the site allows these clients to purge");
}

#[test]
fn logs_name_the_user_whose_password_or_token_was_right() {
    let folder = tempfile::tempdir().expect("a folder");
    let (users, tokens) = (folder.path().join("users"), folder.path().join("tokens"));
    fs::write(&users, BEA).expect("written");
    fs::write(&tokens, "app 0123456789abcdef\n").expect("written");
    let origin = Origin::always("200 OK\nCache-Control: max-age=100\n\nx");
    let rule = format!("[[site.rule]]\nusers = '{}'\ntokens = '{}'\n", users.display(), tokens.display());
    for (form, bea, app, none) in [
        ("json", r#""user":"bea""#, r#""user":"app""#, r#""status":401"#),
        ("text", r#" user="bea""#, r#" user="app""#, "detail=unauthorized\n"),
        ("combined", "127.0.0.1 - bea [", "127.0.0.1 - app [", "127.0.0.1 - - ["),
        ("squid", "/ bea ", "/ app ", "/ - "),
    ] {
        let file = folder.path().join(form);
        let log = format!("access_log = '{form}'\naccess_log_file = '{}'\n", file.display());
        let larder = Larder::start(&format!("{log}{}", site(&[&origin], &rule)));
        for shown in [&basic("bea", "open sesame"), "Bearer 0123456789abcdef", &basic("bea", "wrong")] {
            larder.ask(&format!("GET /\nAuthorization: {shown}"));
        }
        let lines = eventually("three lines", || {
            let text = fs::read_to_string(&file).ok()?;
            (text.lines().count() == 3).then_some(text)
        });
        for expected in [bea, app, none] {
            assert_eq!(lines.matches(expected).count(), 1, "{expected}: {lines}");
        }
    }
}

#[test]
fn the_forward_proxy_asks_for_a_password_for_tunnels_as_well() {
    let (_folder, users) = file_with("users", BEA);
    let origin = Origin::always("200 OK\nCache-Control: max-age=100\n\nx");
    let (target, port) = (origin.address, origin.address.port());
    let forward = format!("[forward]\nallow_private = true\nports = '1-65535'\nconnect_ports = [{port}]\n");
    let larder = Larder::start(&format!("{forward}[[forward.rule]]\nusers = '{}'\n", users.display()));
    let right = format!("\nProxy-Authorization: {}", basic("bea", "open sesame"));
    let own = format!("\nAuthorization: {}", basic("bea", "open sesame"));
    for request in
        [format!("GET http://{target}/\nHost: {target}"), format!("CONNECT {target}\nHost: {target}")]
    {
        let ask = |more: &str| Client::to(larder.forward).ask(&format!("{request}{more}"));
        let refused = ask(&own);
        assert_eq!(refused.status, 407, "{request}");
        assert!(refused.field("proxy-authenticate").is_some_and(|value| value.starts_with("Basic ")));
        assert_eq!(ask(&right).status, 200, "{request}");
    }
    assert_eq!(origin.last().field("proxy-authorization"), None);
}

#[test]
fn a_file_of_users_keeps_its_owner_its_permissions_and_its_place() {
    let folder = tempfile::tempdir().expect("a folder");
    let (users, file) = (folder.path().join("users"), folder.path().join("file"));
    fs::write(&file, BEA).expect("written");
    fs::set_permissions(&file, Permissions::from_mode(0o640)).expect("permissions");
    // Only root can change the owner of a file.
    let before = chown(&file, Some(1), Some(1)).map_or_else(|_| owner(&file), |()| (1, 1));
    symlink("file", &users).expect("a link");
    assert!(passwd(&users, &["ann"], "secret").status.success());
    assert_eq!(fs::read_link(&users).expect("a link"), Path::new("file"));
    assert!(fs::read_to_string(&file).expect("a file").contains("ann:$argon2id$"));
    assert_eq!(owner(&file), before);
    assert_eq!(fs::metadata(&file).expect("a file").permissions().mode() & 0o777, 0o640);
}

fn owner(file: &Path) -> (u32, u32) {
    let file = fs::metadata(file).expect("a file");
    (file.uid(), file.gid())
}

#[test]
fn passwords_are_written_for_the_owner_alone_and_errors_name_the_line() {
    let folder = tempfile::tempdir().expect("a folder");
    let users = folder.path().join("users");
    let said = |output: &Output| {
        String::from_utf8_lossy(&[&output.stdout[..], &output.stderr].concat()).into_owned()
    };
    for (arguments, password, expected) in [
        (&["ann"][..], "one", "added ann"),
        (&["ann"], "two", "changed ann"),
        (&["bea"], "", "the password is empty"),
        (&["a:b"], "x", "'a:b' is not a user name"),
        (&["eve", "--delete"], "", "has no user 'eve'"),
        (&["ann", "--delete"], "", "deleted ann"),
    ] {
        let output = passwd(&users, arguments, password);
        assert!(said(&output).contains(expected), "{arguments:?}: {}", said(&output));
    }
    assert_eq!(fs::metadata(&users).expect("a file").permissions().mode() & 0o777, 0o600);
    fs::write(&users, "# users\nann:secret\n").expect("written");
    let config = folder.path().join("larder.toml");
    let text = "[[site]]\norigin = 'http://127.0.0.1:9'\n[[site.rule]]\nusers = 'users'\n";
    fs::write(&config, text).expect("written");
    let mut check = Command::new(env!("CARGO_BIN_EXE_larder"));
    let output =
        check.args(["check", "--config", "larder.toml"]).current_dir(&folder).output().expect("it runs");
    assert_eq!(output.status.code(), Some(2));
    assert!(
        said(&output).contains("larder.toml:4: rule.users: users:2: the hash is neither"),
        "{}",
        said(&output)
    );
}

#[test]
fn a_client_that_guesses_passwords_is_limited_and_others_are_not() {
    let (_folder, users) = file_with("users", BEA);
    let origin = Origin::always("200 OK\nCache-Control: max-age=100\n\nbody");
    let larder = Larder::start(&site(&[&origin], &format!("[[site.rule]]\nusers = '{}'\n", users.display())));
    let ask = |host: u8, password: &str| {
        let mut client = Client::from([127, 0, 0, host].into(), larder.address());
        client.ask(&format!("GET /\nAuthorization: {}", basic("bea", password)))
    };
    assert_eq!(ask(1, "open sesame").status, 200);
    let guesses: Vec<_> = (0..40).map(|number| ask(1, &number.to_string())).collect();
    let refused = guesses.iter().filter(|answer| answer.status == 401).count();
    // Some more in time that passes meanwhile.
    assert!((20..30).contains(&refused), "{refused} passwords were verified");
    let last = guesses.last().expect("many");
    assert_eq!(last.status, 429);
    assert!(
        last.field("retry-after").is_some_and(|seconds| seconds.parse::<u32>().is_ok_and(|wait| wait > 0))
    );
    assert_eq!(ask(1, "open sesame").status, 200, "a password that is in use");
    assert_eq!((ask(2, "open sesame").status, ask(2, "x").status), (200, 401), "another client");
}
