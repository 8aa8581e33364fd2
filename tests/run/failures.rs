//! Faults of the proxy, the disk, the clock, and the registry: the command ends as it would, nothing wrong is stored, and the
//! words are clear.

use std::fs;
use std::net::TcpStream;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};

use larder_proxy::net::tls::authority::{AuthorityTerms, CertificateAuthority};
use larder_testkit::{Answer, Gate, Origin, Process, children, eventually, is_over, not_tested, output};
use rustix::process::{Pid, Signal, kill_process};

use crate::shelf::Shelf;
use crate::{Registry, User, origin};

const LENGTH: usize = 400_000;

/// A run whose command has received half of a file.
struct HalfDone {
    registry: Registry,
    user: User,
    run: Process,
    /// Lets the registry send the rest.
    rest: Gate,
}

impl HalfDone {
    /// Downloads with curl, and leaves its exit code in a file, if the shell lives that long.
    fn start() -> Self {
        let rest = Gate::default();
        let held = rest.clone();
        let registry = Registry::before(Origin::answering(move |_| {
            let head =
                format!("HTTP/1.1 200 OK\r\nCache-Control: max-age=1000\r\nContent-Length: {LENGTH}\r\n\r\n");
            let half = vec![b'x'; LENGTH / 2];
            Answer::raw([head.as_bytes(), &half].concat()).then_wait(&held).then(half)
        }));
        let user = User::of(&registry);
        let script = format!("curl -sS -o part {}/large; echo $? > code; exit 7", registry.url());
        let mut command = user.command(&["--host", "localhost"], &["sh", "-c", &script]);
        let told = fs::File::create(user.home().join("told")).expect("a file");
        let run = Process::start(command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(told));
        let run = run.expect("it starts");
        let part = user.home().join("part");
        eventually("the first half", || (fs::metadata(&part).ok()?.len() > 0).then_some(()));
        Self { registry, user, run, rest }
    }

    /// Returns the process of the proxy.
    fn proxy(&self) -> Pid {
        let is_proxy = |process: &Pid| {
            let words = fs::read(format!("/proc/{}/environ", process.as_raw_nonzero())).unwrap_or_default();
            words.windows(8).any(|word| word == b"RUN_ROLE")
        };
        children(self.run.id()).into_iter().find(is_proxy).expect("a process")
    }

    /// Waits for the end of the run, and returns how it ended. A run after it gets the whole file, and stores it.
    fn ended(mut self) -> (ExitStatus, User) {
        let status = eventually("the end of the run", || self.run.try_wait().expect("a child"));
        self.rest.open();
        let url = format!("{}/large", self.registry.url());
        for count in [2, 2] {
            self.user.run(&["--host", "localhost"], &["curl", "-sS", "-o", "whole", &url]).succeeded();
            assert_eq!(fs::read(self.user.home().join("whole")).expect("a file"), vec![b'x'; LENGTH]);
            assert_eq!(self.registry.count(), count);
        }
        (status, self.user)
    }
}

#[test]
fn a_killed_proxy_leaves_the_command_its_exit_code() {
    let download = HalfDone::start();
    kill_process(download.proxy(), Signal::KILL).expect("it runs");
    let (status, user) = download.ended();
    assert_eq!(status.code(), Some(7));
    let read = |name: &str| fs::read_to_string(user.home().join(name)).expect("a file");
    assert_ne!(read("code").trim(), "0", "curl has noticed");
    assert!(read("told").contains("larder: the proxy was ended by signal 9"), "{}", read("told"));
}

#[test]
fn the_proxy_ends_with_a_run_that_is_killed() {
    let mut download = HalfDone::start();
    let proxy = download.proxy();
    download.run.end();
    eventually("the end of the proxy", || is_over(proxy).then_some(()));
    assert_eq!(download.ended().0.signal(), Some(9));
}

#[test]
fn an_interrupted_download_leaves_no_process_and_no_part() {
    let download = HalfDone::start();
    let processes = children(download.run.id());
    let curl = processes.iter().flat_map(|process| children(process.as_raw_nonzero().get() as u32));
    let curl: Vec<_> = curl.collect();
    // As a terminal does, which sends it to all of its processes.
    for process in processes.iter().chain(&curl) {
        let _ = kill_process(*process, Signal::INT);
    }
    download.run.signal(Signal::INT);
    // A shell ends its script after it.
    assert_eq!(download.ended().0.signal(), Some(2));
    assert!(processes.into_iter().chain(curl).all(is_over));
}

#[test]
fn a_full_disk_fails_no_download_and_is_told() {
    let body = vec![b'x'; 3_000_000];
    let registry =
        Shelf::of("localhost", &[], ["/a", "/b"].map(|path| (path.into(), body.clone())).into()).registry;
    let user = User::of(&registry);
    let report = user.home().join("report.json").display().to_string();
    let script = format!("curl -sS -o a {0}/a && curl -sS -o b {0}/b", registry.url());
    let options = ["--host", "localhost", "--require", "--report", &report];
    let run = user.command(&options, &["sh", "-c", &script]);
    let cache = user.home().join("cache");
    fs::create_dir(&cache).expect("made");
    let mount = format!("mount -t tmpfs -o size=2m tmpfs '{}'", cache.display());
    let trial = Command::new("unshare").args(["--mount", "sh", "-c", &mount]).output();
    if !trial.is_ok_and(|trial| trial.status.success()) {
        return not_tested("a file system to mount (`unshare --mount`, tmpfs)");
    }
    let mut mounted = Command::new("unshare");
    mounted.args(["--mount", "sh", "-c", &format!("{mount} && exec \"$@\""), "sh"]);
    mounted.arg(run.get_program()).args(run.get_args()).current_dir(user.home());
    for (name, value) in run.get_envs() {
        match value {
            Some(value) => mounted.env(name, value),
            None => mounted.env_remove(name),
        };
    }
    let output = mounted.output().expect("it runs");
    let told = larder_testkit::stderr(&output);
    assert!(output.status.success(), "{told}");
    for name in ["a", "b"] {
        assert!(fs::read(user.home().join(name)).expect("a file") == body);
    }
    assert!(told.contains("the disk is full") && told.contains("larder: 2 requests"), "{told}");
}

#[test]
fn a_forged_package_is_refused_in_each_run_with_both_digests() {
    let digest = "5891b5b522d5df086d0ff0b110fbd9d21bb4fc7163af34d08286a2e846f6be03";
    let page = format!("<a href=\"tiny-1.0-py3-none-any.whl#sha256={digest}\">tiny-1.0-py3-none-any.whl</a>");
    let forgery = vec![b'x'; 200_000];
    let wheel = "/simple/tiny/tiny-1.0-py3-none-any.whl";
    let registry = Shelf::of(
        "localhost",
        &[],
        vec![("/simple/tiny/".into(), page.into()), (wheel.into(), forgery.clone())],
    )
    .registry;
    let user = User::of(&registry);
    let script = format!("curl -sS -o page {0}/simple/tiny/ && curl -sS -o wheel {0}{wheel}", registry.url());
    for count in [1, 2] {
        let run = user.run(&["--host", "localhost"], &["sh", "-c", &script]);
        assert_ne!(run.code(), 0);
        let got = fs::read(user.home().join("wheel")).unwrap_or_default();
        assert!(got.len() < forgery.len(), "the whole forgery has passed");
        assert!(run.told().contains(&format!("{wheel} is refused: the content has the digest sha256:")));
        assert!(run.told().contains(&format!("and not sha256:{digest}")), "{}", run.told());
        assert_eq!(registry.origin.count_of(wheel), count);
    }
}

#[test]
fn an_expired_authority_is_replaced_and_a_wrong_clock_is_told() {
    let registry = Registry::before(origin());
    let user = User::of(&registry);
    let state = user.home().join("state");
    fs::create_dir(&state).expect("made");
    let files = CertificateAuthority::files(&state, "test");
    let make = |days, at| CertificateAuthority::make(&files, &AuthorityTerms { days, only: Vec::new() }, at);
    let command = ["curl", "-sS", &registry.at("/a")];
    make(1, 1_700_000_000).expect("written");
    user.run(&["--host", "localhost"], &command).succeeded();
    // The clock was right when the authority was made, and is in the past now.
    let later = std::time::UNIX_EPOCH.elapsed().expect("a time").as_secs() + 10 * 86_400;
    make(100, later).expect("written");
    let run = user.run(&["--host", "localhost"], &command);
    assert_eq!(run.code(), 1);
    let told = "and the clock of this machine says";
    assert!(
        run.told().contains("the authority is valid from ") && run.told().contains(told),
        "{}",
        run.told()
    );
    assert_eq!(registry.count(), 1);
}

#[test]
fn a_daemon_finds_the_proxy_again_in_the_next_run() {
    let registry = Registry::before(origin());
    let user = User::of(&registry);
    // As a server of Gradle or Bazel, it has its environment and its trusted certificates from the run that started it.
    let daemon = "import os, ssl, sys, time, urllib.request\ncontext = ssl.create_default_context()\nopen('ready', 'w')\n\
        while not os.path.exists('go'): time.sleep(0.01)\n\
        open('got.part', 'wb').write(urllib.request.urlopen(sys.argv[1], context=context).read())\nos.rename('got.part', 'got')";
    fs::write(user.home().join("daemon.py"), daemon).expect("written");
    let start = format!(
        "python3 daemon.py {} >/dev/null 2>&1 & while ! test -e ready; do sleep 0.01; done",
        registry.at("/a")
    );
    let first = user.run(&["--host", "localhost"], &["sh", "-c", &start]).succeeded();
    let second = ["sh", "-c", "touch go; while ! test -e got; do sleep 0.01; done; cat got"];
    let second = user.run(&["--host", "localhost"], &second).succeeded();
    assert_eq!((first.number("requests"), second.number("requests")), (0, 1));
    assert_eq!(second.said(), "/a");
}

#[test]
fn a_proxy_stays_for_a_daemon_and_ends_with_it() {
    let registry = Registry::before(origin());
    let user = User::of(&registry);
    let leave = "sleep 1000 >/dev/null 2>&1 & echo $! $HTTPS_PROXY $SSL_CERT_FILE";
    let run = user.run(&["--host", "localhost"], &["sh", "-c", leave]).succeeded();
    let said = run.said();
    let [daemon, proxy, bundle] = said.split_whitespace().collect::<Vec<_>>()[..] else { panic!("{said}") };
    assert!(
        run.told().contains(&format!("larder: left by this command or an earlier one: sleep ({daemon}); ")),
        "{}",
        run.told()
    );
    let url = registry.at("/a");
    let curl = || output(Command::new("curl").args(["-sS", "--proxy", proxy, "--cacert", bundle, &url]));
    let address = proxy.trim_start_matches("http://");
    eventually("a proxy", || TcpStream::connect(address).ok());
    assert_eq!((curl(), curl(), registry.count()), ("/a".to_owned(), "/a".to_owned(), 1));
    let daemon = daemon.parse().ok().and_then(Pid::from_raw).expect("a number");
    kill_process(daemon, Signal::KILL).expect("it runs");
    eventually("the end of the proxy", || TcpStream::connect(address).is_err().then_some(()));
    eventually("the end of its files", || (!Path::new(bundle).exists()).then_some(()));
}

#[test]
fn a_proxy_that_stays_has_its_daemons_options_and_no_files() {
    let registry = Registry::before(origin());
    let user = User::of(&registry);
    let leave = "mkfifo go; sh -c 'read line <go; exec sleep 1000' >/dev/null 2>&1 3>&- & \
        echo $! $HTTPS_PROXY $SSL_CERT_FILE";
    let said = user.run(&["--host", "localhost"], &["sh", "-c", leave]).succeeded().said();
    let [daemon, proxy, bundle] = said.split_whitespace().collect::<Vec<_>>()[..] else { panic!("{said}") };
    // The next run leaves nothing; the daemon has another name then. Its caller may read from a pipe for as long as somebody may
    // write to it.
    let script = format!("echo >go; until grep -q sleep /proc/{daemon}/comm; do sleep 0.01; done");
    let run = user.command(&["--offline"], &["sh", "-c", &script]);
    let mut shell = Command::new("sh");
    shell.args(["-c", "exec \"$@\" 3>held", "sh", "env"]).args(run.get_args()).current_dir(user.home());
    let shell = user.at_home(shell).output().expect("it runs");
    assert!(shell.status.success(), "{shell:?}");
    let address = proxy.trim_start_matches("http://");
    eventually("a proxy", || TcpStream::connect(address).ok());
    let fetched =
        output(Command::new("curl").args(["-sS", "--proxy", proxy, "--cacert", bundle, &registry.at("/a")]));
    assert_eq!(fetched, "/a");
    let number = fs::read_to_string(user.home().join("cache/larder/0/lingering")).expect("a file");
    let files = fs::read_dir(format!("/proc/{number}/fd")).expect("a process").flatten();
    let held = user.home().join("held");
    assert!(files.filter_map(|file| fs::read_link(file.path()).ok()).all(|file| file != held));
    kill_process(daemon.parse().ok().and_then(Pid::from_raw).expect("a number"), Signal::KILL)
        .expect("it runs");
    eventually("the end of the proxy", || TcpStream::connect(address).is_err().then_some(()));
}
