//! Text with placeholders for parts of a request.

use std::borrow::Cow;

use http::HeaderName;

use crate::base::networks::host_of;

/// Text with placeholders in braces, such as `/new/{1}{query}`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Template {
    parts: Vec<Part>,
    /// Whether a query behind a question mark continues the one that has begun.
    continues_query: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Text(String),
    Value(Placeholder),
}

/// A part of the request that replaces a placeholder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Placeholder {
    /// Path and query.
    Uri,
    /// Path and query as the value of one parameter: all but letters, digits and `-._~` are encoded.
    EncodedUri,
    /// The path.
    Path,
    /// The path in lower case.
    LowerPath,
    /// The query with its question mark; empty without a query.
    Query,
    /// The host, with its port if the request contains one.
    Host,
    /// `http` or `https`.
    Scheme,
    /// The client's address.
    Client,
    /// The subject of the client's certificate; empty without one.
    Certificate,
    /// The id of the request.
    Id,
    /// The UNIX time in seconds, with milliseconds.
    Time,
    /// The outcome in the cache, such as `hit`.
    Outcome,
    /// The origin that has answered; empty for hits.
    Origin,
    /// The time that origins took until their answers began, in milliseconds; 0 for hits.
    OriginTime,
    /// The text that the rule's map has for the path.
    Map,
    /// The value of a request field.
    Field(HeaderName),
    /// The value of the first parameter of this name, as it is in the query.
    Parameter(Box<str>),
    /// The value of the first cookie of this name.
    Cookie(Box<str>),
    /// The star or group of this number, counted from 1.
    Star(usize),
}

static PLACEHOLDERS: [(&str, Placeholder); 15] = [
    ("uri", Placeholder::Uri),
    ("uri:encoded", Placeholder::EncodedUri),
    ("path", Placeholder::Path),
    ("path:lower", Placeholder::LowerPath),
    ("query", Placeholder::Query),
    ("host", Placeholder::Host),
    ("scheme", Placeholder::Scheme),
    ("client", Placeholder::Client),
    ("client_cert", Placeholder::Certificate),
    ("id", Placeholder::Id),
    ("time", Placeholder::Time),
    ("outcome", Placeholder::Outcome),
    ("origin", Placeholder::Origin),
    ("origin_time", Placeholder::OriginTime),
    ("map", Placeholder::Map),
];

impl Template {
    /// Parses text in which all braces are those of placeholders.
    ///
    /// # Errors
    /// The description of an invalid placeholder, in one line.
    pub fn parse(text: &str) -> Result<Self, String> {
        let template = Self::of_value(text);
        let braces = template.texts().find_map(|text| text.split_once('{'));
        let name = braces.map(|(_, behind)| behind.split_once('}').map(|(name, _)| name));
        match name {
            None => Ok(template),
            Some(Some(name)) => Err(unknown(name)),
            Some(None) => Err(format!("'{}': a '{{' has no '}}'", text.escape_debug())),
        }
    }

    /// Parses the value of a field. Braces without the name of a placeholder stay as they are: values such as JSON have
    /// braces of their own.
    pub fn of_value(text: &str) -> Self {
        let (mut parts, mut own, mut rest) = (Vec::new(), String::new(), text);
        while let Some((before, after)) = rest.split_once('{') {
            own.push_str(before);
            let known = after.split_once('}').and_then(|(name, behind)| Some((placeholder(name)?, behind)));
            match known {
                Some((placeholder, behind)) => {
                    parts
                        .extend(Some(std::mem::take(&mut own)).filter(|own| !own.is_empty()).map(Part::Text));
                    parts.push(Part::Value(placeholder));
                    rest = behind;
                }
                None => {
                    own.push('{');
                    rest = after;
                }
            }
        }
        own.push_str(rest);
        parts.extend(Some(own).filter(|own| !own.is_empty()).map(Part::Text));
        Self { parts, continues_query: false }
    }

    /// Parses the path of requests to origins: behind a question mark, a query continues the one that has begun.
    ///
    /// # Errors
    /// The same as for [`parse`](Self::parse).
    pub fn parse_path(text: &str) -> Result<Self, String> {
        Ok(Self { continues_query: true, ..Self::parse(text)? })
    }

    /// Parses the URL of a redirect: a query continues one that has begun, unless it is that of a path in that query.
    ///
    /// # Errors
    /// The same as for [`parse`](Self::parse).
    pub fn parse_url(text: &str) -> Result<Self, String> {
        let before = text.split("{query}").next().and_then(|before| before.split_once('?'));
        let has_path =
            before.is_some_and(|(_, query)| ["/", "{uri}", "{path"].iter().any(|own| query.contains(own)));
        Ok(Self { continues_query: !has_path, ..Self::parse(text)? })
    }

    /// Returns the text with `value` in the place of each placeholder.
    pub fn fill<'v>(&self, value: impl Fn(&Placeholder) -> Cow<'v, str>) -> String {
        let mut text = String::new();
        for (at, part) in self.parts.iter().enumerate() {
            match part {
                Part::Text(own) => text.push_str(own),
                // A port behind it replaces that of the request.
                Part::Value(Placeholder::Host) if matches!(self.parts.get(at + 1), Some(Part::Text(next)) if is_port(next)) =>
                {
                    text.push_str(host_of(&value(&Placeholder::Host)));
                }
                Part::Value(Placeholder::Query) if self.continues_query && text.contains('?') => {
                    text.push_str(&value(&Placeholder::Query).replacen('?', "&", 1));
                }
                Part::Value(placeholder) => text.push_str(&value(placeholder)),
            }
        }
        // The question mark stands for the end of the path here, with no query behind it.
        let has_no_query = |part: &Part| matches!(part, Part::Text(own) if own.ends_with('?'));
        if self.continues_query && self.parts.last().is_some_and(has_no_query) {
            text.pop();
        }
        text
    }

    /// Iterates over its placeholders.
    pub fn placeholders(&self) -> impl Iterator<Item = &Placeholder> {
        self.parts.iter().filter_map(|part| match part {
            Part::Text(_) => None,
            Part::Value(placeholder) => Some(placeholder),
        })
    }

    /// Whether the text contains a question mark or a placeholder for the query.
    pub fn is_about_query(&self) -> bool {
        self.texts().any(|text| text.contains('?'))
            || self
                .placeholders()
                .any(|own| matches!(own, Placeholder::Uri | Placeholder::EncodedUri | Placeholder::Query))
    }

    /// Whether a placeholder stands for a star of the rule's path.
    pub fn has_stars(&self) -> bool {
        self.placeholders().any(|own| matches!(own, Placeholder::Star(_)))
    }

    /// Whether the text begins with a star of the rule's path: it is a path then, whatever the star matches.
    pub fn begins_with_star(&self) -> bool {
        matches!(self.parts.first(), Some(Part::Value(Placeholder::Star(_))))
    }

    /// Whether a star stands in the host of the URL that the text is.
    pub fn has_star_in_host(&self) -> bool {
        let ends_host = |part: &&Part| match part {
            Part::Text(text) => text.rsplit("://").next().is_some_and(|host| host.contains(['/', '?', '#'])),
            Part::Value(own) => matches!(own, Placeholder::Uri | Placeholder::Path | Placeholder::LowerPath),
        };
        let mut host = self.parts.iter().take_while(|part| !ends_host(part));
        !self.begins_with_star() && host.any(|part| matches!(part, Part::Value(Placeholder::Star(_))))
    }

    /// Whether a placeholder stands for a text of the rule's map.
    pub fn has_map(&self) -> bool {
        self.placeholders().any(|own| *own == Placeholder::Map)
    }

    /// Whether the text begins with that placeholder.
    pub fn begins_with_map(&self) -> bool {
        self.parts.first() == Some(&Part::Value(Placeholder::Map))
    }

    /// Returns the first word in braces that is no placeholder, although it looks like one.
    pub fn unknown_word(&self) -> Option<&str> {
        let is_word = |name: &&str| {
            !name.is_empty()
                && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_:.-".contains(&byte))
        };
        let mut words = self.texts().flat_map(|text| text.split('{').skip(1));
        words.find_map(|behind| behind.split_once('}').map(|(name, _)| name).filter(is_word))
    }

    /// Returns the first part of the text that stands for a part of the request in other programs, as `$1` does.
    pub fn foreign_word(&self) -> Option<&str> {
        self.texts().find_map(|text| {
            let at = text.find(['$', '\\'])?;
            let behind = &text[at + 1..];
            let end = behind.find(|next: char| !next.is_ascii_alphanumeric() && next != '_');
            let end = end.unwrap_or(behind.len());
            (end > 0).then(|| &text[at..=at + end])
        })
    }

    fn texts(&self) -> impl Iterator<Item = &str> {
        self.parts.iter().filter_map(|part| match part {
            Part::Text(text) => Some(&**text),
            Part::Value(_) => None,
        })
    }
}

/// Whether the text begins with a port, as in `:8443/`.
fn is_port(text: &str) -> bool {
    text.strip_prefix(':').is_some_and(|rest| rest.starts_with(|first: char| first.is_ascii_digit()))
}

fn placeholder(name: &str) -> Option<Placeholder> {
    let known =
        PLACEHOLDERS.iter().find(|(known, _)| *known == name).map(|(_, placeholder)| placeholder.clone());
    let star = || name.parse().ok().filter(|number| (1..=9).contains(number)).map(Placeholder::Star);
    let field = || HeaderName::try_from(name.strip_prefix("field:")?).ok().map(Placeholder::Field);
    let is_name = |name: &&str| !name.is_empty() && !name.contains(|byte: char| !byte.is_ascii_graphic());
    let own = |kind: &str| name.strip_prefix(kind).filter(is_name).map(Box::from);
    let parameter = || own("query:").map(Placeholder::Parameter);
    let cookie = || own("cookie:").map(Placeholder::Cookie);
    known.or_else(star).or_else(field).or_else(parameter).or_else(cookie)
}

fn unknown(name: &str) -> String {
    format!("unknown placeholder '{{{}}}'; known: {}", name.escape_debug(), Placeholder::all())
}

impl Placeholder {
    /// Whether it stands for the same in all requests for a URL.
    pub fn is_of_resource(&self) -> bool {
        !self.is_of_reply()
            && !matches!(
                self,
                Self::Client | Self::Certificate | Self::Id | Self::Time | Self::Field(_) | Self::Cookie(_)
            )
    }

    /// Whether it stands for something that is known only when there is a reply.
    pub fn is_of_reply(&self) -> bool {
        matches!(self, Self::Outcome | Self::Origin | Self::OriginTime)
    }

    /// Returns all placeholders as they are written, for errors.
    pub fn all() -> String {
        let names = PLACEHOLDERS.iter().map(|(name, _)| format!("{{{name}}} "));
        names.chain(["{query:NAME} {field:NAME} {cookie:NAME} {1} to {9}".to_owned()]).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placeholders_are_filled() {
        let template = Template::parse("https://www.{host}{1}?a={query}").unwrap();
        let value = |placeholder: &Placeholder| match placeholder {
            Placeholder::Host => "a.example".into(),
            Placeholder::Star(1) => "/x".into(),
            _ => "-".into(),
        };
        assert_eq!(template.fill(value), "https://www.a.example/x?a=-");
        assert!(template.has_stars() && template.is_about_query());
        for (text, filled) in [
            ("https://{host}:8443{uri}", "https://a.example:8443/"),
            ("https://{host}{uri}", "https://a.example:8080/"),
            ("{host}: a", "a.example:8080: a"),
        ] {
            let value =
                |own: &Placeholder| if *own == Placeholder::Host { "a.example:8080" } else { "/" }.into();
            assert_eq!(Template::of_value(text).fill(value), filled);
        }
        let query = |_: &Placeholder| "?b=?".into();
        let filled =
            ["/x?a=1{query}", "/x{query}"].map(|text| Template::parse_path(text).unwrap().fill(query));
        assert_eq!(filled, ["/x?a=1&b=?", "/x?b=?"]);
        for (text, url) in [
            ("/new?from=old{query}", "/new?from=old&b=?"),
            ("https://a.example/new{query}", "https://a.example/new?b=?"),
            // The URL of a redirect may have a whole URL in its query.
            ("/login?next=/x{query}", "/login?next=/x?b=?"),
            ("/login?next={path}{query}", "/login?next=?b=??b=?"),
        ] {
            assert_eq!(Template::parse_url(text).unwrap().fill(query), url, "{text}");
        }
        let known = "{uri} {uri:encoded} {path} {path:lower} {query} {host} {scheme} {client} {client_cert} {id} {time} {outcome} {origin} {origin_time} {map} {query:NAME} {field:NAME} {cookie:NAME} {1} to {9}";
        for (text, error) in [
            ("{ur}", format!("unknown placeholder '{{ur}}'; known: {known}")),
            ("{0}", format!("unknown placeholder '{{0}}'; known: {known}")),
            ("/a{uri", "'/a{uri': a '{' has no '}'".to_owned()),
        ] {
            assert_eq!(Template::parse(text), Err(error));
        }
    }

    #[test]
    fn braces_of_values_stay_unless_they_name_a_placeholder() {
        for (text, filled, unknown) in [
            ("{client}", "<Client>", None),
            ("{\"group\": \"{host}\"}", "{\"group\": \"<Host>\"}", None),
            ("{clinet} {{id}}", "{clinet} {<Id>}", Some("clinet")),
            ("{", "{", None),
            ("{ a } {}", "{ a } {}", None),
            ("{field:X-A} {field:a b}", "<Field(\"x-a\")> {field:a b}", None),
            ("{query:id} {query:}", "<Parameter(\"id\")> {query:}", Some("query:")),
            ("{cookie:a.b} {cookie:a b}", "<Cookie(\"a.b\")> {cookie:a b}", None),
        ] {
            let template = Template::of_value(text);
            assert_eq!(template.fill(|own| format!("<{own:?}>").into()), filled, "{text}");
            assert_eq!(template.unknown_word(), unknown, "{text}");
        }
    }
}
