//! `GET /why`: the cache's decision on a request, and the reasons ([`crate::features::why`]).

use std::sync::Arc;

use http::{HeaderName, HeaderValue, Method};

use super::query::Query;
use super::{Call, Outcome, json};
use crate::base::settings::Role;
use crate::features::inventory;
use crate::features::why;
use crate::features::why_query::WhyQuery;

/// Answers a question.
pub(super) async fn answer(call: Call<'_>) -> Outcome {
    let question = read(&call.query)?;
    let shared = Arc::clone(&call.state.shared);
    let explanation = tokio::task::spawn_blocking(move || why::explain(&shared, &question)).await??;
    Ok(json(&explanation))
}

fn read(query: &Query<'_>) -> Result<WhyQuery, String> {
    let url = query.get("url").ok_or("missing parameter: url (percent-encoded)")?;
    let method =
        query.parse("method", "a method, such as GET", |text| Method::from_bytes(text.as_bytes()).ok())?;
    Ok(WhyQuery {
        url: inventory::encoded(url).into_owned(),
        method: method.unwrap_or_default(),
        fields: query.all("header").map(field).collect::<Result<_, _>>()?,
        role: query.parse("role", "forward or reverse", Role::of_name)?,
    })
}

/// Parses a field line.
fn field(line: &str) -> Result<(HeaderName, HeaderValue), String> {
    let parts = line.split_once(':').and_then(|(name, value)| {
        let name = HeaderName::from_bytes(name.trim_end().as_bytes()).ok()?;
        Some((name, HeaderValue::from_str(value.trim()).ok()?))
    });
    parts.ok_or_else(|| format!("header '{}': expected a name, a colon and a value", line.escape_debug()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn questions_are_read_and_wrong_ones_explained() {
        let question =
            read(&Query::new("url=http%3A%2F%2Fa%2F&method=HEAD&header=A:+b&header=c%3A&role=forward"));
        let WhyQuery { url, method, fields, role } = question.unwrap();
        assert_eq!((url.as_str(), method, role), ("http://a/", Method::HEAD, Some(Role::Forward)));
        let lines: Vec<_> = fields.iter().map(|(name, value)| format!("{name}={value:?}")).collect();
        assert_eq!(lines, ["a=\"b\"", "c=\"\""]);
        for (query, expected) in [
            ("", "missing parameter: url (percent-encoded)"),
            ("url=a&header=b", "header 'b': expected a name, a colon and a value"),
            ("url=a&header=b:x%0D%0Ac:d", "header 'b:x\\r\\nc:d': expected a name, a colon and a value"),
            ("url=a&method=G+T", "method 'G T': expected a method, such as GET"),
            ("url=a&role=x", "role 'x': expected forward or reverse"),
        ] {
            assert_eq!(read(&Query::new(query)).err().as_deref(), Some(expected), "{query}");
        }
    }
}
