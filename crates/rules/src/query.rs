//! Queries in the form of a cache key: without parameters that do not change the response, and in one order.

use std::borrow::Cow;

use smallvec::SmallVec;

use crate::pattern::Pattern;

/// The parameters of a query that count.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Query {
    /// The only parameters that count; `None`: all. Their names are compared as written.
    pub keep: Option<Vec<Pattern>>,
    /// The parameters that do not count, in any [reading](larder_semantics::readings).
    pub drop: Vec<Pattern>,
    /// Parameters that count although `drop` has them. Their names are compared as written.
    pub except: Vec<Pattern>,
    /// Whether parameters are sorted by their names; those of one name stay in their order.
    pub sort: bool,
}

/// Names of parameters that record how a user came to a page, without an effect on the response.
pub const TRACKING: [&str; 30] = [
    "utm_*",
    "gclid",
    "gclsrc",
    "dclid",
    "gbraid",
    "wbraid",
    "_ga",
    "_gl",
    "fbclid",
    "msclkid",
    "yclid",
    "twclid",
    "ttclid",
    "li_fat_id",
    "igshid",
    "igsh",
    "srsltid",
    "mc_cid",
    "mc_eid",
    "mkt_tok",
    "_hsenc",
    "_hsmi",
    "hsa_*",
    "pk_*",
    "mtm_*",
    "s_kwcid",
    "ef_id",
    "vero_id",
    "oly_anon_id",
    "oly_enc_id",
];

impl Query {
    /// Appends the significant part of `query` (without its question mark), with a question mark unless it is empty.
    pub fn write(&self, query: &str, out: &mut Vec<u8>) {
        let mut pairs: SmallVec<[Cow<'_, str>; 16]> =
            query.split('&').filter_map(|pair| self.significant(pair)).collect();
        if self.sort {
            pairs.sort_by(|one, other| name(one).cmp(name(other)));
        }
        for (at, pair) in pairs.iter().enumerate() {
            out.push(if at == 0 { b'?' } else { b'&' });
            out.extend_from_slice(pair.as_bytes());
        }
    }

    /// Returns what counts of `pair`. Older parsers read parameters behind semicolons, too; a piece without an equals sign there
    /// goes with the piece before it, as it may belong to that value.
    fn significant<'p>(&self, pair: &'p str) -> Option<Cow<'p, str>> {
        if !pair.contains(';') {
            return (!pair.is_empty() && self.counts(name(pair))).then_some(Cow::Borrowed(pair));
        }
        let (mut pieces, mut stays) = (Vec::new(), None);
        for piece in pair.split(';') {
            let of_value = stays.filter(|_| !piece.contains('='));
            let counts =
                of_value.map_or_else(|| self.counts(name(piece)), |stays| stays && !self.drops(piece));
            pieces.extend(counts.then_some(piece));
            stays = Some(counts);
        }
        let significant = pieces.join(";");
        (!significant.is_empty()).then_some(Cow::Owned(significant))
    }

    fn counts(&self, name: &str) -> bool {
        self.keep.as_deref().is_none_or(|keep| is_in(keep, name)) && !self.drops(name)
    }

    fn drops(&self, name: &str) -> bool {
        let drops = |pattern: &Pattern| pattern.matches_name(name.as_bytes());
        self.drop.iter().any(drops) && !is_in(&self.except, name)
    }
}

fn is_in(patterns: &[Pattern], name: &str) -> bool {
    patterns.iter().any(|pattern| pattern.matches(name.as_bytes()))
}

fn name(pair: &str) -> &str {
    pair.split_once('=').map_or(pair, |(name, _)| name)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn patterns(names: &[&str]) -> Vec<Pattern> {
        names.iter().map(|name| Pattern::parse(name).unwrap()).collect()
    }

    fn written(query: &Query, text: &str) -> String {
        let mut out = Vec::new();
        query.write(text, &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn parameters_that_do_not_count_are_left_out() {
        let all = Query::default();
        let sorted = Query { sort: true, ..Query::default() };
        let kept = Query { keep: Some(patterns(&["id", "page"])), ..Query::default() };
        let nothing = Query { keep: Some(Vec::new()), ..Query::default() };
        let tracking = Query { drop: patterns(&TRACKING), ..Query::default() };
        let except = patterns(&["gclid", "utm_s*"]);
        let reduced = Query { drop: patterns(&TRACKING), except, ..Query::default() };
        let cases = [
            (&all, "b=1&a=2", "?b=1&a=2"),
            (&sorted, "b=1&a=2&b=0", "?a=2&b=1&b=0"),
            (&kept, "id=1&x=2&page", "?id=1&page"),
            (&nothing, "id=1", ""),
            (&tracking, "utm_source=a&id=1&fbclid=x", "?id=1"),
            (&tracking, "utm=1", "?utm=1"),
            (&reduced, "utm_source=a&utm_id=2&gclid=3&+gclid=4", "?utm_source=a&gclid=3"),
            (&tracking, "+utm_source=a&utm.source=b&utm[source]=c&%75tm%5Fx[]=d&id=1", "?id=1"),
            (&kept, "i%64=1&id[]=2&+id=3&id=4", "?id=4"),
            (&tracking, "id=1;utm_source=a;b&q=c;d;utm_id", "?id=1&q=c;d"),
            (&tracking, ";utm_source=a&x;;", "?x;;"),
            (&reduced, "id=1;gclid=2;utm_id=3", "?id=1;gclid=2"),
            (&kept, "id=1;x=2;page=3;4&x=5;id=6;7&x;id", "?id=1;page=3;4&id=6;7"),
            (&nothing, "id;a=1;b", ""),
            (&all, "", ""),
        ];
        for (query, text, expected) in cases {
            assert_eq!(written(query, text), expected, "{text}");
        }
    }

    proptest! {
        #[test]
        fn a_normalized_query_stays_the_same_when_normalized_again(text in "([a-c]=?[x&;]{0,2}[&;]?){0,6}", sort: bool, keep: bool) {
            let keep = keep.then(|| patterns(&["a", "b"]));
            let query = Query { keep, drop: patterns(&["c*"]), except: Vec::new(), sort };
            let once = written(&query, &text);
            prop_assert_eq!(written(&query, once.strip_prefix('?').unwrap_or_default()), once.clone());
        }

        #[test]
        fn parameters_that_count_keep_queries_apart(
            one in prop::collection::vec("[ab]=[xy]", 0..4), other in prop::collection::vec("[ab]=[xy]", 0..4),
        ) {
            let query = Query::default();
            prop_assert_eq!(written(&query, &one.join("&")) == written(&query, &other.join("&")), one == other);
        }
    }
}
