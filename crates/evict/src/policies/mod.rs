//! THE LIST of policies, one file each. To add a policy, add its file and two lines here: `mod NAME;`, and its line in
//! the list, from which its name, its variant, parsing, help and docs follow.
//!
//! The list could declare the modules as well, but then `cargo fmt` would not find their files.

use crate::listing::policies;

mod adaptive;
mod arc;
mod belady;
mod belady_size;
mod clock;
mod greedy_dual;
mod hyperbolic;
mod lecar;
mod lfu;
mod lhd;
mod lirs;
mod lru_k;
mod maxs;
mod queue;
mod rand;
mod s3fifo;
mod sieve;
mod slru;
mod tinylfu;
mod two_q;
mod wtinylfu;

policies! {
    "2q" two_q::TwoQ "T. Johnson, D. Shasha, 2Q: a low overhead high performance buffer management replacement algorithm, VLDB 1994";
    "adaptive" adaptive::Adaptive "after L. Cherkasova, GDSF, 1998, and C. Waldspurger et al., miniature simulations, ATC 2017";
    "arc" arc::Arc "N. Megiddo, D. S. Modha, ARC: a self-tuning, low overhead replacement cache, FAST 2003";
    "belady" belady::Belady "L. A. Belady, A study of replacement algorithms for a virtual-storage computer, 1966";
    "beladysize" belady_size::BeladySize "after L. A. Belady, with sizes";
    "clock" clock::Clock "F. J. Corbato, A paging experiment with the Multics system, 1968";
    "fifo" queue::Fifo "L. A. Belady, A study of replacement algorithms for a virtual-storage computer, 1966";
    "gds" greedy_dual::Gds "P. Cao and S. Irani, Cost-aware WWW proxy caching algorithms, 1997";
    "gdsf" greedy_dual::Gdsf "L. Cherkasova, Improving WWW proxies performance with Greedy-Dual-Size-Frequency caching policy, 1998";
    "hyperbolic" hyperbolic::Hyperbolic "A. Blankstein et al., Hyperbolic caching: flexible caching for web applications, ATC 2017";
    "lecar" lecar::LeCaR "G. Vietri et al., Driving cache replacement with ML-based LeCaR, HotStorage 2018";
    "lfu" lfu::Lfu "A. V. Aho et al., Principles of optimal page replacement, 1971";
    "lfuda" greedy_dual::Lfuda "M. Arlitt et al., Evaluating content management techniques for web proxy caches, 1999";
    "lhd" lhd::Lhd "N. Beckmann et al., LHD: improving cache hit rate by maximizing hit density, NSDI 2018";
    "lirs" lirs::Lirs "S. Jiang, X. Zhang, LIRS: an efficient low inter-reference recency set replacement policy, SIGMETRICS 2002";
    "lru" queue::Lru "R. L. Mattson et al., Evaluation techniques for storage hierarchies, 1970";
    "lruk" lru_k::LruK "E. J. O'Neil, P. E. O'Neil, G. Weikum, The LRU-K page replacement algorithm for database disk buffering, SIGMOD 1993";
    "maxs" maxs::Maxs "S. Williams et al., Removal policies in network caches for World-Wide Web documents, 1996";
    "rand" rand::Rand "L. A. Belady, A study of replacement algorithms for a virtual-storage computer, 1966";
    "s3fifo" s3fifo::S3Fifo "J. Yang et al., FIFO queues are all you need for cache eviction, SOSP 2023";
    "sieve" sieve::Sieve "Y. Zhang et al., SIEVE is simpler than LRU, NSDI 2024";
    "slru" slru::Slru "R. Karedla et al., Caching strategies to improve disk system performance, Computer 1994";
    "tinylfu" tinylfu::TinyLfu "G. Einziger, R. Friedman and B. Manes, TinyLFU: a highly efficient cache admission policy, 2017";
    "wtinylfu" wtinylfu::WTinyLfu "G. Einziger, O. Eytan, R. Friedman and B. Manes, Adaptive software cache management, 2018";
}

pub use crate::parts::urn::Samples;
