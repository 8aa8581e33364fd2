//! The output of `larder cache`, for people.

use std::fmt;

use larder_proxy::inventory::{Object, Progress};

use crate::cli::tables::shortened;
use crate::cli::units::{about_size, counted};

/// The heading of a list.
pub(super) const HEADING: &str = "name                    size  stored    used  status  url";

/// The fewest characters of a URL that are shown, even if the line is longer then.
const LEAST_URL: usize = 20;
/// Seconds and units, largest first.
const AGES: [(u64, &str); 4] = [(86_400, "d"), (3_600, "h"), (60, "m"), (1, "s")];

/// Formats an object's line in a list, with a URL that is shortened to make a line of `width` characters.
pub(super) fn row(object: &Object, now: u64, width: Option<usize>) -> String {
    let ago = |time: u32| about_age(now.saturating_sub(u64::from(time)));
    let (size, stored, used) = (about_size(object.bytes), ago(object.stored), ago(object.used));
    let name = if object.name.is_empty() { "in memory" } else { &object.name };
    let (name, url) = (name.escape_debug().to_string(), object.url.escape_debug().to_string());
    let row = format!("{name:<16}  {size:>10}  {stored:>6}  {used:>6}  {:>6}  ", object.status);
    let variant = if object.vary.is_empty() { String::new() } else { format!(" ({})", variant(object)) };
    let used = row.chars().count() + variant.chars().count();
    let url = width.map_or(url.clone(), |width| shortened(&url, width.saturating_sub(used).max(LEAST_URL)));
    format!("{row}{url}{variant}")
}

/// Returns the properties that distinguish an object from others of its URL.
pub(super) fn variant(object: &Object) -> String {
    if object.vary.is_empty() {
        return object.role.escape_debug().to_string();
    }
    let field = |(name, value): (&String, &Option<String>)| match value {
        Some(value) => format!("{}: {}", name.escape_debug(), value.escape_debug()),
        None => format!("no {}", name.escape_debug()),
    };
    object.vary.iter().map(field).collect::<Vec<_>>().join("; ")
}

/// Formats an object as JSON, in one line.
pub(super) fn json(object: &Object) -> String {
    serde_json::to_string(object).unwrap_or_default()
}

/// Formats the result of a check.
pub(super) fn verified(end: &Progress) -> String {
    let (objects, bytes) = (counted(end.objects, "object", "objects"), about_size(end.bytes));
    let verb = if end.objects == 1 { "is" } else { "are" };
    format!("{objects} with {bytes} of content {verb} undamaged")
}

/// Formats an age in the largest unit that it reaches.
fn about_age(seconds: u64) -> String {
    let (scale, unit) = AGES.into_iter().find(|(scale, _)| seconds >= *scale).unwrap_or((1, "s"));
    format!("{}{unit}", seconds / scale)
}

/// The sums of a list.
#[derive(Default)]
pub(super) struct Total {
    objects: u64,
    bytes: u64,
    bytes_on_disk: u64,
}

impl Total {
    /// Whether no object was added yet.
    pub(super) fn is_empty(&self) -> bool {
        self.objects == 0
    }

    pub(super) fn add(&mut self, object: &Object) {
        self.objects += 1;
        self.bytes = self.bytes.saturating_add(object.bytes);
        self.bytes_on_disk = self.bytes_on_disk.saturating_add(object.bytes_on_disk);
    }
}

impl fmt::Display for Total {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (objects, bytes) = (counted(self.objects, "object", "objects"), about_size(self.bytes));
        write!(f, "{objects}, {bytes} of content, {} on disk", about_size(self.bytes_on_disk))
    }
}

#[cfg(test)]
mod tests {
    use larder_proxy::inventory::ObjectTiers;

    use super::*;

    fn object() -> Object {
        Object {
            name: "00d1f8a2c43b7e96".to_owned(),
            tier: ObjectTiers::Disk,
            url: "http://a/\u{1b}[31m\n".to_owned(),
            role: "forward".to_owned(),
            status: 200,
            bytes: 123_456_789,
            bytes_on_disk: 123_460_000,
            stored: 1_000,
            used: 4_599,
            hits: None,
            expires: 2_000,
            fresh: true,
            vary: Default::default(),
            disk: "d".to_owned(),
        }
    }

    #[test]
    fn a_row_stands_under_its_heading_and_shows_no_control_characters() {
        let row = row(&object(), 4_600, None);
        assert_eq!(row, "00d1f8a2c43b7e96   117.7 MiB      1h      1s     200  http://a/\\u{1b}[31m\\n");
        for column in ["size", "stored", "used", "status"] {
            let end = HEADING.find(column).unwrap() + column.len();
            assert!(!row[end - 1..end].trim().is_empty() && row[end..].starts_with("  "), "{column}");
        }
        assert_eq!(HEADING.find("url"), row.find("http"));
    }

    #[test]
    fn a_row_fits_the_terminal_and_keeps_the_name_of_the_file() {
        let url = format!("https://a.example/{}/index.html?{}", "long".repeat(20), "q".repeat(60));
        let row = row(&Object { url, ..object() }, 4_600, Some(80));
        assert!(row.chars().count() == 80 && row.ends_with("/index.html"), "{row}");
    }

    #[test]
    fn a_variant_says_what_it_was_selected_by() {
        let vary = [("accept-language".to_owned(), Some("de".to_owned())), ("foo".to_owned(), None)];
        let object = Object { vary: vary.into_iter().collect(), ..object() };
        assert!(row(&object, 0, None).ends_with(" (accept-language: de; no foo)"));
    }

    #[test]
    fn an_object_is_read_back_from_its_line() {
        let object = object();
        assert!(!json(&object).contains('\n'));
        assert_eq!(serde_json::from_str::<Object>(&json(&object)).ok(), Some(object));
    }

    #[test]
    fn ages_are_told_in_one_unit() {
        assert_eq!([0, 59, 60, 7_199, 86_400 * 400].map(about_age), ["0s", "59s", "1m", "1h", "400d"]);
    }
}
