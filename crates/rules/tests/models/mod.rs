//! Models of how servers and languages read paths, queries and cookies, written from their sources and documents.

pub(crate) mod checks;

use std::collections::BTreeSet;

/// Names or paths.
pub(crate) type Found = BTreeSet<Vec<u8>>;

fn decoded(text: &[u8], plus: bool) -> Vec<u8> {
    let hex = |byte: u8| (byte as char).to_digit(16);
    let (mut out, mut at) = (Vec::new(), 0);
    while at < text.len() {
        let digits = text.get(at + 1).copied().and_then(hex).zip(text.get(at + 2).copied().and_then(hex));
        match (text[at], digits) {
            (b'%', Some((high, low))) => {
                out.push((high * 16 + low) as u8);
                at += 2;
            }
            (b'+', _) if plus => out.push(b' '),
            (byte, _) => out.push(byte),
        }
        at += 1;
    }
    out
}

/// Returns `path` with repeated slashes merged and dot segments resolved; `None` if it leads out of the root.
fn resolved(path: &[u8]) -> Option<Vec<u8>> {
    let (mut names, mut is_folder) = (Vec::new(), true);
    for name in path.split(|byte| *byte == b'/').skip(1) {
        is_folder = matches!(name, b"" | b"." | b"..");
        match name {
            b"" | b"." => {}
            b".." => _ = names.pop()?,
            name => names.push(name),
        }
    }
    let mut out: Vec<u8> = names.iter().flat_map(|name| [b"/", *name].concat()).collect();
    if is_folder {
        out.push(b'/');
    }
    Some(out)
}

/// Returns the paths of files or handlers that servers may choose for `path`, a path as it was sent.
pub(crate) fn paths(path: &str) -> Found {
    let raw = path.as_bytes();
    let plain = decoded(raw, false);
    let without_parameters = |path: &[u8]| {
        let names = path
            .split(|byte| *byte == b'/')
            .map(|name| name.split(|byte| *byte == b';').next().unwrap_or_default());
        names.collect::<Vec<_>>().join(&b'/')
    };
    let mut found = Found::new();
    // NGINX refuses null bytes; WSGI servers in Python do not resolve dots, which their files systems do.
    found.extend(resolved(&plain));
    // IIS takes backslashes for slashes.
    let slashed: Vec<u8> = plain.iter().map(|byte| if *byte == b'\\' { b'/' } else { *byte }).collect();
    found.extend(resolved(&slashed));
    // PHP behind these: the first script of the path gets the rest as PATH_INFO.
    found.extend(found.iter().filter_map(|path| script(path)).collect::<Vec<_>>());
    // Tomcat removes parameters before it decodes, Spring afterwards.
    found.extend(resolved(&decoded(&without_parameters(raw), false)));
    found.extend(resolved(&without_parameters(&plain)));
    // Servers that pass a decoded path on end it at `?` or `#`.
    let is_end = |byte: &u8| matches!(byte, b'?' | b'#');
    found.extend(plain.split(is_end).next().and_then(resolved));
    found
}

/// Returns `path` up to its first script, if more follows; `None` for a script without a name.
fn script(path: &[u8]) -> Option<Vec<u8>> {
    let at = path.windows(5).position(|part| part == b".php/")?;
    (!matches!(path[at - 1], b'/' | b'\\')).then(|| path[..at + 4].to_vec())
}

/// Returns the name of a variable of PHP (`php_register_variable_ex`); `None` if it is dropped.
fn php_name(name: &[u8]) -> Option<Vec<u8>> {
    let name = name.split(|byte| *byte == 0).next()?;
    let start = name.iter().position(|byte| *byte != b' ')?;
    let mut name = name[start..].to_vec();
    for at in 0..name.len() {
        match name[at] {
            b' ' | b'.' => name[at] = b'_',
            b'[' if at > 0 && name[at..].contains(&b']') => {
                name.truncate(at);
                break;
            }
            b'[' => {
                name[at] = b'_';
                break;
            }
            _ => {}
        }
    }
    Some(name)
}

fn name_of(pair: &[u8]) -> &[u8] {
    pair.split(|byte| *byte == b'=').next().unwrap_or_default()
}

/// Returns the names of the parameters that languages may find in `query`.
pub(crate) fn parameters(query: &str) -> Found {
    let split = |separators: &'static [u8]| query.as_bytes().split(move |byte| separators.contains(byte));
    let php = split(b"&").filter_map(|pair| php_name(&decoded(name_of(pair), true)));
    // Python before 3.9.2 and Rack before 3 also split at semicolons.
    let python = split(b"&").chain(split(b"&;")).map(|pair| decoded(name_of(pair), true));
    php.chain(python).filter(|name| !name.is_empty()).collect()
}

/// Returns the names of the cookies that languages may find in `line`.
pub(crate) fn cookies(line: &str) -> Found {
    let split = |separators: &'static [u8]| line.as_bytes().split(move |byte| separators.contains(byte));
    let php = split(b";").map(|pair| name_of(pair).trim_ascii_start());
    // Versions before 7.4.11 decode names.
    let php = php.flat_map(|name| [php_name(name), php_name(&decoded(name, true))]).flatten();
    let django_and_node = split(b";").map(|pair| name_of(pair).trim_ascii().to_vec());
    let rack = split(b";,")
        .filter(|pair| pair.contains(&b'='))
        .map(|pair| decoded(name_of(pair).trim_ascii(), true));
    php.chain(django_and_node)
        .chain(rack)
        .chain(simple_cookies(line))
        .filter(|name| !name.is_empty())
        .collect()
}

/// Returns the names that `http.cookies` of Python finds.
fn simple_cookies(line: &str) -> Vec<Vec<u8>> {
    let is_legal = |byte: &u8| byte.is_ascii_alphanumeric() || b"!#%&'~_`><@,:/$*+-.^|)(?}{=".contains(byte);
    let blanks = |rest: &[u8]| rest.len() - rest.trim_ascii_start().len();
    // The length of the end of a cookie.
    let end = |rest: &[u8]| match rest.trim_ascii_start().first() {
        None => Some(rest.len()),
        Some(b';') => Some(blanks(rest) + 1),
        Some(_) => Some(blanks(rest)).filter(|blanks| *blanks > 0),
    };
    let value = |rest: &[u8]| {
        let start = blanks(rest) + 1 + blanks(rest.trim_ascii_start().strip_prefix(b"=")?);
        let text = &rest[start..];
        let quoted = text.strip_prefix(b"\"").and_then(|text| text.iter().position(|byte| *byte == b'"'));
        let is_value = |byte: &u8| is_legal(byte) || matches!(byte, b'[' | b']');
        let length =
            quoted.map_or_else(|| text.iter().take_while(|byte| is_value(byte)).count(), |at| at + 2);
        Some(start + length + end(&text[length..])?)
    };
    let (mut rest, mut found) = (line.as_bytes().trim_ascii_start(), Vec::new());
    while !rest.is_empty() {
        let lengths = 1..=rest.iter().take_while(|byte| is_legal(byte)).count();
        let ends =
            |length: usize| Some((length, length + value(&rest[length..]).or_else(|| end(&rest[length..]))?));
        let Some((length, used)) = lengths.into_iter().find_map(ends) else { break };
        // Names without values are not cookies.
        if rest[length..used].contains(&b'=') {
            found.push(rest[..length].to_vec());
        }
        rest = rest[used..].trim_ascii_start();
    }
    found
}
