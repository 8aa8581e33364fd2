//! Rules hold for whatever servers and languages may read in a request, by models of them.

mod models;

use models::checks::{missed_cookie, missed_parameter, unknown_path};
use proptest::prelude::*;

proptest! {
    #[test]
    fn each_path_that_servers_choose_is_known_or_refused(
        path in "/([ab.;]|/|\\\\|\\.php|%2[03eEfF5]|%3[bBfF]|%5c|%61|%0a|%c0%af|\\.\\.){0,9}",
    ) {
        prop_assert_eq!(unknown_path(&path), None);
    }

    #[test]
    fn conditions_hold_for_each_parameter_that_languages_find(
        query in "([ab=&;.+_]|\\[|\\]|%20|%5b|%5B|%00|%61|%2e){0,9}",
    ) {
        prop_assert_eq!(missed_parameter(&query), None);
    }

    #[test]
    fn conditions_hold_for_each_cookie_that_languages_find(
        line in "([ab=;.,+_ \"]|; |=|\\[|\\]|\t|%20|%5b|%00|%61|\\$){0,10}",
    ) {
        prop_assert_eq!(missed_cookie(line.trim_matches([' ', '\t'])), None);
    }
}
