//! The reference and the example file, rendered from the table of keys, so that both agree with the program. `larder man`
//! renders the same chapters as a manual page.

use super::draft::{DiskDraft, Draft, SiteDraft};
use larder_proxy::settings::CertificateFiles;

use super::draft::acme;
use super::keys::{ACME, CACHING, DISK_KEYS, Key, SECTIONS, SITE, TLS_KEYS, TOP};
use super::rules::{EDITS, MATCH, RULE, RuleKey};

/// The values in the example file for keys whose default is empty.
const EXAMPLES: &[(&str, &str)] = &[
    ("hosts", "[\"docs.example\", \"*.docs.example\"]"),
    ("origin", "\"http://127.0.0.1:3000\""),
    ("path", "\"/var/cache/larder\""),
    ("cert", "\"/etc/larder/docs.example.pem\""),
    ("key", "\"/etc/larder/docs.example.key\""),
];

/// The first paragraphs of the reference, in Markdown.
pub(crate) const INTRODUCTION: &str = "\
`larder serve --config larder.toml` reads a TOML file; `larder check --config larder.toml` only validates it. Flags
override the file. All keys are optional, except those of `[[tls]]`, `[[disk]]` and `[[site]]` that are marked as required. An unknown key is an error.

Sizes are a number and a unit (`B` `KiB` `MiB` `GiB` `TiB`) or a plain number of bytes. `4G` is 4 GiB, `64MB` is 64,000,000 bytes. Durations
are a number and a unit (`ms` `s` `m` `h` `d`). A list with one element needs no brackets.

A relative path, also in `sqlite:` URLs and in flags, begins in the directory in which `larder` was started, not in that of the config file.
Only those of `include` begin in the directory of the file that includes.

`${NAME}` in a string is the value of this variable of the environment; `$${` stands for `${`. Where the table says `\"@FILE\"`, the value can be
in a file, as in `admin_token = \"@${CREDENTIALS_DIRECTORY}/admin\"` with systemd's `LoadCredential=admin:/etc/larder/admin`.

`SIGHUP` reads the file again. Everything applies at once except `threads`, `admin`, `advise`, `[stats]`, `[cluster]`, `[trace]`, the listeners,
the capacity of the memory and the list of disk directories, which need a restart. A file with an error changes nothing. A
new policy takes over the stored responses.

A policy is a name with optional parameters, as in `s3fifo:small=0.2`. An admission filter before it decides which responses
are stored, as in `tinylfu+gdsf` or `size:max=1MiB+lru`. `larder simulate --list` lists them all.
";

const CERTIFICATES: &str = "Certificates of the listeners for TLS: one table for each. A client gets the certificate for the name in its handshake, or \
     else the first (docs/tls.md).";
const DISKS: &str = "The disk tier: one table for each directory. Responses survive restarts.";
const NONE: &str = "None by default: remove the leading # signs to add one.";
const SITES: &str = "Sites of the reverse proxy: one table for each. If several sites match a request, the one with the longest path serves it; of equally long paths, the first.";
const AUTHORITY: &str = "How a site gets its certificates by ACME, as in `acme = { contact = \"mailto:admin@docs.example\", accept_terms = true }` \
     (docs/tls.md).";

const RULES: &str = "Rules for parts of the requests of the site above, or of the forward proxy, in the order in which they apply: a later \
     one replaces the effects of an earlier one (docs/rules.md). All conditions of `match` have to hold; `match.not` takes the same keys, \
     which must not hold together, or a list of such tables, none of which may hold. A `[[rule]]` is for all sites, before their own. `request` changes the request, `response` the origin's answer before it is stored, `reply` each reply.";
const COLUMNS: &str = "| key | values | default | meaning |\n|---|---|---|---|\n";
const RULE_COLUMNS: &str = "| key | values | meaning |\n|---|---|---|\n";

/// A table of the file, for people: its heading in Markdown, its meaning, and its keys.
pub(crate) struct Chapter {
    pub(crate) title: String,
    pub(crate) about: &'static str,
    pub(crate) keys: Vec<KeyText>,
}

/// A key in words.
pub(crate) struct KeyText {
    pub(crate) name: String,
    pub(crate) values: String,
    /// Its default in TOML, or `None` for the keys of rules, which have none.
    pub(crate) default: Option<String>,
    pub(crate) about: &'static str,
}

/// Returns all tables of the file, in the order of the reference.
pub(crate) fn chapters() -> Vec<Chapter> {
    let chapter = |title: &str, about, keys| Chapter { title: title.to_owned(), about, keys };
    let defaults = Draft::default();
    let mut chapters = vec![chapter("Top level", "The process.", rows(TOP, &defaults))];
    for section in SECTIONS {
        let mut keys = rows(section.keys, &defaults);
        if section.name == "forward" {
            keys.extend(rows(CACHING, &defaults.values.forward.rules));
        }
        chapters.push(chapter(&format!("`[{}]`", section.name), section.about, keys));
    }
    let site = SiteDraft::default();
    let of_site = rows(SITE, &site).into_iter().chain(rows(CACHING, &site.values.rules)).collect();
    let edits = ["request.", "response.", "reply."].map(|table| rule_rows(table, EDITS));
    let rule = [rule_rows("", RULE), rule_rows("match.", MATCH)].into_iter().chain(edits).flatten().collect();
    chapters.extend([
        chapter("`[[tls]]`", CERTIFICATES, rows(TLS_KEYS, &CertificateFiles::default())),
        chapter("`[[disk]]`", DISKS, rows(DISK_KEYS, &DiskDraft::default())),
        chapter("`[[site]]`", SITES, of_site),
        chapter("`acme` of a `[[site]]`", AUTHORITY, rows(ACME, &acme::Draft::default())),
        chapter("`[[site.rule]]`, `[[forward.rule]]`, `[[rule]]`", RULES, rule),
    ]);
    chapters
}

fn rows<T>(keys: &[Key<T>], defaults: &T) -> Vec<KeyText> {
    let text = |key: &Key<T>| KeyText {
        name: key.name.to_owned(),
        values: (key.kind)(),
        default: Some((key.show)(defaults)),
        about: key.about,
    };
    keys.iter().map(text).collect()
}

fn rule_rows<T>(table: &str, keys: &[RuleKey<T>]) -> Vec<KeyText> {
    let text = |key: &RuleKey<T>| KeyText {
        name: format!("{table}{}", key.name),
        values: key.values.to_owned(),
        default: None,
        about: key.about,
    };
    keys.iter().map(text).collect()
}

impl KeyText {
    /// Whether the file has to contain this key.
    pub(crate) fn is_required(&self) -> bool {
        match self.default.as_deref() {
            Some("\"\"") => true,
            Some("[]") => self.name == "origin",
            _ => false,
        }
    }
}

/// Renders the reference of every key in Markdown: `docs/config.md`.
pub(crate) fn reference() -> String {
    let mut page = format!("# The config file\n\n{INTRODUCTION}");
    for Chapter { title, about, keys } in chapters() {
        let has_defaults = keys.iter().any(|key| key.default.is_some());
        let columns = if has_defaults { COLUMNS } else { RULE_COLUMNS };
        page += &format!("\n## {title}\n\n{about}\n\n{columns}");
        for key in &keys {
            let default = match &key.default {
                _ if key.is_required() => "required | ".to_owned(),
                Some(default) => format!("`{default}` | "),
                None => String::new(),
            };
            page += &format!("| `{}` | {} | {default}{} |\n", key.name, key.values, key.about);
        }
    }
    page
}

/// Renders a file with every default: `larder.example.toml`.
pub(crate) fn example() -> String {
    let mut file = "# Every key with its default. Keep what you change, and delete the rest.\n".to_owned();
    let defaults = Draft::default();
    lines(&mut file, "", TOP, &defaults);
    for section in SECTIONS {
        file += &format!("\n# {}\n[{}]\n", section.about, section.name);
        lines(&mut file, "", section.keys, &defaults);
        if section.name == "forward" {
            lines(&mut file, "", CACHING, &defaults.values.forward.rules);
        }
    }
    file += &format!("\n# {CERTIFICATES}\n# {NONE}\n#[[tls]]\n");
    lines(&mut file, "#", TLS_KEYS, &CertificateFiles::default());
    file += &format!("\n# {DISKS}\n# {NONE}\n#[[disk]]\n");
    lines(&mut file, "#", DISK_KEYS, &DiskDraft::default());
    let site = SiteDraft::default();
    file += &format!("\n# {SITES}\n# {NONE}\n#[[site]]\n");
    lines(&mut file, "#", SITE, &site);
    lines(&mut file, "#", CACHING, &site.values.rules);
    file
}

/// Adds a line for each key, with its meaning above it; `mark` comments the line out.
fn lines<T>(file: &mut String, mark: &str, keys: &[Key<T>], defaults: &T) {
    for key in keys {
        let default = (key.show)(defaults);
        let is_nothing = matches!(default.as_str(), "\"\"" | "[]");
        // Only lines that are commented out may have an effect.
        let is_example = is_nothing && !mark.is_empty();
        let example = EXAMPLES.iter().find(|(name, _)| is_example && *name == key.name);
        let value = example.map_or(default.as_str(), |(_, value)| value);
        *file += &format!("# {}\n{mark}{} = {value}\n", key.about, key.name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::flags::Flags;
    use crate::config::{load, parse};

    const ROOT: &str = env!("CARGO_MANIFEST_DIR");

    #[test]
    fn the_files_in_the_tree_are_in_step_with_the_table() {
        let table = [
            ("docs/config.md", reference(), "larder check --reference"),
            ("docs/metrics.md", larder_server::metrics_reference(), "larder check --reference metrics"),
            ("larder.example.toml", example(), "larder check --example"),
        ];
        for (name, expected, command) in table {
            let written = std::fs::read_to_string(format!("{ROOT}/{name}")).unwrap_or_default();
            assert!(written == expected, "{name} is out of date: run `{command} > {name}`");
        }
    }

    #[test]
    fn the_example_says_every_default() {
        let by_example = parse("larder.example.toml", &example(), &Flags::default());
        let by_nothing = load(None, &Flags::default());
        assert_eq!(format!("{by_example:?}"), format!("{by_nothing:?}"));
        assert!(by_example.is_ok());
    }

    #[test]
    fn the_example_site_works_once_its_signs_are_taken_away() {
        let lines = example()
            .lines()
            .map(|line| match line.strip_prefix('#') {
                Some(code) if !code.starts_with(' ') => format!("{code}\n"),
                _ => format!("{line}\n"),
            })
            .collect::<String>();
        let settings = parse("larder.example.toml", &lines, &Flags::default()).expect("valid");
        let site = &settings.sites[0];
        assert_eq!((site.name.as_str(), site.hosts.len(), site.origins.len()), ("docs.example", 2, 1));
        assert_eq!(format!("{:?}", site.rules), format!("{:?}", SiteDraft::default().values.rules));
    }
}
