//! The command of a run: its exit code, its signals, and the lines that Larder adds.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Stdio};
use std::thread;

use larder_testkit::{Authority, Gate, Origin, Process, eventually, output, programs, stderr, stdout};
use rustix::process::Signal;

use crate::relay::socks_to;
use crate::{Registry, User, origin};

#[test]
fn a_second_run_downloads_nothing_and_says_so() {
    let registry = Registry::before(origin());
    let user = User::of(&registry);
    let url = format!("{}/package", registry.url());
    for (hits, said, from_cache) in [(0, "0 hits", 0), (1, "1 hit", 8)] {
        let run = user.run(&["--host", "localhost"], &["curl", "-sS", &url]).succeeded();
        assert_eq!(run.said(), "/package");
        assert_eq!((run.number("requests"), run.number("hits")), (1, hits), "{}", run.told());
        let first = format!("larder: 1 request, {said} and 0 revalidated ({}%)", 100 * hits);
        assert!(run.told().starts_with(&first), "{}", run.told());
        assert!(run.number("bytes_from_cache") >= from_cache);
    }
    assert_eq!(registry.count(), 1);
}

#[test]
fn the_exit_code_is_that_of_the_command() {
    let registry = Registry::before(origin());
    let user = User::of(&registry);
    let script = |name: &str, text: &[u8]| {
        let file = user.home().join(name);
        fs::write(&file, text).expect("written");
        fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).expect("its owner's");
    };
    script("plain", b"test \"$1 $2\" = 'a b c' && exit 5\n");
    script("lost", b"#!/no/such/interpreter\n");
    // As a program that is linked with another C library.
    let mut foreign = fs::read("/bin/true").expect("a program");
    let loader = foreign.windows(4).position(|name| name == b"/ld-").expect("its loader");
    foreign[loader + 1] = b'L';
    script("foreign", &foreign);
    for (command, code, told) in [
        (&["sh", "-c", "exit 7"][..], 7, ""),
        (&["sh", "-c", "kill -KILL $$"], 137, ""),
        (&["true", "--report"], 0, ""),
        (&["./plain", "a b", "c"], 5, ""),
        (&["no-such-command"], 127, "larder: no-such-command: no such command\n"),
        (&["./lost"], 127, "larder: ./lost: it cannot be started: its interpreter or loader is not there"),
        (
            &["./foreign"],
            127,
            "larder: ./foreign: it cannot be started: its interpreter or loader is not there",
        ),
        (&["/"], 126, "larder: /: it cannot be started: permission denied\n"),
    ] {
        let run = user.run(&[], command);
        assert_eq!(run.code(), code, "{command:?} {}", run.told());
        assert!(run.told().contains(told), "{command:?} {}", run.told());
    }
}

#[test]
fn files_that_cannot_be_written_are_told_before_the_command_runs() {
    let registry = Registry::before(origin());
    let user = User::of(&registry);
    fs::write(user.home().join("file"), "").expect("written");
    for (name, value, told) in [
        ("--report", "none/report", "cannot write none/report: there is no such directory"),
        ("--cache", "file", "a part of its path is not a directory; --cache names another directory"),
        ("STATE_DIRECTORY", "/proc", "there is no such directory; XDG_STATE_HOME names another directory"),
        ("TMPDIR", "/proc/none", "there is no such directory; TMPDIR may name another directory"),
    ] {
        let options = if name.starts_with('-') { vec![name, value] } else { Vec::new() };
        let mut run = user.command(&options, &["touch", "ran"]);
        let output = run.env(name, value).output().expect("it runs");
        assert_eq!(output.status.code(), Some(1), "{name} {output:?}");
        assert!(stderr(&output).contains(told), "{}", stderr(&output));
        assert!(!user.home().join("ran").exists(), "{name}");
    }
}

#[test]
fn a_run_that_cannot_start_leaves_the_report_and_its_pipe_alone() {
    let registry = Registry::before(origin());
    let user = User::of(&registry);
    let [report, pipe, no_folder] = ["report.json", "pipe", "file"].map(|name| user.home().join(name));
    fs::write(&report, "of the last run").expect("written");
    fs::write(&no_folder, "").expect("written");
    rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, rustix::fs::Mode::RWXU).expect("a pipe");
    for file in [&report, &pipe] {
        let options = ["--report", file.to_str().expect("text"), "--cache", "file"];
        let output = user.command(&options, &["touch", "ran"]).output().expect("it ends");
        assert_eq!(output.status.code(), Some(1), "{output:?}");
    }
    assert_eq!(fs::read_to_string(&report).expect("text"), "of the last run");
    let reader = thread::spawn({
        let pipe = pipe.clone();
        move || fs::read_to_string(pipe).expect("text")
    });
    user.command(&["--report", pipe.to_str().expect("text")], &["true"]).output().expect("it ends");
    assert!(reader.join().expect("the reader").contains("\"exit_code\""));
}

#[test]
fn a_command_keeps_its_options_and_unknown_ones_before_it_are_errors() {
    let registry = Registry::before(origin());
    let user = User::of(&registry);
    for (words, code, said, told) in [
        (&["--ofline", "true"][..], 2, "", "--offline"),
        (&["echo", "--offline", "-n"], 0, "--offline -n\n", "no request came"),
    ] {
        let mut run = Command::new(programs::larder());
        run.arg("run").args(words);
        let output = user.at_home(run).output().expect("it runs");
        assert_eq!((output.status.code(), stdout(&output).as_str()), (Some(code), said), "{words:?}");
        assert!(stderr(&output).contains(told), "{}", stderr(&output));
    }
}

#[test]
fn a_run_without_requests_says_so_and_fails_if_they_are_required() {
    let registry = Registry::before(origin());
    let user = User::of(&registry);
    let run = user.run(&["--require"], &["true"]);
    assert_eq!(run.code(), 1);
    assert!(run.told().contains("larder: no request came: "), "{}", run.told());
    assert!(run.told().contains("larder: --require: no request came through the proxy"), "{}", run.told());
    std::os::unix::fs::symlink("/bin/true", user.home().join("docker")).expect("a link");
    let told = user.run(&[], &["./docker", "build", "."]).told();
    assert!(told.contains("the containers and servers of docker do not see this environment"), "{told}");
}

#[test]
fn signals_reach_the_command_and_no_process_stays() {
    let registry = Registry::before(origin());
    let user = User::of(&registry);
    let script = "trap 'exit 3' INT TERM; echo $$; while :; do sleep 0.05; done";
    for signal in [Signal::TERM, Signal::INT] {
        let mut command = user.command(&[], &["sh", "-c", script]);
        let started =
            Process::start(command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()));
        let mut run = started.expect("it starts");
        let mut line = String::new();
        let said = run.stdout.take().expect("a pipe");
        BufReader::new(said).read_line(&mut line).expect("a line");
        run.signal(signal);
        let status = eventually("its end", || run.try_wait().expect("a child"));
        assert_eq!(status.code(), Some(3), "{signal:?}");
        let process = format!("/proc/{}", line.trim());
        assert!(!std::path::Path::new(&process).exists(), "{process}");
    }
}

#[test]
fn two_runs_at_once_both_work() {
    let gate = Gate::default();
    let held = gate.clone();
    let registry = Registry::before(Origin::answering(move |seen| {
        let answer =
            larder_testkit::Answer::with_body("200 OK\nCache-Control: max-age=1000", seen.target.as_bytes());
        if seen.target == "/slow" {
            larder_testkit::Answer::default().then_wait(&held).then_close()
        } else {
            answer
        }
    }));
    let user = User::of(&registry);
    let slow = format!("{}/slow", registry.url());
    let mut first = user.command(&["--host", "localhost"], &["curl", "-sS", &slow]);
    let mut first = Process::start(first.stdout(Stdio::null()).stderr(Stdio::null())).expect("it starts");
    registry.origin.wait_for(1);
    let quick = format!("{}/quick", registry.url());
    let second = user.run(&["--host", "localhost"], &["curl", "-sS", &quick]).succeeded();
    assert_eq!(second.said(), "/quick");
    gate.open();
    eventually("the end of the first", || first.try_wait().expect("a child"));
}

#[test]
fn offline_runs_answer_from_the_cache_only() {
    let registry = Registry::before(origin());
    let user = User::of(&registry);
    let url = |path: &str| format!("{}{path}", registry.url());
    user.run(&["--host", "localhost"], &["curl", "-sS", &url("/known")]).succeeded();
    let status = ["curl", "-sS", "-o", "/dev/null", "-w", "%{http_code}"];
    for (words, expected) in [
        (&[&url("/known")[..]][..], "200"),
        (&[&url("/unknown")], "504"),
        // Over HTTP/2, curl 7.88 takes an answer before the end of its content for an error of the stream.
        (&["--http1.1", "-d", "x", &url("/known")], "504"),
    ] {
        let run = user.run(&["--host", "localhost", "--offline"], &[&status[..], words].concat());
        assert_eq!(run.said(), expected, "{words:?} {}", run.told());
    }
    let tunnel = user.run(&["--offline"], &["curl", "-sS", &url("/known")]);
    assert_ne!(tunnel.code(), 0, "a host that is not cached gets no tunnel");
    assert_eq!(registry.count(), 1);
}

#[test]
fn an_index_without_date_and_tag_is_there_for_an_offline_run() {
    let registry =
        Registry::before(Origin::always("200 OK\nContent-Type: application/json\n\n{\"files\": []}"));
    let user = User::of(&registry);
    let url = registry.at("/simple/pad/");
    for (options, count) in [(&[][..], 1), (&["--offline"], 1), (&[], 2)] {
        let options = [&["--host", "localhost"], options].concat();
        let run = user.run(&options, &["curl", "-sS", &url]).succeeded();
        assert_eq!((run.said().as_str(), registry.count()), ("{\"files\": []}", count), "{options:?}");
    }
}

#[test]
fn packages_that_need_a_token_are_kept_for_their_user() {
    let module = "/go/example.test/pad/@v/v1.0.0.zip";
    let registry = Registry::before(Origin::by(move |seen| {
        if seen.field("authorization").is_none() {
            return match seen.target == module {
                true => {
                    "200 OK\nCache-Control: private, max-age=0\nContent-Type: text/html\n\nsign in".to_owned()
                }
                false => "401 Unauthorized\n\n".to_owned(),
            };
        }
        match &*seen.target {
            "/npm/pad" => "200 OK\nCache-Control: private, max-age=0, must-revalidate\nContent-Type: application/json\n\n\
                {\"name\":\"pad\",\"versions\":{\"1.0.0\":{\"dist\":{\"tarball\":\"pad/-/pad-1.0.0.tgz\",\
                \"shasum\":\"22596363b3de40b06f981fb85d82312e8c0ed511\"}}}}"
                .to_owned(),
            "/npm/pad/-/pad-1.0.0.tgz" => "200 OK\nCache-Control: private\n\nhello world\n".to_owned(),
            path => format!("200 OK\nCache-Control: max-age=1000\n\n{path}"),
        }
    }));
    let user = User::of(&registry);
    let script = "for path in npm/pad npm/pad/-/pad-1.0.0.tgz api; do curl -sSf -H \"Authorization: $1\" $0/$path; done";
    for (token, counts) in [("Bearer one", [1, 1, 1]), ("Bearer two", [2, 1, 2])] {
        let command = ["sh", "-ec", script, &registry.url(), token];
        let run = user.run(&["--host", "localhost"], &command).succeeded();
        assert!(run.said().ends_with("hello world\n/api"), "{}{}", run.said(), run.told());
        let paths = ["/npm/pad", "/npm/pad/-/pad-1.0.0.tgz", "/api"];
        assert_eq!(paths.map(|path| registry.origin.count_of(path)), counts, "{}", run.told());
    }
    let offline = "curl -sSf $0/npm/pad/-/pad-1.0.0.tgz && ! curl -sf $0/api";
    user.run(&["--host", "localhost", "--offline"], &["sh", "-ec", offline, &registry.url()]).succeeded();
    let url = registry.at(module);
    for (token, said, count) in [("", "sign in", 1), ("a", module, 2), ("b", module, 2)] {
        let command = ["curl", "-sSf", "-H", &format!("Authorization:{token}"), &url];
        let run = user.run(&["--host", "localhost"], &command).succeeded();
        assert_eq!((&*run.said(), registry.origin.count_of(module)), (said, count), "{}", run.told());
    }
}

#[test]
fn credentials_stay_with_the_host_that_redirects_to_another() {
    let store = Origin::always("200 OK\nCache-Control: max-age=1000\n\na layer");
    let location = format!("http://{}/layer", store.address);
    let registry = Registry::before(Origin::by(move |seen| match seen.field("authorization") {
        Some("Bearer one") => format!("307 Temporary Redirect\nLocation: {location}"),
        _ => "401 Unauthorized".to_owned(),
    }));
    let user = User::of(&registry);
    let url =
        registry.at("/v2/a/blobs/sha256:b5bb9d8014a0f9b1d61e21e796d78dccdf1352f23cd32812f4850b878ae4944c");
    for (token, code, said) in [("one", 0, "a layer"), ("two", 22, "")] {
        let field = format!("Authorization: Bearer {token}");
        let command = ["curl", "-sfL", "-H", &field, &url];
        let run = user.run(&["--host", "localhost"], &command);
        assert_eq!((run.code(), run.said().as_str()), (code, said), "{}", run.told());
    }
    assert_eq!((store.count(), store.last().field("authorization")), (1, None));
    assert_eq!(registry.count(), 2, "a redirect is for the client that it was sent to");
}

#[test]
fn max_age_asks_again_for_what_is_older() {
    let registry = Registry::before(origin());
    let user = User::of(&registry);
    let url = format!("{}/a", registry.url());
    for (options, count) in
        [(&["--max-age", "1h"][..], 1), (&["--max-age", "1h"], 1), (&["--max-age", "0s"], 2)]
    {
        let options = [&["--host", "localhost"], options].concat();
        user.run(&options, &["curl", "-sS", &url]).succeeded();
        assert_eq!(registry.count(), count, "{options:?}");
    }
}

#[test]
fn registries_of_the_tools_settings_are_cached() {
    let registry = Registry::before(origin());
    let user = User::of(&registry);
    fs::write(user.home().join(".npmrc"), format!("registry={}/npm/\n", registry.url())).expect("written");
    let run = user.run(&["--verbose"], &["curl", "-sS", &registry.url()]).succeeded();
    assert_eq!(run.number("requests"), 1);
    let line = format!("larder: GET {}/ 200 ", registry.url());
    assert!(run.told().contains(&line), "{}", run.told());
    fs::remove_file(user.home().join(".npmrc")).expect("it was there");
    fs::write(user.home().join("settings"), format!("index-url = {}", registry.url())).expect("written");
    let mut run = user.command(&["--verbose"], &["curl", "-sS", &registry.url()]);
    let output = run.env("PIP_CONFIG_FILE", user.home().join("settings")).output().expect("it runs");
    assert!(stderr(&output).contains(&line), "{}", stderr(&output));
}

#[test]
fn a_run_may_intercept_all_hosts() {
    let registry = Registry::before(origin());
    let user = User::of(&registry);
    let run = user.run(&["--all"], &["curl", "-sS", &registry.at("/a")]).succeeded();
    assert_eq!((run.said().as_str(), run.number("requests")), ("/a", 1), "{}", run.told());
}

#[test]
fn young_versions_are_hidden_from_a_command() {
    let registry = Registry::before(Origin::by(|seen| {
        match &*seen.target {
        "/pad" => "200 OK\nContent-Type: application/json\n\n{\"name\":\"pad\",\"dist-tags\":{\"latest\":\"2.0.0\"},\
            \"versions\":{\"1.0.0\":{\"dist\":{\"tarball\":\"/pad/-/pad-1.0.0.tgz\"}},\"2.0.0\":{\"dist\":{\"tarball\":\"/pad/-/pad-2.0.0.tgz\"}}},\
            \"time\":{\"1.0.0\":\"2020-01-01T00:00:00Z\",\"2.0.0\":\"2999-01-01T00:00:00Z\"}}"
            .to_owned(),
        // The index of cargo.
        "/pa/dd/padd" => "200 OK\n\n{\"name\":\"padd\",\"vers\":\"1.0.0\",\"deps\":[],\"cksum\":\"\",\"pubtime\":\"2020-01-01T00:00:00Z\"}\n\
            {\"name\":\"padd\",\"vers\":\"2.0.0\",\"deps\":[],\"cksum\":\"\",\"pubtime\":\"2999-01-01T00:00:00Z\"}\n"
            .to_owned(),
        _ => "200 OK\n\nx".to_owned(),
    }
    }));
    let user = User::of(&registry);
    let script = "curl -sS $0/pad $0/pa/dd/padd; curl -sS $0/pad/-/pad-2.0.0.tgz";
    let run = user.run(&["--host", "localhost", "--min-age", "7d"], &["sh", "-c", script, &registry.url()]);
    let said = run.said();
    assert!(said.contains("\"latest\":\"1.0.0\"") && said.contains("\"vers\":\"1.0.0\""), "{said}");
    assert!(!said.contains("2999") && said.contains("403: pad 2.0.0 is younger than 7 days"), "{said}");
}

#[test]
fn the_proxy_of_the_environment_is_used_but_for_hosts_without_one() {
    let registry = Registry::before(origin());
    let user = User::of(&registry);
    let outside = Origin::by(|seen| format!("200 OK\n\nfetched {}", seen.target));
    for (direct, said, counted) in [
        ("", "fetched http://far.test/a", "larder: 1 request, "),
        ("far.test", "", "larder: no request came: "),
    ] {
        let mut run = user.command(&[], &["curl", "-sS", "http://far.test/a"]);
        let run = run.env("HTTP_PROXY", format!("http://{}", outside.address)).env("NO_PROXY", direct);
        let output = run.output().expect("it runs");
        assert_eq!(stdout(&output), said, "{}", stderr(&output));
        assert!(stderr(&output).contains(counted), "{}", stderr(&output));
    }
    assert_eq!(outside.count(), 1);
}

#[test]
fn tunnels_of_socks_in_the_environment_lead_to_registries() {
    let authority = Authority::new();
    let registry = Registry::with(origin(), authority, &["far.test"], "");
    let user = User::of(&registry);
    let socks = socks_to(("far.test", 443), registry.front.door("reverse, TLS"));
    for (hits, tunnels) in [(0, 1), (1, 1)] {
        let mut run = user.command(&["--host", "far.test"], &["curl", "-sS", "https://far.test/a"]);
        let run = run.env("ALL_PROXY", format!("socks5h://me:a%3Ab@{}", socks.address));
        let output = run.output().expect("it runs");
        let told = stderr(&output);
        assert_eq!(stdout(&output), "/a", "{told}");
        assert!(told.contains(&format!("1 request, {hits} hit")), "{told}");
        assert_eq!((registry.count(), socks.connections()), (1, tunnels), "{told}");
    }
}

#[test]
fn a_signal_that_ends_the_command_ends_the_run() {
    let registry = Registry::before(origin());
    let user = User::of(&registry);
    for signal in [2, 15] {
        let run = user.run(&[], &["sh", "-c", &format!("kill -{signal} $$")]);
        assert_eq!(run.output.status.signal(), Some(signal), "{}", run.told());
        assert_eq!(run.number("exit_code"), 128 + signal as u64);
    }
}

#[test]
fn signals_of_users_reach_the_command_and_ignored_ones_stay_ignored() {
    let registry = Registry::before(origin());
    let user = User::of(&registry);
    let script = "trap 'exit 3' USR1; kill -USR1 $PPID; for i in $(seq 400); do sleep 0.05; done";
    assert_eq!(user.run(&[], &["sh", "-c", script]).code(), 3);
    let run = user.command(&[], &["grep", "SigIgn", "/proc/self/status"]);
    let mut ignoring = Command::new("sh");
    ignoring.args(["-c", "trap '' HUP; exec \"$@\"", "sh"]).arg(run.get_program()).args(run.get_args());
    ignoring.env("HOME", user.home()).env("STATE_DIRECTORY", user.home().join("state"));
    let said = output(ignoring.env("XDG_CACHE_HOME", user.home().join("cache")));
    let bits = said.split_whitespace().last().and_then(|bits| u64::from_str_radix(bits, 16).ok());
    assert_eq!(bits.map(|bits| bits & 1), Some(1), "{said}");
}

#[test]
fn an_interrupt_of_the_terminal_reaches_the_command_once() {
    let registry = Registry::before(origin());
    let user = User::of(&registry);
    let command = "trap 'echo interrupt >> seen' INT; : > ready; while ! test -e end; do sleep 0.02; done";
    // With all streams elsewhere, the terminal is still that of the command.
    let terminal = "import os, pty, sys, time\n\
        child, terminal = pty.fork()\n\
        if child == 0:\n    \
            for stream in range(3): os.dup2(os.open('/dev/null', os.O_RDWR), stream)\n    \
            os.execvp(sys.argv[1], sys.argv[1:])\n\
        end = time.time() + 20\n\
        def wait(file):\n    \
            while not os.path.exists(file): assert time.time() < end; time.sleep(0.01)\n\
        wait('ready'); os.write(terminal, b'\\x03'); wait('seen'); time.sleep(0.1); open('end', 'w')\n\
        os.waitpid(child, 0)";
    let run = user.command(&[], &["sh", "-c", command]);
    let mut python = Command::new("python3");
    python.args(["-c", terminal]).arg(run.get_program()).args(run.get_args()).current_dir(user.home());
    python.env("HOME", user.home()).env("STATE_DIRECTORY", user.home().join("state"));
    output(python.env("XDG_CACHE_HOME", user.home().join("cache")));
    let seen = fs::read_to_string(user.home().join("seen")).expect("a file");
    assert_eq!(seen, "interrupt\n");
}

#[test]
fn settings_of_the_command_change_no_line_of_the_run() {
    let registry = Registry::before(origin());
    let user = User::of(&registry);
    for filter in ["trace", "=no filter="] {
        let mut run = user.command(&[], &["true"]);
        let told = stderr(&run.env("RUST_LOG", filter).output().expect("it runs"));
        assert_eq!(told.lines().count(), 2, "{told}");
    }
}

#[test]
fn files_with_settings_of_the_user_are_for_the_user_alone() {
    let registry = Registry::before(origin());
    let user = User::of(&registry);
    fs::write(user.home().join(".wgetrc"), "http_password = secret\n").expect("written");
    let script = "grep -c secret $WGETRC; stat -c %a $WGETRC $APT_CONFIG $HOMEBREW_CURLRC $SSL_CERT_FILE $(dirname $SSL_CERT_FILE)";
    let run = user.command(&[], &["sh", "-c", script]);
    let mut strict = Command::new("sh");
    strict.args(["-c", "umask 077; exec \"$@\"", "sh"]).arg(run.get_program()).args(run.get_args());
    strict.env("HOME", user.home()).env("STATE_DIRECTORY", user.home().join("state"));
    let said = output(strict.env("XDG_CACHE_HOME", user.home().join("cache")).env("TMPDIR", user.home()));
    assert_eq!(said.split_whitespace().collect::<Vec<_>>(), ["1", "600", "600", "600", "644", "755"]);
}

#[test]
fn a_limit_on_the_size_of_files_is_told() {
    let registry = Registry::before(origin());
    let user = User::of(&registry);
    let run = user.command(&[], &["true"]);
    let mut limited = Command::new("sh");
    limited.args(["-c", "ulimit -f 1; exec \"$@\"", "sh"]).arg(run.get_program()).args(run.get_args());
    limited.env("HOME", user.home()).env("STATE_DIRECTORY", user.home().join("state"));
    let limited = limited.env("XDG_CACHE_HOME", user.home().join("cache")).output().expect("it runs");
    assert_eq!(limited.status.code(), Some(1), "{limited:?}");
    assert!(stderr(&limited).starts_with("larder: cannot "), "{}", stderr(&limited));
}
