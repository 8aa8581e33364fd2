//! `larder purge`: lets a running larder forget what it has of a URL.

use serde_json::Value;

use crate::remote::Remote;
use crate::units::{about_count, about_size};
use crate::watch_args::Purge;
use crate::words::printable;
use crate::{Failure, say};

/// Forgets, and says how much that was.
pub(crate) fn run(purge: &Purge) -> Result<(), Failure> {
    let remote = Remote::new(&purge.listener).map_err(Failure::Failed)?;
    for url in &purge.urls {
        let purged: Value = remote.post("purge", &[("url", url.clone())])?;
        say(&if purge.json { purged.to_string() } else { sentence(&purged) });
    }
    Ok(())
}

fn sentence(purged: &Value) -> String {
    let url = printable(purged["url"].as_str().unwrap_or_default());
    let number = |name: &str| purged[name].as_u64().unwrap_or_default();
    match number("objects") {
        0 => format!("{url}: nothing was stored"),
        1 => format!("{url}: 1 object forgotten, {}", about_size(number("bytes"))),
        many => format!("{url}: {} objects forgotten, {}", about_count(many), about_size(number("bytes"))),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_sentence_says_what_is_gone() {
        for (objects, expected) in [
            (0, "http://a/\\n: nothing was stored"),
            (1, "http://a/\\n: 1 object forgotten, 2.00 KiB"),
            (1_200, "http://a/\\n: 1,200 objects forgotten, 2.00 KiB"),
        ] {
            let purged = json!({"url": "http://a/\n", "objects": objects, "bytes": 2048});
            assert_eq!(sentence(&purged), expected);
        }
    }
}
