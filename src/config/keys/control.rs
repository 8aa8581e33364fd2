//! The values of a site's keys for changing data: whether it is a gateway that stores tags, and whether a cache
//! revalidates before each use.

use larder_tags::Segment;
use toml::de::DeValue;

use crate::config::draft::control::{PoolCouplings, Role, ValidationTime};
use crate::config::kinds::{Choice, Kind, List, Text, Words, table};

pub(super) const ROLE: Choice<Role> = Choice(&[("cache", Role::Cache), ("tags", Role::Tags)]);
pub(super) const VALIDATE: Choice<ValidationTime> =
    Choice(&[("stale", ValidationTime::Stale), ("always", ValidationTime::Always)]);
const POOL: Text<Box<str>> = Text("first path segment", pool, |name| name.to_string());

/// Pools, each with the other pools that a change to it blanks: `{ users = ["paths"] }`.
pub(super) struct Couple;

fn pool(text: &str) -> Result<Box<str>, String> {
    Segment::named(text)
        .ok_or_else(|| format!("'{}' is not one segment of a path, such as 'users'", text.escape_debug()))
}

impl Words for Couple {
    fn words(&self) -> String {
        "table of lists of first path segments, such as `{ users = [\"paths\"] }`".to_owned()
    }
}

impl Kind<PoolCouplings> for Couple {
    fn read(&self, value: &DeValue<'_>) -> Result<PoolCouplings, String> {
        let table = table(self, value)?;
        let row = |(from, to): (&toml::Spanned<_>, &toml::Spanned<DeValue<'_>>)| {
            let from: &std::borrow::Cow<'_, str> = from.get_ref();
            Ok((pool(from)?, List(POOL).read(to.get_ref())?))
        };
        table.iter().map(row).collect()
    }

    fn show(&self, value: &PoolCouplings) -> String {
        let rows = value.iter().map(|(from, to)| format!("\"{from}\" = {}", List(POOL).show(to)));
        let rows: Vec<_> = rows.collect();
        if rows.is_empty() { "{}".to_owned() } else { format!("{{ {} }}", rows.join(", ")) }
    }
}
