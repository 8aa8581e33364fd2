//! The value of a site's `sticky`: a table within the table.

use larder_proxy::settings::Sticky as Settings;
use toml::de::DeValue;

use crate::cli::words::hint;
use crate::config::kinds::{Kind, Seconds, Words, table};
use crate::config::lists::{keep_keys, string};
use crate::config::names;

const KEYS: [&str; 3] = ["cookie", "ttl", "keys"];

/// A table such as `{ cookie = "origin", ttl = "1h" }`.
pub(super) struct Sticky;

impl Words for Sticky {
    fn words(&self) -> String {
        "table such as `{ cookie = \"origin\", ttl = \"1h\" }`".to_owned()
    }
}

impl Kind<Settings> for Sticky {
    fn read(&self, value: &DeValue<'_>) -> Result<Settings, String> {
        let table = table(self, value)?;
        let (mut named, mut ttl, mut keys) = (None, None, None);
        for (name, value) in table.iter() {
            let (name, value): (&str, _) = (name.get_ref(), value.get_ref());
            match name {
                "cookie" => named = Some(cookie(&string(value)?)?),
                "ttl" => ttl = Some(Seconds.read(value)?),
                "keys" => keys = Some(string(value)?),
                _ => return Err(format!("unknown key '{}'{}", name.escape_debug(), hint(name, KEYS))),
            }
        }
        let cookie = named.ok_or_else(|| format!("it has no 'cookie': write a {}", self.words()))?;
        let mut sticky = Settings::new(&cookie, ttl);
        keys.map_or(Ok(()), |path| keep_keys(&mut sticky, &path))?;
        Ok(sticky)
    }

    fn show(&self, value: &Settings) -> String {
        let ttl = value.ttl.map(|ttl| format!(", ttl = {}", Seconds.show(&ttl)));
        let keys = value.source().map(|path| format!(", keys = \"{path}\""));
        format!("{{ cookie = \"{}\"{}{} }}", value.cookie, ttl.unwrap_or_default(), keys.unwrap_or_default())
    }
}

fn cookie(text: &str) -> Result<String, String> {
    match text.contains(['*', '~']) {
        true => Err(format!(
            "'{}' is not the name of a cookie: letters, digits and -._ only",
            text.escape_debug()
        )),
        false => names::token(text),
    }
}
