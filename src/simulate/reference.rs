//! `docs/policies.md`: the registry and what the policies do on traces, rendered, so that neither can be out of
//! step.

use larder_evict::{FILTERS, Listing, POLICIES};
use larder_lab::sweep::{Cell, unit};

use super::data::is_offline;
use super::policies::{filter_metadata, metadata};
use crate::units::about_count;

const INTRODUCTION: &str = "\
# Eviction policies

What to keep when not everything fits. `--policy NAME` chooses one, for `larder serve` as for `larder simulate`: it is the
same code. `NAME:param=value,param=value` tunes it, and `FILTER+NAME` puts an admission filter in front of it.

This page is printed by `larder simulate --reference traces/*.zst`; `larder simulate --list` shows the same at a terminal.

## Which one

Try them on your own log: `larder simulate access.log`. As a rule of thumb:

- **Whatever comes**: `adaptive`. It learns from the requests what to value, for most requests answered or, with
  `objective=bytes`, most bytes.
- **Most requests answered**, objects of many sizes: `gdsf`. Small objects that are asked for often stay; a large one has to
  earn its place.
- **Most bytes answered**, or objects of one size: `s3fifo`, `sieve`, `arc` or `slru`. What is asked for once leaves soon.
- **Popularity that does not change**: `lfu`; that changes: `lfuda`, or `wtinylfu`, which remembers what it evicted.
- **Cheapest**: `fifo` and `sieve` do next to nothing on a hit. `lru` is what most caches do, and the one to compare with.
- `maxs`, `rand` and `gds` are there to learn from. `belady` and `beladysize` need to know the future: no cache reaches
  `belady` where all objects have one size, and `beladysize` is a guess at the same for many sizes.
";

const PRICES: &str = "\
Cost is that of the dearest operation with n objects. Bytes are what a cache allocates for an object, its number and size
included and its index not.
";

const RATIOS: &str = "\
## What they do on the shipped traces

Hit ratio / byte hit ratio in percent, by capacity. The best of each column is bold; what knows the future is left out of that.
[traces/README.md](../traces/README.md) says what the traces are.
";

/// The page.
pub(super) fn page(cells: &[Cell]) -> String {
    let mut page = INTRODUCTION.to_owned();
    page += &format!("\n## All of them\n\n{PRICES}\n");
    page += &listings(POLICIES, |policy| metadata(policy.name));
    page += "\n## Admission filters\n\nWhat may enter at all. Bytes come on top of the policy's.\n\n";
    page += &listings(FILTERS, filter_metadata);
    page += &format!("\n{RATIOS}");
    for trace in cells.chunk_by(|one, next| one.trace == next.trace) {
        page += &ratios(trace);
    }
    page
}

fn listings(listings: &[Listing], metadata: impl Fn(&Listing) -> f64) -> String {
    let mut table =
        "| name | what it does | cost | bytes | parameters and their defaults | from |\n".to_owned();
    table += "|---|---|---|---|---|---|\n";
    for listing in listings {
        let params = listing.params.iter().zip((listing.defaults)());
        let params: Vec<_> =
            params.map(|(param, default)| format!("`{}={default}` {}", param.name, param.about)).collect();
        table += &format!(
            "| `{}` | {} | {} | {:.0} | {} | {} |\n",
            listing.name,
            listing.about,
            listing.cost,
            metadata(listing),
            params.join("; "),
            listing.source
        );
    }
    table
}

/// One trace: a row for each policy, a column for each capacity.
fn ratios(cells: &[Cell]) -> String {
    let columns: Vec<_> = cells.chunk_by(|one, next| one.capacity == next.capacity).collect();
    let names = columns.iter().map(|column| about_count(column[0].capacity.amount));
    let by = unit(cells[0].capacity.by);
    let mut table =
        format!("\n### {}\n\n| {by} | {} |\n", cells[0].trace, names.collect::<Vec<_>>().join(" | "));
    table += &format!("|---|{}\n", "---|".repeat(columns.len()));
    for row in 0..columns[0].len() {
        let spec = &columns[0][row].spec;
        let mark = if is_offline(spec) { " (offline)" } else { "" };
        let ratios = columns.iter().map(|column| both(column, row)).collect::<Vec<_>>();
        table += &format!("| `{spec}`{mark} | {} |\n", ratios.join(" | "));
    }
    table
}

/// The two ratios of a column's `row`.
fn both(column: &[Cell], row: usize) -> String {
    let cell = &column[row];
    let text = |ratio: f64| format!("{:.2}", ratio * 100.0);
    let shown = |of: fn(&Cell) -> f64| {
        let online = column.iter().filter(|cell| !is_offline(&cell.spec));
        let best = online.map(of).fold(0.0, f64::max);
        match !is_offline(&cell.spec) && text(of(cell)) == text(best) {
            true => format!("**{}**", text(of(cell))),
            false => text(of(cell)),
        }
    };
    format!("{} / {}", shown(|cell| cell.hit_ratio), shown(|cell| cell.byte_hit_ratio))
}
