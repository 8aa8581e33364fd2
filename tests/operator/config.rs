//! A config in several files, with variables, and with secrets in files.

use std::fs;

use larder_testkit::{Larder, Origin, eventually, site, stderr, stdout};

use crate::{larder, output};

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
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("larder.toml");
    fs::write(&file, "x_cache = true\n[[site]]\norigin = 'http://${ORIGIN_HOST}:81'").expect("written");
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
    let folder = tempfile::tempdir().expect("a folder");
    let secret = folder.path().join("secret");
    fs::write(&secret, "too short!").expect("written");
    for (key, more) in [("admin_token", ""), ("engine", "[cluster]\n"), ("url", "[stats]\n")] {
        let file = folder.path().join("larder.toml");
        fs::write(&file, format!("{more}{key} = '@{}'", secret.display())).expect("written");
        let refused = output(&mut larder(&["check", "--config", &file.display().to_string()]));
        let text = stderr(&refused);
        assert!(text.contains(&format!("the content of {} is not valid", secret.display())), "{text}");
        assert!(!text.contains("too short"), "{text}");
    }
}
