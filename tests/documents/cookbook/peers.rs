//! The lines that other programs need for tasks: each program accepts them, and they are as many as the tasks state.

use std::collections::BTreeMap;
use std::fs;
use std::process::Command;

use larder_testkit::programs;

use super::AUTHORITY;
use super::lines::sections;

/// Whether the text of a task says what other programs need, as far as they can do the same.
fn names_others(task: usize) -> bool {
    matches!(task, 104..=148 | 158..)
}

/// Programs as the tasks and the file of their lines name them, and how they check a file, in the folder `@`.
const PROGRAMS: [(&str, &str, &[&str]); 4] = [
    ("NGINX", "nginx", &["-t", "-q", "-e", "stderr", "-p", "@", "-c"]),
    ("Varnish", "varnishd", &["-C", "-n", "@/varnish", "-f"]),
    ("HAProxy", "haproxy", &["-c", "-q", "-f"]),
    ("Squid", "squid", &["-k", "parse", "-f"]),
];

/// The lines of a program for a task.
#[derive(Default)]
struct Snippet {
    /// Those outside of the server of NGINX.
    outside: String,
    lines: String,
}

/// Returns the lines of each program, by its name and the task.
fn snippets() -> BTreeMap<(usize, String), Snippet> {
    let mut all: BTreeMap<_, Snippet> = BTreeMap::new();
    for part in include_str!("peers.conf").split("\n# ").skip(1) {
        let (head, lines) = part.split_once('\n').expect("lines");
        let words: Vec<_> = head.split(' ').collect();
        let snippet = all.entry((words[0].parse().expect("a task"), words[1].to_owned())).or_default();
        match words.len() {
            2 => snippet.lines += lines,
            _ => snippet.outside += lines,
        }
    }
    all
}

impl Snippet {
    /// Returns the number of its lines as the page counts them.
    fn count(&self) -> usize {
        let lines = self.outside.lines().chain(self.lines.lines()).map(str::trim);
        let own = lines.filter(|line| !line.is_empty() && *line != "}").count();
        own - if self.has_proxy() { 2 } else { 0 }
    }

    /// Whether they have the location of the proxy in them, which any site has.
    fn has_proxy(&self) -> bool {
        self.lines.contains("location / {")
    }

    /// Returns a config of `program` for a site that caches, with these lines.
    fn config(&self, program: &str) -> String {
        let Self { outside, lines } = self;
        let proxy = if self.has_proxy() { "" } else { "location / { proxy_pass http://127.0.0.1:3000; }" };
        match program {
            "NGINX" => format!(
                "pid pid; events {{}} http {{ access_log off; proxy_cache_path cache keys_zone=c:1m; client_body_temp_path t;\n\
                 proxy_temp_path t; fastcgi_temp_path t; uwsgi_temp_path t; scgi_temp_path t;\n{outside}\n\
                 server {{ listen 127.0.0.1:8080; proxy_cache c;\n{lines}{proxy} }} }}"
            ),
            "Varnish" => {
                format!("vcl 4.1;\nbackend default {{ .host = \"127.0.0.1\"; .port = \"3000\"; }}\n{lines}")
            }
            "HAProxy" => format!(
                "defaults\nmode http\ntimeout connect 1s\ntimeout client 1s\ntimeout server 1s\nbackend site\n\
                 server site 127.0.0.1:3000\nfrontend clients\nbind 127.0.0.1:8080\ndefault_backend site\n{lines}"
            ),
            _ => format!("http_port 127.0.0.1:8080\n{lines}http_access allow all\n"),
        }
    }
}

#[test]
fn tasks_state_the_lines_of_other_programs() {
    let (sections, snippets) = (sections(), snippets());
    for (number, section) in sections.iter().filter(|(number, _)| names_others(**number)) {
        let text = section.split("```toml").next().unwrap_or_default();
        for (name, ..) in PROGRAMS {
            let behind = text.split_once(name).map(|(_, behind)| behind.trim_start());
            let digits = behind.map(|behind| behind.trim_start_matches("takes").trim_start());
            let stated =
                digits.and_then(|text| text.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok());
            let own = snippets.get(&(*number, name.to_lowercase())).map(Snippet::count);
            assert_eq!(stated, own, "task {number}, {name}");
        }
    }
}

#[test]
fn other_programs_accept_their_lines() {
    let folder = tempfile::tempdir().expect("a folder");
    let pair = AUTHORITY.pair("peer", &["site.test"]);
    let [cert, key] = [pair.cert, pair.key].map(|file| fs::read_to_string(file).expect("a file"));
    for (name, text) in [
        ("users.txt", "ann:x\n"),
        ("work.txt", "a.test\n"),
        ("blocked.txt", "a.test\n"),
        ("list.txt", "a\n"),
        ("list.map", "~a 1;\n"),
        ("secret.conf", "proxy_set_header X-Origin-Key secret;\n"),
        ("cert.pem", &cert),
        ("key.pem", &key),
    ] {
        fs::write(folder.path().join(name), text).expect("written");
    }
    let snippets = snippets();
    for (name, program, words) in PROGRAMS {
        // The tests install NGINX alone.
        let Some(path) = programs::find(program) else {
            assert_ne!(name, "NGINX", "it is not installed");
            eprintln!("not tested: {name} is not installed");
            continue;
        };
        for ((number, _), snippet) in snippets.iter().filter(|((_, own), _)| program.starts_with(&**own)) {
            let file = folder.path().join("config");
            fs::write(&file, snippet.config(name)).expect("written");
            let mut command = Command::new(&path);
            command.args(words.iter().map(|word| word.replace('@', &folder.path().to_string_lossy())));
            command.arg(&file).current_dir(folder.path());
            let output = command.output().expect("it runs");
            let said = String::from_utf8_lossy(&output.stderr);
            // Squid accepts a file in spite of some errors; Varnish writes a program that has the word.
            let is_accepted = output.status.success() && (name != "Squid" || !said.contains("ERROR"));
            assert!(is_accepted, "task {number}, {name}:\n{said}");
        }
    }
}
