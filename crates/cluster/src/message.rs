//! The messages of nodes in the stream: which stored responses are out of date.
//!
//! An entry is a list of fields and values, so that it is readable on the engine:
//!
//! | field | meaning |
//! |---|---|
//! | `v` | [`VERSION`] |
//! | `by` | the node that ordered it, and the start of its process: that process has applied it already |
//! | `do` | `stale`, `invalid`, `remove`: a purge; `unsure`; `blank`, `doubt`: pools; `distrust`; `begin` |
//! | `seconds` | for `unsure`: the duration; the scopes that may change follow, as for a purge |
//! | `url`, `prefix` | for a purge: a cache key, or the prefix of one; repeated for several |
//! | `start`, `end` | for a purge: both parts of a glob |
//! | `host`, `tag`, `all` | likewise |
//! | `origin`, `group` | likewise: a group, behind the origin that it belongs to |
//! | `grouped` | likewise: all responses with groups, of the origin |
//! | `site`, `tag` | likewise: a tag, behind the site that it belongs to |
//! | `site`, `pool` | for `blank` and `doubt`: the gateway, and one of its pools; all pools, if none is named |
//!
//! After an entry in another form, a node cannot know which of its responses are out of date. The cache
//! applies the purges.

use larder_semantics::purge::{Effect, Scope};

/// The version of entries that this code writes and reads.
const VERSION: &[u8] = b"1";

/// An entry of the stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// The node, and the start of its process, that it comes from.
    pub by: String,
    /// The task.
    pub order: Order,
}

/// The task of a node that reads an entry.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Order {
    /// The responses that one of these scopes reaches get the effect.
    Purge(Effect, Vec<Scope>),
    /// A change whose end is unknown may affect these scopes for this many seconds: stored responses are
    /// invalid, and responses fetched in that time are validated before each use.
    Unsure(u32, Vec<Scope>),
    /// The existing tags of these pools are void.
    Blank(Pools),
    /// The same; and for a while, the gateway creates no tags.
    Doubt(Pools),
    /// The sender has lost orders, which may have had any scope.
    Distrust,
    /// No task: an entry so that the stream is not empty.
    Begin,
}

/// Some pools of tags.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Pools {
    /// The gateway's name.
    pub site: String,
    /// One of its pools, or all.
    pub pool: Option<String>,
}

/// The error for an entry that this version does not understand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnknownEntry;

const EFFECTS: [(&str, Effect); 3] =
    [("stale", Effect::Stale), ("invalid", Effect::Invalid), ("remove", Effect::Remove)];

/// A field and its value.
type Field = (&'static str, Vec<u8>);

impl Message {
    /// Returns the fields of the entry.
    pub fn fields(&self) -> Vec<Field> {
        let mut fields = vec![("v", VERSION.to_vec()), ("by", self.by.clone().into_bytes())];
        fields.push(("do", self.order.name().into()));
        match &self.order {
            Order::Purge(_, scopes) => scopes.iter().for_each(|scope| write(scope, &mut fields)),
            Order::Unsure(seconds, scopes) => {
                fields.push(("seconds", seconds.to_string().into_bytes()));
                scopes.iter().for_each(|scope| write(scope, &mut fields));
            }
            Order::Blank(Pools { site, pool }) | Order::Doubt(Pools { site, pool }) => {
                fields.push(("site", site.clone().into_bytes()));
                fields.extend(pool.clone().map(|pool| ("pool", pool.into_bytes())));
            }
            Order::Distrust | Order::Begin => {}
        }
        fields
    }

    /// Parses the entry with these fields.
    ///
    /// # Errors
    /// [`UnknownEntry`] for any fields that differ from the form of [`fields`](Self::fields).
    pub fn parse<'f>(fields: impl IntoIterator<Item = (&'f [u8], &'f [u8])>) -> Result<Self, UnknownEntry> {
        let mut fields = fields.into_iter();
        let mut named = |name: &str| match fields.next() {
            Some((field, value)) if field == name.as_bytes() => Ok(value),
            _ => Err(UnknownEntry),
        };
        if named("v")? != VERSION {
            return Err(UnknownEntry);
        }
        let (by, order) = (text(named("by")?)?, named("do")?);
        let order = match order {
            b"distrust" => Order::Distrust,
            b"begin" => Order::Begin,
            b"blank" | b"doubt" => {
                let site = text(named("site")?)?;
                let pool = fields.next().map(|(name, pool)| match name {
                    b"pool" => text(pool),
                    _ => Err(UnknownEntry),
                });
                let pools = Pools { site, pool: pool.transpose()? };
                if order == b"blank" { Order::Blank(pools) } else { Order::Doubt(pools) }
            }
            b"unsure" => {
                let seconds = named("seconds")?;
                let number = std::str::from_utf8(seconds).ok().and_then(|text| text.parse::<u32>().ok());
                let number = number.filter(|number| number.to_string().as_bytes() == seconds);
                Order::Unsure(number.ok_or(UnknownEntry)?, scopes(&mut fields)?)
            }
            effect => {
                let known = EFFECTS.iter().find(|(name, _)| name.as_bytes() == effect);
                let (_, effect) = known.ok_or(UnknownEntry)?;
                Order::Purge(*effect, scopes(&mut fields)?)
            }
        };
        match fields.next() {
            None => Ok(Self { by, order }),
            Some(_) => Err(UnknownEntry),
        }
    }
}

impl Order {
    fn name(&self) -> &'static str {
        match self {
            Self::Purge(Effect::Stale, _) => "stale",
            Self::Purge(Effect::Invalid, _) => "invalid",
            Self::Purge(Effect::Remove, _) => "remove",
            Self::Unsure(..) => "unsure",
            Self::Blank(_) => "blank",
            Self::Doubt(_) => "doubt",
            Self::Distrust => "distrust",
            Self::Begin => "begin",
        }
    }
}

/// Adds the fields of a scope.
fn write(scope: &Scope, fields: &mut Vec<Field>) {
    match scope {
        Scope::Url(key) => fields.push(("url", key.clone())),
        Scope::Prefix(start) => fields.push(("prefix", start.clone())),
        Scope::Glob { start, end } => fields.extend([("start", start.clone()), ("end", end.clone())]),
        Scope::Host(host) => fields.push(("host", host.clone())),
        Scope::Tag(tag) => fields.push(("tag", tag.clone())),
        Scope::SiteTag { site, tag } => {
            fields.extend([("site", site.clone().into_bytes()), ("tag", tag.clone())]);
        }
        Scope::Group { origin, name } => {
            fields.extend([("origin", origin.clone()), ("group", name.clone().into_bytes())]);
        }
        Scope::Origin(origin) => fields.push(("grouped", origin.clone())),
        Scope::All => fields.push(("all", Vec::new())),
    }
}

fn scopes<'f>(fields: &mut impl Iterator<Item = (&'f [u8], &'f [u8])>) -> Result<Vec<Scope>, UnknownEntry> {
    let mut scopes = Vec::new();
    while let Some((field, value)) = fields.next() {
        scopes.push(match field {
            b"url" => Scope::Url(value.to_vec()),
            b"prefix" => Scope::Prefix(value.to_vec()),
            b"start" => match fields.next() {
                Some((b"end", end)) => Scope::Glob { start: value.to_vec(), end: end.to_vec() },
                _ => return Err(UnknownEntry),
            },
            b"host" => Scope::Host(value.to_vec()),
            b"tag" => Scope::Tag(value.to_vec()),
            b"grouped" => Scope::Origin(value.to_vec()),
            b"all" if value.is_empty() => Scope::All,
            b"site" => match fields.next() {
                Some((b"tag", tag)) => Scope::SiteTag { site: text(value)?, tag: tag.to_vec() },
                _ => return Err(UnknownEntry),
            },
            b"origin" => match fields.next() {
                Some((b"group", name)) => Scope::Group { origin: value.to_vec(), name: text(name)? },
                _ => return Err(UnknownEntry),
            },
            _ => return Err(UnknownEntry),
        });
    }
    Ok(scopes)
}

fn text(value: &[u8]) -> Result<String, UnknownEntry> {
    std::str::from_utf8(value).map(str::to_owned).map_err(|_| UnknownEntry)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn parse(fields: &[(&str, &[u8])]) -> Result<Message, UnknownEntry> {
        Message::parse(fields.iter().map(|(name, value)| (name.as_bytes(), *value)))
    }

    fn bytes() -> impl Strategy<Value = Vec<u8>> {
        prop::collection::vec(any::<u8>(), 0..20)
    }

    fn scope() -> impl Strategy<Value = Scope> {
        prop_oneof![
            bytes().prop_map(Scope::Url),
            bytes().prop_map(Scope::Prefix),
            (bytes(), bytes()).prop_map(|(start, end)| Scope::Glob { start, end }),
            bytes().prop_map(Scope::Host),
            bytes().prop_map(Scope::Tag),
            (bytes(), ".{0,9}").prop_map(|(origin, name)| Scope::Group { origin, name }),
            (".{0,9}", bytes()).prop_map(|(site, tag)| Scope::SiteTag { site, tag }),
            bytes().prop_map(Scope::Origin),
            Just(Scope::All),
        ]
    }

    fn order() -> impl Strategy<Value = Order> {
        let effect = prop::sample::select(EFFECTS.map(|(_, effect)| effect).to_vec());
        let pools = || (".{0,9}", prop::option::of(".{0,9}")).prop_map(|(site, pool)| Pools { site, pool });
        prop_oneof![
            (effect, prop::collection::vec(scope(), 0..5))
                .prop_map(|(effect, scopes)| Order::Purge(effect, scopes)),
            (any::<u32>(), prop::collection::vec(scope(), 0..5))
                .prop_map(|(seconds, scopes)| Order::Unsure(seconds, scopes)),
            pools().prop_map(Order::Blank),
            pools().prop_map(Order::Doubt),
            Just(Order::Distrust),
            Just(Order::Begin),
        ]
    }

    #[test]
    fn an_entry_reads_as_people_would_write_it() {
        let group = Scope::Group { origin: b"o".to_vec(), name: "g".to_owned() };
        let order = Order::Purge(Effect::Invalid, vec![Scope::Tag(b"t".to_vec()), group]);
        let fields = Message { by: "a/1".to_owned(), order }.fields();
        let shown: Vec<_> =
            fields.iter().map(|(name, value)| format!("{name} {}", String::from_utf8_lossy(value))).collect();
        assert_eq!(shown, ["v 1", "by a/1", "do invalid", "tag t", "origin o", "group g"]);
    }

    #[test]
    fn messages_that_this_version_does_not_write_parse_as_unknown() {
        let (v, by) = (("v", &b"1"[..]), ("by", &b"a"[..]));
        let cases: [&[(&str, &[u8])]; 14] = [
            &[],
            &[v],
            &[v, by],
            &[("v", b"2"), by, ("do", b"begin")],
            &[by, v, ("do", b"begin")],
            &[v, ("by", b"\xff"), ("do", b"begin")],
            &[v, by, ("do", b"burn")],
            &[v, by, ("do", b"begin"), ("tag", b"t")],
            &[v, by, ("do", b"blank")],
            &[v, by, ("do", b"unsure"), ("url", b"u")],
            &[v, by, ("do", b"unsure"), ("seconds", b"01"), ("url", b"u")],
            &[v, by, ("do", b"blank"), ("site", b"s"), ("site", b"s")],
            &[v, by, ("do", b"stale"), ("origin", b"o")],
            &[v, by, ("do", b"stale"), ("all", b"x")],
        ];
        for fields in cases {
            assert_eq!(parse(fields), Err(UnknownEntry), "{fields:?}");
        }
    }

    proptest! {
        #[test]
        fn entries_come_back_as_they_were_written(by in ".{0,9}", order in order()) {
            let message = Message { by, order };
            let fields = message.fields();
            let fields = fields.iter().map(|(name, value)| (name.as_bytes(), &value[..]));
            prop_assert_eq!(Message::parse(fields), Ok(message));
        }

        #[test]
        fn any_fields_are_read_without_a_panic(
            names in prop::collection::vec("v|by|do|url|tag|origin|group|all|site|pool|seconds|x", 0..9),
            values in prop::collection::vec("1|a|stale|blank|begin|unsure|.{0,3}", 9),
        ) {
            let fields = names.iter().zip(&values);
            let fields: Vec<_> = fields.map(|(name, value)| (name.as_bytes(), value.as_bytes())).collect();
            if let Ok(message) = Message::parse(fields.iter().copied()) {
                let again = message.fields();
                let again: Vec<_> = again.iter().map(|(name, value)| (name.as_bytes(), &value[..])).collect();
                prop_assert_eq!(again, fields);
            }
        }
    }
}
