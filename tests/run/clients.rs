//! Clients that fetch what they are told: the second run makes no request for content, and a tunnel works in each.

use std::process::Command;

use larder_testkit::{not_tested, programs};

use crate::shelf::Shelf;
use crate::{Registry, User, origin};

/// Runs `script` twice, with `$URL` in its environment, and checks what it prints and what it downloads.
fn twice(program: &str, script: &str) {
    if programs::find(program).is_none() {
        return not_tested(program);
    }
    let registry = Registry::before(origin());
    let user = User::of(&registry);
    let url = registry.url();
    let script = script.replace("$URL", &url);
    for hits in [0, 1] {
        let run = user.run(&["--host", "localhost"], &["sh", "-ec", &script]).succeeded();
        assert!(run.said().contains("/package"), "{} {}", run.said(), run.told());
        assert_eq!(run.number("hits"), hits, "{}", run.told());
    }
    assert_eq!(registry.count(), 1);
    // The roots of the system are trusted as before.
    assert!(user.tunnelled("localhost", &script).contains("/package"));
    assert_eq!(registry.count(), 2);
}

#[test]
fn curl() {
    twice("curl", "curl -sS $URL/package");
}

#[test]
fn wget() {
    twice("wget", "wget -qO- $URL/package");
}

#[test]
fn aria2() {
    let options = "-q --ca-certificate=$CURL_CA_BUNDLE --allow-overwrite=true -o got";
    twice("aria2c", &format!("aria2c {options} $URL/package; cat got"));
}

/// [`twice`] for a script of Python that needs `module`. The Python of the system has the modules of its packages.
fn python(module: &str, script: &str) {
    let program = ["/usr/bin/python3", "python3"].into_iter().find(|program| {
        let asked = Command::new(program).args(["-c", &format!("import {module}")]).output();
        asked.is_ok_and(|output| output.status.success())
    });
    match program {
        Some(program) => twice(program, &format!("{program} -c \"import {module}; {script}\"")),
        None => not_tested(&format!("{module} of Python")),
    }
}

#[test]
fn python_urllib() {
    python("urllib.request", "print(urllib.request.urlopen('$URL/package').read().decode())");
}

#[test]
fn python_requests() {
    python("requests", "print(requests.get('$URL/package').text)");
}

#[test]
fn python_httpx() {
    python("httpx", "print(httpx.get('$URL/package').text)");
}

#[test]
fn node_fetch() {
    twice("node", "node -e \"fetch('$URL/package').then(r => r.text()).then(console.log)\"");
}

#[test]
fn node_https() {
    twice("node", "node -e \"require('https').get('$URL/package', r => r.pipe(process.stdout))\"");
}

#[test]
fn java() {
    let program = "import java.net.*; import java.net.http.*; class A { public static void main(String[] a) throws Exception { \
        var c = HttpClient.newBuilder().proxy(ProxySelector.getDefault()).build(); \
        System.out.println(c.send(HttpRequest.newBuilder(URI.create(a[0])).build(), HttpResponse.BodyHandlers.ofString()).body()); } }";
    let script = format!("printf '%s' '{program}' > A.java; java A.java $URL/package");
    twice("java", &script);
}

#[test]
fn git() {
    let registry = Shelf::of("localhost", &[], Vec::new()).registry;
    let user = User::of(&registry);
    let url = format!("{}/repository.git", registry.url());
    // A repository that is not there: the request has come, over https, and its answer is told.
    let run = user.run(&["--host", "localhost"], &["git", "ls-remote", &url]);
    assert_eq!((run.code(), run.number("requests")), (128, 1), "{}", run.told());
    assert!(run.told().contains("not found"), "{}", run.told());
}
