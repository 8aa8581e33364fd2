//! THE LIST of admission filters, one file each. To add a filter, add its file and two lines here, as for a policy.

use crate::listing::filters;

mod adapt_size;
mod frequency;
mod second_hit;
mod size_limit;

filters! {
    "adaptsize" adapt_size::AdaptSize "D. Berger et al., AdaptSize: orchestrating the hot object memory cache in a CDN, 2017";
    "secondhit" second_hit::SecondHit "B. Maggs and R. Sitaraman, Algorithmic nuggets in content delivery, 2015";
    "size" size_limit::SizeLimit "the limits on object size that proxies have had since the 1990s";
    "tinylfu" frequency::Frequency "G. Einziger, R. Friedman and B. Manes, TinyLFU: a highly efficient cache admission policy, 2017";
}

pub(crate) use frequency::outweighs;
