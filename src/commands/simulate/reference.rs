//! Renders `docs/policies.md` from the registry and the results of the policies on traces, so that both agree with the
//! program.

use larder_evict::{FILTERS, Listing, POLICIES};
use larder_lab::sweep::Cell;

use super::data::is_offline;
use super::policies::{filter_metadata, metadata};
use crate::cli::units::about_count;

const INTRODUCTION: &str = "\
# Eviction policies

An eviction policy decides which objects stay when the cache is full. `--policy NAME` selects one, for `larder serve` and for
`larder simulate`, with the same code. `NAME:param=value,param=value` sets parameters, and `FILTER+NAME` adds an admission filter.

`larder simulate --reference traces/*.zst` generates this page; `larder simulate --list` prints the list at a terminal.

## Which one

Try them on your own log: `larder simulate access.log`. As a rule of thumb:

- **Unknown or changing traffic**: `adaptive`. It adapts to the requests, and optimises the hit ratio or, with
  `objective=bytes`, the byte hit ratio. One costs the other: on adaptsize_web the default misses up to 5% more bytes than
  `objective=bytes`, which misses 4 to 11% more requests than the default. On semicomplete_weblog, with a cache for a fifth of all bytes,
  the default misses 78% more bytes, and `objective=bytes` misses 79% more requests.
- **Loops and scans**, as in traces of disk blocks: `adaptive`, `s3fifo`, `2q`, `lirs` or `wtinylfu`. `adaptive` keeps a part of a loop
  that is larger than the cache, but has to learn first. Over 38 recorded and generated traces at 6 sizes, it missed up to 31% more than the best policy of
  the cell (one trace at one size) with 100,000 requests or more, and up to 72% more on shorter traces. Probation, where new objects have to be requested
  again before they evict others, ends where the cache misses more with it than a ghost without. It cost at most 0.5% more misses in a cell of the shipped
  traces, and up to 4% in generated ones where requests go back and forth over all objects; `probation=false` switches it off.
- **Best hit ratio**, objects of many sizes: `gdsf`. Small objects that are requested often stay; a large one needs many
  requests.
- **Best byte hit ratio**, or objects of one size: `s3fifo`, `sieve`, `arc` or `slru`. Objects with one request are evicted soon.
- **Stable popularity**: `lfu`.
- **Changing popularity**: `lfuda`, or `wtinylfu`, which remembers evicted objects.
- **Lowest cost**: `fifo` and `sieve` do almost nothing on a hit. Most caches use `lru`; compare with it.
- `maxs`, `rand` and `gds` are for teaching. `belady` and `beladysize` use future requests: no cache can exceed
  `belady` if all objects have one size, and `beladysize` approximates that bound for many sizes.
";

const PRICES: &str = "\
Cost is that of the most expensive operation with n objects. Bytes are the memory for an object, including its number and
size, without the index.
";

const DIFFERENCES: &str = "\
## How they differ from the papers and from libCacheSim

Papers mostly count pages of one size. Here every share is one of the capacity, in bytes or in entries, and a target that the paper
moves by a page moves by an object's weight. An object of any size up to the capacity is stored, even if it is larger than a queue;
libCacheSim refuses such objects in S3-FIFO, 2Q, SLRU and LIRS, which raises its hit ratio and lowers its byte hit ratio. Policies that are
not listed follow their paper. [docs/internals/policies.md](internals/policies.md) lists how much the misses differ.

| policy | here | why |
|---|---|---|
| `2q` | the weight of a new object counts as part of the queue `a1in` that it enters; the paper's pages may exceed the share by one | a large object would otherwise evict repeatedly requested ones: on semicomplete_weblog up to 8% fewer misses, and none of its cells has more |
| `adaptive` | not from a paper: GDSF with counts that survive eviction; ghost caches choose between GDSF, LRU, and a queue for new objects as in S3-FIFO | learns from the traffic |
| `arc` | the target moves by an object's weight | sizes |
| `gdsf` | a new object that is worth less than the objects that would be evicted for it is refused; the paper stores it | one large object does not evict many small ones |
| `lecar` | the age of a regret is the number of the expert's victims since, not of requests | a cache has no other clock |
| `lirs` | the ghosts weigh at most as much as the capacity; the paper's stack has no bound | bounds the memory |
| `lruk` | no period of correlated references; requests of evicted objects are remembered for a quarter of the capacity, not for a time | a cache has no clock here |
| `s3fifo` | `fill=main` is not in the paper: before the first eviction, new objects enter the main queue once the small one is full. libCacheSim has used both rules | over 27 public traces at 6 sizes 2.0% fewer misses on average: 45 cells with 0.5% or more fewer, most of all where a loop is larger than the cache, and 18 with more, one of them 49% more, since objects that fill the main queue stay there even if they are not requested again |
| `s3fifo` | `skip` and `returns` are S4-FIFO's probation share and ghost threshold (OSDI 2026), which change nothing by default. Each kind of ghost has a separate queue; in S4-FIFO they share one | over 38 recorded and generated traces at 6 sizes, neither is better on all: `skip=0.25` misses 0.5% or more fewer in 24 cells and more in 16, from 14% fewer to 3% more; `returns=2` fewer in 35 and more in 77, from 29% fewer to 17% more |
| `slru` | four equal segments, as in libCacheSim; the paper has two. A new object enters the lowest segment that has room | comparable with libCacheSim |
| `tinylfu`, `wtinylfu` | no doorkeeper in front of the counters; all counters of a key share a cache line | one memory access for each request |
| `wtinylfu` | the window adapts after as many lookups as there were residents, ten times as often as in the paper (`period=10`); libCacheSim's window is fixed | the window also adapts in short traces and new caches: with `period=10`, semicomplete_weblog misses 47% more at 20%, and adaptsize_web 4% more at 10%. With steady traffic, `period=10` is better: on 27 traces at 6 sizes it misses 0.7% less on average |
";

const LEARNING: &str = "\
## Where learning does not help

A study compared two numbers over the shipped traces at six capacities: the misses that a policy can avoid if it knows future requests, and the misses
that gradient-boosted trees avoid, which estimate future requests from the last intervals, age, counts and size of an object. The history of the
repository has its program (`crates/evict/examples/learning`). Figures are misses as shares of those of the best policy of each cell: the geometric mean, and the worst cell.

| the victim is chosen by, among | requests, mean | worst | bytes, mean | worst |
|---|---|---|---|---|
| `adaptive` | 1.004 | 1.035 | 1.032 | 1.187 |
| future: 8 next victims of greedy dual, every new object stored | 1.011 | 1.752 | 1.071 | 1.696 |
| future: the next victim or the new object | 0.977 | 1.003 | 0.943 | 0.999 |
| future: 8 next victims or the new object | 0.954 | 1.000 | 0.945 | 0.999 |
| future: 64 random residents or the new object | 0.870 | 0.999 | 0.917 | 0.998 |
| trees that know the whole trace: 8 next victims or the new object | 1.007 | 1.051 | 1.024 | 1.332 |
| trees that know the whole trace: 64 random residents or the new object | 0.992 | 1.012 | 1.034 | 1.392 |
| trees that learn online: 64 random residents or the new object | 1.007 | 1.076 | 1.062 | 1.541 |
| the last, or `adaptive` where it misses less in the cell | 1.001 | 1.031 | 1.018 | 1.187 |
| the same choice for each twentieth of the trace | 0.998 | 1.011 | 1.007 | 1.187 |

A policy that knows future requests avoids many misses, but not if it only chooses among the next victims: each new object then evicts another. It avoids
most if it can refuse new objects and choose the victims among all residents. In that case, the trees avoid 0.8% of the missed requests and no missed bytes,
although they are fitted to the same requests beforehand; trees that are fitted online miss more than the best policy. They need 64 estimates for each
victim. A cache that runs both and follows the better one cannot know the future either: even with a choice afterwards, it misses about as much as the best
policy. So no policy here uses such a model. These trees are no bound: another model, or more data about the objects, may avoid more.

Without one group of features, the trees that choose among 64 random residents miss (means):

| left out | whole trace: requests | bytes | online: requests | bytes |
|---|---|---|---|---|
| nothing | 0.992 | 1.034 | 1.007 | 1.062 |
| the time since the last request | 0.992 | 1.025 | 1.005 | 1.064 |
| the last three intervals and their mean | 0.995 | 1.042 | 1.005 | 1.075 |
| the counts | 0.997 | 1.046 | 1.014 | 1.048 |
| the size | 0.995 | 0.999 | 1.011 | 1.030 |

For requests, the counts bring most, then the size; age and intervals bring nothing to trees that are fitted online. For bytes, trees are better without the
size, and those that are fitted online also without the counts: both because of semicomplete_weblog. On adaptsize_web, no group changes the mean by more than 0.5%.
";

const RATIOS: &str = "\
## Results on the shipped traces

Hit ratio / byte hit ratio in percent, by capacity. The best of each column is bold, without the offline policies.
[traces/README.md](../traces/README.md) describes the traces.
";

/// Renders the page.
pub(super) fn page(cells: &[Cell]) -> String {
    let mut page = INTRODUCTION.to_owned();
    page += &format!("\n## All of them\n\n{PRICES}\n");
    page += &listings(POLICIES, |policy| metadata(policy.name));
    page += "\n## Admission filters\n\nThey decide which objects are stored. Their bytes are in addition to the policy's.\n\n";
    page += &listings(FILTERS, filter_metadata);
    page += &format!("\n{DIFFERENCES}\n{LEARNING}\n{RATIOS}");
    for trace in cells.chunk_by(|one, next| one.trace == next.trace) {
        page += &ratios(trace);
    }
    page
}

fn listings(listings: &[Listing], metadata: impl Fn(&Listing) -> f64) -> String {
    let mut table =
        "| name | description | cost | bytes | parameters and their defaults | from |\n".to_owned();
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

/// Renders one trace: a row for each policy, a column for each capacity.
fn ratios(cells: &[Cell]) -> String {
    let columns: Vec<_> = cells.chunk_by(|one, next| one.capacity == next.capacity).collect();
    let names = columns.iter().map(|column| about_count(column[0].capacity.amount));
    let by = cells[0].capacity.by.name();
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

/// Returns the two ratios of a column's `row`.
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
