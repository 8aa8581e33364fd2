//! Request fields that an origin believes and the cache key does not contain.

use crate::support::{Larder, Origin};

/// The tenant that gets the page first, and the one that must not get the same.
#[test]
fn fields_that_nobody_knows_select_by_every_byte() {
    let cases = [
        ("X-Tenant: ,acme", "X-Tenant: acme"),
        ("X-Tenant: a, b", "X-Tenant: a,b"),
        ("X-Tenant: a,b", "X-Tenant: a\nX-Tenant: b"),
        ("X-Tenant: a\nX-Tenant:", "X-Tenant: a"),
        ("Accept-Language: en, de", "Accept-Language: de, en"),
    ];
    for (first, second) in cases {
        let origin = Origin::by(|seen| {
            format!("200 OK\nCache-Control: max-age=1000\nVary: X-Tenant, Accept-Language\n\n{}", seen.number)
        });
        let larder = Larder::before(&origin);
        for (number, fields) in [first, second].iter().enumerate() {
            let response = larder.ask(&format!("GET /\n{fields}"));
            assert_eq!(response.text(), number.to_string(), "{first} {second}");
        }
        assert!(larder.ask(&format!("GET /\n{first}")).is_hit(), "{first}");
    }
}

#[test]
fn fields_whose_forms_are_known_select_by_their_meaning() {
    let cases = [
        ("Accept-Language: en, de;q=0.5", "Accept-Language: DE;q=0.50,en"),
        ("Accept-Encoding: gzip, br", "Accept-Encoding: br,GZIP"),
        ("Accept: a/b, c/d", "Accept: a/b\nAccept: c/d"),
    ];
    for (first, second) in cases {
        let origin = Origin::always(
            "200 OK\nCache-Control: max-age=1000\nVary: Accept, Accept-Language, Accept-Encoding\n\nx",
        );
        let larder = Larder::before(&origin);
        larder.ask(&format!("GET /\n{first}"));
        assert!(larder.ask(&format!("GET /\n{second}")).is_hit(), "{first} {second}");
    }
}
