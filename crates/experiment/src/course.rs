//! A workload for live requests: numbered pages, and the order of requests for them.

use std::collections::HashMap;
use std::net::SocketAddr;

use larder_lab::trace::{Builder, Record, Trace};
use larder_lab::workload::{Requests, Workload};

/// A page of the origin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Page {
    /// The size of the page's content, in bytes.
    pub size: u64,
    /// The origin's time for the page, in microseconds.
    pub cost: u32,
}

/// Pages, numbered by first request, and requests for them.
#[derive(Clone, Debug)]
pub struct Course {
    /// The pages, by number.
    pub pages: Vec<Page>,
    /// The pages' numbers, in the order of the requests.
    pub order: Vec<u32>,
}

impl Course {
    /// Returns the GETs of `workload`.
    pub fn new(workload: Workload) -> Self {
        let mut numbers = HashMap::new();
        let (mut pages, mut order) = (Vec::new(), Vec::new());
        for step in workload.steps {
            let number = *numbers.entry(step.path).or_insert_with(|| {
                pages.push(Page { size: step.size, cost: step.cost });
                pages.len() as u32 - 1
            });
            order.push(number);
        }
        Self { pages, order }
    }

    /// Returns `count` identical pages with one request for each.
    pub fn once(count: u32, page: Page) -> Self {
        Self { pages: vec![page; count as usize], order: (0..count).collect() }
    }

    /// Returns the URLs of the pages on `origin`.
    pub fn urls(&self, origin: SocketAddr) -> Vec<String> {
        (0..self.pages.len()).map(|page| format!("http://{origin}/page/{page}")).collect()
    }

    /// Returns the requests for the pages on `origin`.
    pub fn requests(&self, origin: SocketAddr) -> Requests {
        Requests::gets(self.urls(origin), &self.order)
    }

    /// Returns the requests as a trace, with the sizes of the pages' contents.
    pub fn trace(&self) -> Trace {
        let mut builder = Builder::default();
        for (at, &page) in self.order.iter().enumerate() {
            let Page { size, cost } = self.pages[page as usize];
            let record = Record { key: u64::from(page), time: at as u64, size, cost };
            // No experiment has more requests than a trace can hold.
            let _ = builder.push_number(record);
        }
        builder.finish()
    }

    /// Returns the bytes of content of all pages together.
    pub fn content(&self) -> u64 {
        self.pages.iter().map(|page| page.size).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use larder_lab::workload::{self, Dataset, Latency, Order, Pages, Rate, Sizes};

    #[test]
    fn pages_are_numbered_as_they_come() {
        let pages = Pages { sizes: Sizes::Fixed(1), latency: Latency::Constant(7) };
        let course = Course::new(workload::pages(&Order::Browsing(Dataset::One), &pages, Rate(10.0), 1));
        assert_eq!((course.pages.len(), course.order.len()), (68, 997));
        assert_eq!(course.order[0], 0);
        let mut frontier = 0;
        for &page in &course.order {
            assert!(page <= frontier);
            frontier = frontier.max(page + 1);
        }
        let trace = course.trace();
        assert_eq!((trace.len(), trace.ids()), (997, &course.order[..]));
        assert_eq!(trace.distinct_bytes(), course.content());
    }
}
