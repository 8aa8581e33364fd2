//! Tests that need more rights than an ordinary process has: each runs in a separate process. Where those rights are
//! missing, such a test is skipped with a message; under `CI` it fails.

use std::net::{IpAddr, Ipv4Addr};
use std::process::Command;

/// The address outside loopback of the network that [`with_outer_address`] creates. It belongs to a range for
/// documentation.
pub const OUTER: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1));

/// What the message about a skipped test begins with.
const NOT_TESTED: &str = "not tested: ";

/// Runs the ignored test with this name in a network namespace that has only loopback and [`OUTER`], so that other
/// machines cannot reach its listeners.
pub fn with_outer_address(test: &str) {
    let unshares = |options: &&[&str]| {
        let tried = Command::new("unshare").args(*options).arg("true").output();
        tried.is_ok_and(|output| output.status.success())
    };
    let Some(options) = [&["--net"][..], &["--map-root-user", "--net"]].into_iter().find(unshares) else {
        return not_tested("a network namespace (`unshare --net`)");
    };
    let script = format!("ip link set lo up && ip address add {OUTER}/32 dev lo && exec \"$0\" \"$@\"");
    let mut apart = Command::new("unshare");
    apart.args(options).args(["sh", "-c", &script]).arg(std::env::current_exe().expect("this program"));
    let output = apart.args([test, "--exact", "--ignored", "--nocapture"]).output().expect("unshare starts");
    let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    assert!(output.status.success() && said.contains("1 passed"), "{said}");
    // The test may need more than this network.
    said.lines().filter(|line| line.starts_with(NOT_TESTED)).for_each(|line| eprintln!("{line}"));
}

/// Prints that a test was skipped, and the requirement that is missing.
///
/// # Panics
/// Under `CI`, where every requirement must be met.
pub fn not_tested(missing: &str) {
    assert!(std::env::var_os("CI").is_none(), "cannot test here: {missing} cannot be had");
    eprintln!("{NOT_TESTED}{missing} cannot be had here");
}
