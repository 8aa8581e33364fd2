//! The logs of servers whose lines have one layout: a table of patterns in NGINX's words, with the names of
//! [`names`](super::names). A `$_` is ignored, and so is the rest of a line after the pattern.

use super::pattern::Pattern;
use crate::trace::Format;

/// The formats, and their lines.
const LOGS: &[(Format, &str)] = &[
    // Traffic Server writes it, too.
    (Format::Squid, "$time $millis $client $cache/$status $size $method $key $_"),
    (
        Format::S3,
        r#"$_ $bucket [$time] $client $_ $_ $operation $_ "$request" $status $_ $size $objectsize $millis "#,
    ),
    // The load balancers of AWS: the elapsed time is that of the target, and -1 without one.
    (Format::Alb, r#"$_ $time $_ $client $_ $_ $seconds $_ $status $_ $_ $size "$request""#),
    (Format::Elb, r#"$time $_ $client $_ $_ $seconds $_ $status $_ $_ $size "$request""#),
    // HTTP's format. Captured fields, in braces, precede the request. A `+` before a time or a size: the response had not ended.
    (Format::Haproxy, r#"$client [$time] $_ $_ $_/$_/$_/$_/$millis $status $size $_ $_ $_ $_ $_"$request""#),
    (Format::Envoy, r#"[$time] "$request" $status $_ $_ $size $millis $_ "$_" "$_" "$_" "$host""#),
    (Format::Istio, r#"[$time] "$request" $status $_ $_ $_ "$_" $_ $size $millis $_ "$_" "$_" "$_" "$host""#),
];

/// Returns the pattern of `format`, if it is in the table.
pub(super) fn pattern(format: Format) -> Option<Pattern> {
    let (_, pattern) = LOGS.iter().find(|(known, _)| *known == format)?;
    pattern.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_pattern_of_the_table_is_valid() {
        for (format, _) in LOGS {
            assert!(pattern(*format).is_some(), "{format}");
        }
    }
}
