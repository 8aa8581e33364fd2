//! LRU of several sizes at once: one list in the order of the last use (R. L. Mattson et al., 1970).
//!
//! Each size has the objects from the front of the list to a mark of its own, except those too large for it. A request moves an
//! object to the front; a size that has no room for it moves its mark towards the front. So the work is as much as the evictions of
//! all sizes, and the memory as much as the largest one needs.

use hashbrown::HashMap;

use crate::request::{Answer, Change, Request, StoredCopy};
use crate::selection::Selection;

/// No node: the end of the list.
const NONE: u32 = u32::MAX;

/// The caches of `N` sizes, in ascending order.
pub(crate) struct LruStack<const N: usize> {
    nodes: Vec<Node<N>>,
    free: Vec<u32>,
    places: HashMap<u64, u32>,
    /// The node that was used last.
    front: u32,
    caches: [Cache; N],
}

/// One of the sizes.
#[derive(Clone, Copy)]
pub(crate) struct Cache {
    /// In fractions, as all weights.
    capacity: u64,
    /// The size of the largest object that is stored, in bytes.
    largest: u64,
    used: u64,
    pub(crate) objects: usize,
    /// The least recently used node that it has.
    last: u32,
    pub(crate) evictions: u64,
}

#[derive(Clone, Copy)]
struct Node<const N: usize> {
    key: u64,
    /// The size of the object in bytes, and what it takes of the capacity.
    size: u64,
    weight: u64,
    before: u32,
    behind: u32,
    /// The sizes that have it.
    has: [bool; N],
    /// In the order of the sizes: each may have fetched its copy at another time.
    copies: [StoredCopy; N],
}

impl<const N: usize> LruStack<N> {
    pub(crate) fn new() -> Self {
        let cache = Cache { capacity: 0, largest: 0, used: 0, objects: 0, last: NONE, evictions: 0 };
        Self { nodes: Vec::new(), free: Vec::new(), places: HashMap::new(), front: NONE, caches: [cache; N] }
    }

    pub(crate) fn caches(&self) -> &[Cache; N] {
        &self.caches
    }

    pub(crate) fn len(&self) -> usize {
        self.places.len()
    }

    pub(crate) fn bytes(&self) -> usize {
        self.nodes.capacity() * size_of::<Node<N>>()
            + self.free.capacity() * 4
            + self.places.allocation_size()
    }

    /// Sets the capacity of each size in fractions, and the size of the largest object that each stores; both ascend.
    pub(crate) fn set_sizes(&mut self, sizes: [(u64, u64); N]) {
        for (size, (capacity, largest)) in sizes.into_iter().enumerate() {
            (self.caches[size].capacity, self.caches[size].largest) = (capacity, largest);
            self.make_room(size, 0);
        }
    }

    /// Answers `request` for an object of this weight, in fractions, by each size.
    pub(crate) fn answer(&mut self, request: &Request, weight: u64) -> [Answer; N] {
        let key = request.object.key;
        if request.change == Change::Removed {
            self.unlink(key);
        }
        let copies = [request.copy(request.now); N];
        let size = request.object.size;
        let fresh = Node { key, size, weight, before: NONE, behind: NONE, has: [false; N], copies };
        let mut node = self.unlink(key).unwrap_or(fresh);
        let mut answers = [Answer::Miss; N];
        for (place, answer) in answers.iter_mut().enumerate() {
            let Cache { capacity, largest, .. } = self.caches[place];
            if node.has[place] {
                *answer = node.copies[place].answer(request);
            } else if request.freshness.is_some() && node.size <= largest && node.weight <= capacity {
                node.has[place] = true;
                node.copies[place] = request.copy(request.now);
            }
        }
        if node.has != [false; N] {
            self.link(node);
        }
        answers
    }

    /// Removes an object if it is no longer selected, and otherwise makes it take its part of the room.
    pub(crate) fn review(&mut self, key: u64, selection: &Selection) {
        let Some(&place) = self.places.get(&key) else { return };
        let node = &mut self.nodes[place as usize];
        if !selection.contains(key, node.size) {
            self.unlink(key);
            return;
        }
        let before = std::mem::replace(&mut node.weight, selection.part(key, node.size));
        let (after, has) = (node.weight, node.has);
        for size in (0..N).filter(|size| has[*size]) {
            let cache = &mut self.caches[size];
            cache.used = cache.used - before + after;
            self.make_room(size, 0);
        }
    }

    /// Passes the key, the size and the part of the room of each object to `see`.
    pub(crate) fn for_each(&self, see: &mut dyn FnMut(u64, u64, u64)) {
        for (key, place) in &self.places {
            let Node { size, weight, .. } = self.nodes[*place as usize];
            see(*key, size, weight);
        }
    }

    /// Counts a use of an object that another tier has answered.
    pub(crate) fn touch(&mut self, key: u64) {
        if let Some(node) = self.unlink(key) {
            self.link(node);
        }
    }

    /// Puts a node at the front, after each size that gets it has made room.
    fn link(&mut self, node: Node<N>) {
        let Node { key, weight, has, .. } = node;
        for size in (0..N).filter(|size| has[*size]) {
            self.make_room(size, weight);
        }
        let node = Node { before: NONE, behind: self.front, ..node };
        let place = match self.free.pop() {
            Some(place) => {
                self.nodes[place as usize] = node;
                place
            }
            None => {
                self.nodes.push(node);
                self.nodes.len() as u32 - 1
            }
        };
        if let Some(first) = self.nodes.get_mut(self.front as usize) {
            first.before = place;
        }
        self.front = place;
        self.places.insert(key, place);
        for (cache, _) in self.caches.iter_mut().zip(has).filter(|(_, has)| *has) {
            cache.used += weight;
            cache.objects += 1;
            if cache.last == NONE {
                cache.last = place;
            }
        }
    }

    /// Evicts from one size until `weight` more fits.
    fn make_room(&mut self, size: usize, weight: u64) {
        while self.caches[size].used + weight > self.caches[size].capacity && self.caches[size].last != NONE {
            let place = self.caches[size].last;
            self.caches[size].evictions += 1;
            self.leave(size, place);
            let node = &mut self.nodes[place as usize];
            node.has[size] = false;
            if node.has == [false; N] {
                self.forget(place);
            }
        }
    }

    /// Takes the node at `place` out of the account of one size.
    fn leave(&mut self, size: usize, place: u32) {
        let cache = &mut self.caches[size];
        cache.used -= self.nodes[place as usize].weight;
        cache.objects -= 1;
        if cache.last == place {
            let mut before = self.nodes[place as usize].before;
            while self.nodes.get(before as usize).is_some_and(|node| !node.has[size]) {
                before = self.nodes[before as usize].before;
            }
            cache.last = before;
        }
    }

    /// Takes an object out of all sizes and of the list.
    fn unlink(&mut self, key: u64) -> Option<Node<N>> {
        let place = *self.places.get(&key)?;
        let node = self.nodes[place as usize];
        for size in (0..N).filter(|size| node.has[*size]) {
            self.leave(size, place);
        }
        self.forget(place);
        Some(node)
    }

    /// Takes the node at `place`, which no size has any more, out of the list.
    fn forget(&mut self, place: u32) {
        let Node { key, before, behind, .. } = self.nodes[place as usize];
        match self.nodes.get_mut(before as usize) {
            Some(node) => node.behind = behind,
            None => self.front = behind,
        }
        if let Some(node) = self.nodes.get_mut(behind as usize) {
            node.before = before;
        }
        self.places.remove(&key);
        self.free.push(place);
    }
}
