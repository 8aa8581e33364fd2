//! The config in force and its file: `larder config diff`, included files, variables, and secrets in files.

use std::fs;

use larder_testkit::{Larder, Origin, eventually, file_with, site, stderr, stdout};

use crate::{larder, output};

/// Returns the differences that `larder config diff` prints, and whether there are none.
fn differences(proxy: &Larder) -> (String, bool) {
    let output = output(&mut larder(&["config", "diff", "--admin", &proxy.admin.to_string()]));
    (stdout(&output) + &stderr(&output), output.status.success())
}

#[test]
fn changes_of_the_file_are_listed_until_they_apply() {
    let origin = Origin::always("200 OK\nCache-Control: max-age=60\n\nbody");
    let config = |top: &str, rest: &str| format!("{top}\n{}\n{rest}", site(&[&origin], "name = 'shop'"));
    let proxy = Larder::start(&config("", ""));
    assert_eq!(differences(&proxy), (String::new(), true));

    let changed = config(
        "admin_token = 'a-secret-of-the-file'\nx_cache = true",
        "retries = 5\n[memory]\nsize = '77MiB'\n[timeouts]\nidle = '7s'",
    );
    proxy.write_config(&changed);
    let (text, same) = differences(&proxy);
    assert!(!same && text.ends_with("larder: 5 keys differ\n"), "{text}");
    for row in [
        "admin_token          differs  differs    reload",
        "memory.size          default  \"77MiB\"    restart",
        "site[shop].retries   default  5          reload",
        "timeouts.idle        default  \"7s\"       reload",
        "x_cache              default  true       reload",
    ] {
        let words = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        assert!(text.lines().any(|line| words(line) == words(row)), "{row}\n{text}");
    }
    assert!(!text.contains("a-secret"), "{text}");

    // After a reload, only what needs a restart differs. The token is needed from other machines only.
    proxy.signal(rustix::process::Signal::HUP);
    eventually("the reload", || differences(&proxy).0.ends_with("larder: 1 key differs\n").then_some(()));
    assert!(differences(&proxy).0.contains("memory.size"));

    proxy.write_config("threads = 0");
    let (text, same) = differences(&proxy);
    assert!(!same && text.contains("larder.toml:1: threads: 0 is not a number"), "{text}");
}

#[test]
fn a_reload_reads_included_files_and_secrets_in_files() {
    let folder = tempfile::tempdir().expect("a folder");
    let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).expect("written");
    write("token", "a-token-in-a-file\n");
    write("10.toml", "admin_token = '@${CREDENTIALS_DIRECTORY}/token'");
    let origin = Origin::always("200 OK\nCache-Control: max-age=60\n\nbody");
    let config = format!("include = '{}/*.toml'\n{}", folder.path().display(), site(&[&origin], ""));
    let proxy = Larder::start_in(&config, &[("CREDENTIALS_DIRECTORY", folder.path())]);
    let purge = |token: &str| {
        let request = format!("PURGE /a\nAuthorization: Bearer {token}");
        proxy.ask(&request).status
    };
    assert_eq!(proxy.get("/a").field("x-cache").map(str::to_owned), None);
    assert_eq!(purge("another-token-here"), 403);
    assert_eq!(purge("a-token-in-a-file"), 200);

    write("20.toml", "x_cache = true");
    proxy.signal(rustix::process::Signal::HUP);
    eventually("the reload", || proxy.get("/a").field("x-cache").map(str::to_owned).is_some().then_some(()));
}

#[test]
fn a_variable_that_is_not_set_is_named_with_its_line() {
    let (_folder, file) =
        file_with("larder.toml", "x_cache = true\n[[site]]\norigin = 'http://${ORIGIN_HOST}:81'");
    let path = file.display().to_string();
    let check = || {
        let mut command = larder(&["check", "--config", &path]);
        command.env_remove("ORIGIN_HOST");
        command
    };
    let refused = output(&mut check());
    let expected =
        format!("larder: {path}:3: ${{ORIGIN_HOST}}: there is no such variable in the environment\n");
    assert_eq!((stderr(&refused), refused.status.code()), (expected, Some(2)));
    let accepted = output(check().env("ORIGIN_HOST", "origin.test"));
    assert!(stdout(&accepted).contains("from http://origin.test:81"), "{}", stderr(&accepted));
}

#[test]
fn the_content_of_a_secret_file_is_not_in_errors() {
    let (folder, secret) = file_with("secret", "too short!");
    for (key, more) in [("admin_token", ""), ("engine", "[cluster]\n"), ("url", "[stats]\n")] {
        let file = folder.path().join("larder.toml");
        fs::write(&file, format!("{more}{key} = '@{}'", secret.display())).expect("written");
        let refused = output(&mut larder(&["check", "--config", &file.display().to_string()]));
        let text = stderr(&refused);
        assert!(text.contains(&format!("the content of {} is not valid", secret.display())), "{text}");
        assert!(!text.contains("too short"), "{text}");
    }
}
