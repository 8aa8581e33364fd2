//! The names of policies as users write them, and the errors for misspelt names.

use larder_evict::{FILTERS, POLICIES, Spec};

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
    assert!(FILTERS.is_sorted_by(|a, b| a.name < b.name));
}

#[test]
fn every_filter_can_stand_before_a_policy() {
    for filter in FILTERS {
        let text = format!("{}+fifo", filter.name);
        let spec = Spec::parse(&text).unwrap();
        assert_eq!((spec.filter(), spec.name(), spec.to_string()), (Some(filter.name), "fifo", text));
    }
}

#[test]
fn a_printed_policy_parses_to_the_same_policy() {
    let table = [
        ("size:max=1MiB+lru", "size:max=1MiB+lru"),
        ("size:max=65536+lru", "size+lru"),
        ("size:max=0+wtinylfu:window=0.20", "size:max=0B+wtinylfu:window=0.2"),
        ("size:max=1500+lru", "size:max=1500B+lru"),
        (
            "adaptsize:window=5000+wtinylfu:adaptive=false,window=0.1",
            "adaptsize:window=5000+wtinylfu:window=0.1,adaptive=false",
        ),
    ];
    for (text, printed) in table {
        let spec = Spec::parse(text).unwrap();
        assert_eq!(spec.to_string(), printed);
        assert_eq!(Spec::parse(printed), Ok(spec));
    }
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
        (
            "tinylru+lru",
            "unknown filter 'tinylru'; did you mean 'tinylfu'? known: adaptsize secondhit size tinylfu",
        ),
        ("lru+tinylfu", "unknown filter 'lru'; known: adaptsize"),
        ("size+lur", "unknown policy 'lur'; did you mean 'lru'? known: "),
        ("size+tinylfu+lru", "one filter at most stands before a policy, got 'size+tinylfu+lru'"),
        ("+lru", "unknown filter ''; known: adaptsize"),
        ("size:maxx=1+lru", "filter 'size' has no parameter 'maxx'; did you mean 'max'? known: max"),
        (
            "size:max=1MB+lru",
            "filter 'size': parameter 'max' cannot be '1MB'; expected a size such as 64KiB, in B KiB MiB GiB TiB",
        ),
        (
            "adaptsize:window=0+lru",
            "filter 'adaptsize': parameter 'window' cannot be '0'; expected a number of requests, 1000 or more",
        ),
        (
            "wtinylfu:window=0.9",
            "policy 'wtinylfu': parameter 'window' cannot be '0.9'; expected a share from 0 to 0.8",
        ),
        ("lru:", "policy 'lru': expected param=value after ':', got ''"),
    ];
    for (text, start) in table {
        let error = Spec::parse(text).unwrap_err().to_string();
        assert!(error.starts_with(start), "{text:?}: {error}");
        assert_eq!(error.lines().count(), 1, "{error}");
    }
}
