//! How a user names a policy, and what a misspelling gets.

use larder_evict::{POLICIES, Spec};

#[test]
fn every_listed_policy_can_be_named() {
    for policy in POLICIES {
        let spec = Spec::parse(policy.name).unwrap();
        assert_eq!((spec.name(), spec.to_string()), (policy.name, policy.name.to_string()));
        assert_eq!(spec.to_string().parse(), Ok(spec));
    }
}

#[test]
fn names_are_listed_once_in_order() {
    assert!(POLICIES.is_sorted_by(|a, b| a.name < b.name));
}

#[test]
fn wrong_specs_get_one_helpful_line() {
    let table = [
        ("lur", "unknown policy 'lur'; did you mean 'lru'? known: "),
        ("LRU", "unknown policy 'LRU'; did you mean 'lru'? known: "),
        ("filo", "unknown policy 'filo'; did you mean 'fifo'? known: "),
        ("", "unknown policy ''; known: "),
        ("something else", "unknown policy 'something else'; known: "),
        ("l\nru\u{7}", "unknown policy 'l\\nru\\u{7}'"),
        ("lru:small=0.1", "policy 'lru' has no parameter 'small'; it has none"),
        ("lru:", "policy 'lru': expected param=value after ':', got ''"),
    ];
    for (text, start) in table {
        let error = Spec::parse(text).unwrap_err().to_string();
        assert!(error.starts_with(start), "{text:?}: {error}");
        assert_eq!(error.lines().count(), 1, "{error}");
    }
}
