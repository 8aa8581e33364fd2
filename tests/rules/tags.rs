//! Tags that rules make from parts of requests.

use larder_testkit::{Origin, Response};

use super::with_rules;

fn reached(answer: &Response) -> u64 {
    let answer = answer.json();
    answer["objects"].as_u64().expect("a number")
}

#[test]
fn a_purge_reaches_the_responses_of_a_tenant_by_their_tag() {
    let origin = Origin::by(|seen| {
        format!(
            "200 OK\nCache-Control: max-age=100\nCache-Tag: page\n\n{}",
            seen.field("x-tenant").unwrap_or("-")
        )
    });
    let rules = "[[site.rule]]\nkey_fields = 'X-Tenant'\ntags = ['tenant-{field:X-Tenant}', 'all of {1}']\nmatch.path = '/*/*'\n";
    let larder = with_rules(&origin, rules);
    let ask = |path: &str, tenant: &str| larder.ask(&format!("GET {path}\nX-Tenant: {tenant}"));
    let all = [("/a/1", "one"), ("/a/2", "one"), ("/a/1", "two"), ("/b/1", "two, page")];
    for (tag, expected) in [
        ("tenant-one", &all[..2]),
        ("tenant-two", &all[2..3]),
        ("tenant-two%2C%20page", &all[..0]),
        ("tenant-two%252C page", &all[3..]),
        ("all of a", &all[..3]),
        ("page", &all),
    ] {
        all.iter().for_each(|(path, tenant)| drop(ask(path, tenant)));
        let tag = tag.replace(' ', "%20");
        let answer = larder.ask_admin(&format!("POST /purge?tag={tag}&count\nLarder-Admin: 1"));
        assert_eq!((answer.status, reached(&answer)), (200, expected.len() as u64), "{tag}");
        let missed = all.iter().filter(|(path, tenant)| !ask(path, tenant).is_hit());
        assert_eq!(missed.collect::<Vec<_>>(), expected.iter().collect::<Vec<_>>(), "{tag}");
    }
}
