//! Requests to send: methods, URLs, fields and bodies, in order.

use std::collections::HashMap;

/// Requests in order. Each URL is stored once.
#[derive(Clone, Debug, Default)]
pub struct Requests {
    urls: Vec<String>,
    items: Vec<Item>,
}

#[derive(Clone, Debug)]
struct Item {
    url: u32,
    /// `None` for a GET without fields and body, the most frequent kind of request.
    more: Option<Box<More>>,
}

/// The parts of a request other than a GET of its URL.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct More {
    /// The method: a token, such as `POST`.
    pub method: String,
    /// Names and values of the fields, verbatim.
    pub fields: Vec<(String, String)>,
    /// The body, verbatim; empty for none.
    pub body: String,
}

/// One request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SentRequest<'r> {
    /// Its method.
    pub method: &'r str,
    /// Its URL; or its path, for the connected server.
    pub url: &'r str,
    /// Names and values of its fields.
    pub fields: &'r [(String, String)],
    /// Its content; empty for none.
    pub body: &'r str,
}

impl Requests {
    /// Returns GETs of `urls`; `order` contains their positions.
    pub fn gets(urls: Vec<String>, order: &[u32]) -> Self {
        Self { urls, items: order.iter().map(|&url| Item { url, more: None }).collect() }
    }

    /// Returns the number of requests.
    pub fn len(&self) -> usize {
        self.items.len()
    }

    /// Whether there are no requests.
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// Returns request number `at`, counted from 0; it must exist.
    pub fn get(&self, at: usize) -> SentRequest<'_> {
        let Item { url, more } = &self.items[at];
        let url = &*self.urls[*url as usize];
        match more.as_deref() {
            None => SentRequest { method: "GET", url, fields: &[], body: "" },
            Some(More { method, fields, body }) => SentRequest { method, url, fields, body },
        }
    }

    /// Returns every URL once.
    pub fn urls(&self) -> &[String] {
        &self.urls
    }

    /// Replaces each URL by the result of `make`.
    ///
    /// # Errors
    /// The first error of `make`.
    pub fn change_urls<E>(&mut self, make: impl Fn(&str) -> Result<String, E>) -> Result<(), E> {
        self.urls.iter_mut().try_for_each(|url| {
            *url = make(url)?;
            Ok(())
        })
    }

    /// Adds `fields` to those of each request.
    pub fn add_fields(&mut self, fields: &[(String, String)]) {
        for item in self.items.iter_mut().filter(|_| !fields.is_empty()) {
            let get = || Box::new(More { method: "GET".to_owned(), ..More::default() });
            item.more.get_or_insert_with(get).fields.extend_from_slice(fields);
        }
    }

    /// Keeps only GETs without body, for protocols that have no other requests. Returns the number of removed requests.
    pub fn leave_gets(&mut self) -> usize {
        let before = self.items.len();
        self.items.retain(|item| {
            item.more.as_ref().is_none_or(|more| more.method == "GET" && more.body.is_empty())
        });
        before - self.items.len()
    }
}

/// Collects requests.
#[derive(Debug, Default)]
pub struct RequestCollector {
    /// The requests so far.
    pub requests: Requests,
    known: HashMap<String, u32>,
}

impl RequestCollector {
    /// Adds a request for `url`.
    pub fn push(&mut self, url: &str, more: More) {
        let Requests { urls, items } = &mut self.requests;
        let url = match self.known.get(url) {
            Some(&known) => known,
            None => {
                let number = urls.len() as u32;
                urls.push(url.to_owned());
                self.known.insert(url.to_owned(), number);
                number
            }
        };
        let is_plain = more.method == "GET" && more.fields.is_empty() && more.body.is_empty();
        items.push(Item { url, more: (!is_plain).then(|| Box::new(more)) });
    }

    /// Adds a field to the latest request. Returns false if there is none.
    pub fn add_field(&mut self, name: &str, value: &str) -> bool {
        let Some(item) = self.requests.items.last_mut() else { return false };
        let get = || Box::new(More { method: "GET".to_owned(), ..More::default() });
        item.more.get_or_insert_with(get).fields.push((name.to_owned(), value.to_owned()));
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn more(method: &str, body: &str) -> More {
        More { method: method.to_owned(), fields: Vec::new(), body: body.to_owned() }
    }

    #[test]
    fn requests_keep_their_order_and_what_they_have() {
        let mut gather = RequestCollector::default();
        assert!(!gather.add_field("A", "b"));
        gather.push("/a", more("GET", ""));
        gather.push("/b", more("POST", "{}"));
        gather.push("/a", more("GET", ""));
        assert!(gather.add_field("A", "b"));
        let mut requests = gather.requests;
        requests.add_fields(&[("C".to_owned(), "d".to_owned())]);
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let (one, two) = ([pair("C", "d")], [pair("A", "b"), pair("C", "d")]);
        let get = |url, fields| SentRequest { method: "GET", url, fields, body: "" };
        assert_eq!(requests.get(0), get("/a", &one));
        assert_eq!(requests.get(1), SentRequest { method: "POST", url: "/b", fields: &one, body: "{}" });
        assert_eq!(requests.get(2), get("/a", &two));
        assert_eq!(requests.urls(), ["/a", "/b"]);
        assert_eq!((requests.leave_gets(), requests.len()), (1, 2));
    }
}
