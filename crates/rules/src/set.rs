//! All rules of a site, with an index of those that can hold for a request.

use hashbrown::HashMap;
use smallvec::SmallVec;

use crate::conditions::{Conditions, Fields, Request, Response};
use crate::path::extension;
use crate::trie::Trie;

/// A rule without its effects.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rule {
    /// The conditions under which it holds.
    pub conditions: Conditions,
    /// Whether no later rule holds if this one does.
    pub stop: bool,
}

/// The numbers of rules, ascending from 0 in their written order.
pub type Numbers = SmallVec<[u16; 16]>;

/// Rules in their written order.
#[derive(Debug)]
pub struct RuleSet {
    rules: Vec<CompiledRule>,
    /// The rules whose paths have a known prefix.
    paths: Trie,
    /// The rules with extensions and without such paths, by the extension in lower case.
    extensions: HashMap<Box<[u8]>, Vec<u16>, foldhash::fast::FixedState>,
    /// The length of the longest extension.
    longest_extension: usize,
    /// All other rules.
    others: Vec<u16>,
}

#[derive(Debug)]
struct CompiledRule {
    rule: Rule,
    needs_response: bool,
}

/// The rules that a request may meet, usually few.
type Candidates = SmallVec<[u16; 32]>;

impl RuleSet {
    /// The most rules of a set.
    pub const MOST: usize = 10_000;

    /// Compiles `rules`, at most [`MOST`](Self::MOST); further ones are ignored.
    pub fn new(rules: Vec<Rule>) -> Self {
        let compile = |rule: Rule| CompiledRule { needs_response: rule.conditions.need_response(), rule };
        let mut set = Self {
            rules: rules.into_iter().take(Self::MOST).map(compile).collect(),
            paths: Trie::new(),
            extensions: HashMap::default(),
            longest_extension: 0,
            others: Vec::new(),
        };
        for number in 0..set.rules.len() {
            set.index(number as u16);
        }
        set
    }

    fn index(&mut self, number: u16) {
        let conditions = &self.rules[usize::from(number)].rule.conditions;
        let has_beginning = |literal: (&str, bool)| !literal.0.is_empty();
        if !conditions.path.is_empty() && conditions.path.iter().all(|path| has_beginning(path.literal())) {
            for path in &conditions.path {
                let (text, is_whole) = path.literal();
                self.paths.add(text.as_bytes(), is_whole, number);
            }
        } else if !conditions.extension.is_empty() {
            for extension in &conditions.extension {
                let extension: Box<[u8]> = extension.to_ascii_lowercase().into_bytes().into();
                self.longest_extension = self.longest_extension.max(extension.len());
                self.extensions.entry(extension).or_default().push(number);
            }
        } else {
            self.others.push(number);
        }
    }

    /// Whether there are no rules.
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// Iterates over the rules in their order.
    pub fn rules(&self) -> impl Iterator<Item = &Rule> {
        self.rules.iter().map(|compiled| &compiled.rule)
    }

    /// Returns the rules that hold for `request` before it has a response.
    #[inline]
    pub fn on_request<F: Fields>(&self, request: &Request<'_, F>) -> Numbers {
        self.holding(request, |compiled| !compiled.needs_response)
    }

    /// Returns the rules that hold for `request` and its `response`.
    pub fn on_response<Q: Fields, F: Fields>(
        &self,
        request: &Request<'_, Q>,
        response: &Response<'_, F>,
    ) -> Numbers {
        self.holding(request, |compiled| {
            !compiled.needs_response || compiled.rule.conditions.hold_with(request, response)
        })
    }

    /// Whether rules that need the response may hold for some request.
    pub fn needs_responses(&self) -> bool {
        self.rules.iter().any(|compiled| compiled.needs_response)
    }

    fn holding<F: Fields>(&self, request: &Request<'_, F>, also: impl Fn(&CompiledRule) -> bool) -> Numbers {
        let mut holding = Numbers::new();
        for number in self.candidates(request.path) {
            let compiled = &self.rules[usize::from(number)];
            if compiled.rule.conditions.hold_for(request) && also(compiled) {
                holding.push(number);
                if compiled.rule.stop {
                    break;
                }
            }
        }
        holding
    }

    /// Returns the rules that can hold for a path, in their order.
    fn candidates(&self, path: &[u8]) -> Candidates {
        let mut candidates = Candidates::new();
        self.paths.find(path, |number| candidates.push(number));
        if !self.extensions.is_empty()
            && let Some(extension) = extension(path).filter(|own| own.len() <= self.longest_extension)
        {
            let mut lower: SmallVec<[u8; 16]> = SmallVec::from_slice(extension);
            lower.make_ascii_lowercase();
            candidates.extend(self.extensions.get(&*lower).into_iter().flatten().copied());
        }
        candidates.extend_from_slice(&self.others);
        if candidates.len() > 1 {
            candidates.sort_unstable();
            candidates.dedup();
        }
        candidates
    }
}
