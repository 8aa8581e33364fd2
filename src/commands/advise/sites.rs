//! `larder advise --site`: what each site takes of the memory, and gives for it.

use larder_server::SiteShare;
use serde_json::json;

use crate::cli::say;
use crate::cli::tables::{Column, fitted};
use crate::cli::terminal;
use crate::cli::units::{about_count, about_size};
use crate::cli::words::printable;

/// Prints the sites.
pub(super) fn show(shares: &[SiteShare], as_json: bool) {
    if as_json {
        return say(&json!({ "sites": shares }).to_string());
    }
    table(shares, terminal::columns()).iter().for_each(|line| say(line));
}

/// Returns a row for each site, in lines of at most `width` characters.
fn table(shares: &[SiteShare], width: Option<usize>) -> Vec<String> {
    let names =
        ["site", "memory", "of memory", "requests", "hit ratio", "of all hits", "hits per MiB", "from cache"];
    let columns = names.iter().zip([0, 0, 0, 2, 0, 0, 1, 3]);
    let columns: Vec<_> =
        columns.map(|(name, rank)| Column { name, is_text: *name == "site", rank }).collect();
    let sum = |of: fn(&SiteShare) -> u64| shares.iter().map(of).sum();
    let (memory, hits): (u64, u64) = (sum(|share| share.memory), sum(|share| share.hits));
    let part = |part: u64, whole: u64| {
        if whole == 0 { "-".to_owned() } else { format!("{:.1}%", 100.0 * part as f64 / whole as f64) }
    };
    let row = |share: &SiteShare| {
        let mib = share.memory as f64 / f64::from(1 << 20);
        vec![
            if share.site.is_empty() { "-".to_owned() } else { printable(&share.site) },
            about_size(share.memory),
            part(share.memory, memory),
            about_count(share.requests),
            part(share.hits, share.requests),
            part(share.hits, hits),
            if share.memory == 0 { "-".to_owned() } else { format!("{:.1}", share.hits as f64 / mib) },
            part(share.bytes_from_cache, share.bytes),
        ]
    };
    fitted(&columns, &shares.iter().map(row).collect::<Vec<_>>(), 0, width)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_site_with_half_of_the_memory_and_few_hits_stands_out() {
        let share = |site: &str, hits| SiteShare {
            site: site.to_owned(),
            memory: 2 << 20,
            requests: 1_000,
            hits,
            bytes: 4_000,
            bytes_from_cache: 1_000,
        };
        let expected = "\
site    memory  of memory  requests  hit ratio  of all hits  hits per MiB  from cache
a     2.00 MiB      50.0%     1,000      90.0%        94.7%         450.0       25.0%
b     2.00 MiB      50.0%     1,000       5.0%         5.3%          25.0       25.0%";
        assert_eq!(table(&[share("a", 900), share("b", 50)], None).join("\n"), expected);
    }
}
