//! The distribution of stored responses: sums by size, age and host.

use std::cmp::Reverse;
use std::collections::HashMap;

use serde::Serialize;

/// The largest size of each group, in bytes, and the group's name.
const SIZES: [(u64, &str); 5] = [
    (1 << 10, "up to 1 KiB"),
    (1 << 14, "1 to 16 KiB"),
    (1 << 18, "16 to 256 KiB"),
    (1 << 22, "256 KiB to 4 MiB"),
    (u64::MAX, "larger"),
];
/// The greatest age of each group, in seconds, and the group's name.
const AGES: [(u64, &str); 5] = [
    (60, "up to 1 min"),
    (3_600, "1 to 60 min"),
    (86_400, "1 to 24 h"),
    (7 * 86_400, "1 to 7 days"),
    (u64::MAX, "older"),
];
/// The most hosts that are counted separately.
const HOSTS: usize = 10_000;
/// The most hosts that are shown.
const SHOWN: usize = 5;
/// The name of the group of all other hosts.
const OTHERS: &str = "others";

/// A group of stored responses.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Group {
    name: String,
    objects: u64,
    /// Bytes of content.
    bytes: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Sum {
    objects: u64,
    bytes: u64,
}

/// Sums of the objects so far.
#[derive(Debug, Default)]
pub(super) struct Groups {
    sizes: [Sum; SIZES.len()],
    ages: [Sum; AGES.len()],
    hosts: HashMap<String, Sum>,
    others: Sum,
}

impl Sum {
    fn add(&mut self, objects: u64, bytes: u64) {
        self.objects += objects;
        self.bytes += bytes;
    }

    fn called(self, name: &str) -> Group {
        Group { name: name.to_owned(), objects: self.objects, bytes: self.bytes }
    }
}

impl Groups {
    /// Counts an object of `bytes` bytes and `age` seconds.
    pub(super) fn add(&mut self, bytes: u64, age: u32, host: &str) {
        let place = |groups: &[(u64, &str)], value| groups.iter().position(|(most, _)| value <= *most);
        place(&SIZES, bytes).into_iter().for_each(|at| self.sizes[at].add(1, bytes));
        place(&AGES, u64::from(age)).into_iter().for_each(|at| self.ages[at].add(1, bytes));
        let has_room = self.hosts.len() < HOSTS;
        match self.hosts.get_mut(host) {
            Some(sum) => sum.add(1, bytes),
            None if has_room => self.hosts.entry(host.to_owned()).or_default().add(1, bytes),
            None => self.others.add(1, bytes),
        }
    }

    /// Returns the groups by size, by age, and by host. Hosts with the most bytes come first.
    pub(super) fn end(self) -> (Vec<Group>, Vec<Group>, Vec<Group>) {
        let Self { sizes, ages, hosts, mut others } = self;
        let named = |sums: [Sum; 5], groups: [(u64, &str); 5]| {
            sums.into_iter().zip(groups).map(|(sum, (_, name))| sum.called(name)).collect()
        };
        let mut hosts: Vec<_> = hosts.into_iter().collect();
        hosts.sort_by(|(a, x), (b, y)| Reverse(x.bytes).cmp(&Reverse(y.bytes)).then_with(|| a.cmp(b)));
        let rest = hosts.split_off(hosts.len().min(SHOWN));
        rest.iter().for_each(|(_, sum)| others.add(sum.objects, sum.bytes));
        let mut shown: Vec<_> = hosts.iter().map(|(name, sum)| sum.called(name)).collect();
        if others.objects > 0 {
            shown.push(others.called(OTHERS));
        }
        (named(sizes, SIZES), named(ages, AGES), shown)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_object_is_in_one_group_of_each_kind() {
        let mut groups = Groups::default();
        for (bytes, age, host) in
            [(0, 0, "a"), (1 << 10, 60, "a"), ((1 << 10) + 1, 61, "b"), (u64::MAX >> 8, u32::MAX, "c")]
        {
            groups.add(bytes, age, host);
        }
        let (sizes, ages, hosts) = groups.end();
        let counts = |groups: &[Group]| groups.iter().map(|group| group.objects).collect::<Vec<_>>();
        assert_eq!((counts(&sizes), counts(&ages)), (vec![2, 1, 0, 0, 1], vec![2, 1, 0, 0, 1]));
        assert_eq!(hosts.iter().map(|group| &*group.name).collect::<Vec<_>>(), ["c", "b", "a"]);
    }

    #[test]
    fn hosts_beyond_the_first_share_a_group() {
        let mut groups = Groups::default();
        for host in 0..HOSTS + 10 {
            groups.add(1, 0, &host.to_string());
        }
        let (.., hosts) = groups.end();
        let others = Group { name: OTHERS.to_owned(), objects: 10_005, bytes: 10_005 };
        assert_eq!((hosts.len(), hosts.last()), (6, Some(&others)));
    }
}
