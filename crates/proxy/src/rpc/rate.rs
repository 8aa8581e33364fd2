//! Limits the datagrams of each sender that get a reply: sender addresses can be forged, and replies go to these
//! addresses.

use std::collections::HashMap;
use std::net::IpAddr;

use crate::base::networks::network;

/// Maximum of senders in one second; further ones get no reply in that second.
const SENDERS: usize = 4_096;

/// Counts the calls of the current second.
#[derive(Default)]
pub(super) struct Rate {
    /// The second, as UNIX time.
    second: u32,
    calls: HashMap<IpAddr, u32>,
}

impl Rate {
    /// Whether a call from `ip` in the second `now` gets a reply, with at most `most` replies per sender. Loopback
    /// addresses cannot be forged from other machines, so they have no limit.
    pub(super) fn admits(&mut self, ip: IpAddr, now: u32, most: u32) -> bool {
        // All addresses of an IPv6 /64 network are one sender, since a client may have all of them.
        let sender = network(ip, 32, 64);
        if ip.to_canonical().is_loopback() {
            return true;
        }
        if self.second != now {
            self.second = now;
            self.calls.clear();
        }
        if self.calls.len() >= SENDERS && !self.calls.contains_key(&sender) {
            return false;
        }
        let calls = self.calls.entry(sender).or_default();
        *calls = calls.saturating_add(1);
        *calls <= most
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn each_sender_has_a_limit_in_each_second() {
        let mut rate = Rate::default();
        for second in [7, 8] {
            for sender in ["192.0.2.1", "192.0.2.2", "2001:db8::1"] {
                let admitted = (0..9).filter(|_| rate.admits(ip(sender), second, 3)).count();
                assert_eq!(admitted, 3, "{sender}");
            }
        }
        assert!(!rate.admits(ip("2001:db8::2"), 8, 3), "the same network");
        assert!(!rate.admits(ip("::ffff:192.0.2.1"), 8, 3), "the same sender");
        assert!((0..99).all(|_| rate.admits(ip("127.0.0.1"), 8, 3)));
    }

    #[test]
    fn forged_senders_take_no_more_memory_than_there_is_for_them() {
        let mut rate = Rate::default();
        let forged = (0..100_000_u32).map(|n| IpAddr::from((0x0a00_0000 + n).to_be_bytes()));
        assert_eq!(forged.filter(|ip| rate.admits(*ip, 1, 9)).count(), SENDERS);
        assert_eq!(rate.calls.len(), SENDERS);
        assert!(rate.admits(ip("10.255.0.1"), 2, 9), "in the next second there is room again");
    }
}
