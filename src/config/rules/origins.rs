//! Rules that send requests to other origins, or to other paths.

use larder_proxy::settings::{Effects, Origin, Template};
use toml::de::DeValue;

use super::values::each;
use crate::config::draft::rule::RuleDraft;
use crate::config::lists::string;
use crate::config::places;

/// Parses a URL, or a list of URLs.
pub(super) fn origins(value: &DeValue<'_>) -> Result<Vec<Origin>, String> {
    let origins = each(value, places::origin)?;
    if origins.is_empty() { Err("expected at least one URL".to_owned()) } else { Ok(origins) }
}

/// Parses a template such as `"/app{path}"`.
pub(super) fn rewrite(value: &DeValue<'_>) -> Result<Template, String> {
    let text = string(value)?;
    let begins = ["/", "{path}", "{path:lower}", "{uri}"].iter().any(|start| text.starts_with(start));
    let is_path = |byte: u8| byte.is_ascii_graphic() && !matches!(byte, b'#' | b'\\');
    if !begins || !text.bytes().all(is_path) {
        return Err(format!(
            "'{}' is not a path: begin it with '/', {{path}} or {{uri}}",
            text.escape_debug()
        ));
    }
    Template::parse(&text)
}

/// Checks the origins and paths to which a rule, of a site or of the forward proxy, sends requests.
pub(super) fn check(draft: &RuleDraft, effects: &Effects, of_site: bool) -> Result<(), String> {
    if !effects.redirect_to_origins() {
        return Ok(());
    }
    if !of_site {
        return Err("origin, rewrite and host are for rules of a [[site]]: the forward proxy sends each request to the origin that it names".to_owned());
    }
    if !draft.conditions.are_about_resource() {
        return Err("origin, rewrite and host hold for all requests of a path, since a stored response answers all of them: match only path, extension, host and scheme".to_owned());
    }
    let mut placeholders = effects.rewrite.iter().flat_map(Template::placeholders);
    match placeholders.find(|own| !own.is_of_resource()) {
        Some(_) => {
            Err("rewrite: {client}, {id}, {outcome} and fields differ among requests that share a stored response"
                .to_owned())
        }
        None => Ok(()),
    }
}
