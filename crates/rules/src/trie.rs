//! Prefixes of paths: finds all prefixes of a path in one pass.

/// A tree of bytes, with numbers at the nodes where a text ends.
#[derive(Clone, Debug)]
pub(crate) struct Trie {
    nodes: Vec<Node>,
}

#[derive(Clone, Debug, Default)]
struct Node {
    /// The children, sorted by their bytes.
    children: Vec<(u8, u32)>,
    /// The numbers of texts that end here and match everything that begins with them.
    prefixes: Vec<u16>,
    /// The numbers of texts that end here and match only themselves.
    whole: Vec<u16>,
}

impl Trie {
    pub(crate) fn new() -> Self {
        Self { nodes: vec![Node::default()] }
    }

    /// Adds `number` for `text`; with `is_whole`, it matches no longer text.
    pub(crate) fn add(&mut self, text: &[u8], is_whole: bool, number: u16) {
        let mut at = 0;
        for byte in text {
            at = match self.nodes[at].children.binary_search_by_key(byte, |(byte, _)| *byte) {
                Ok(child) => self.nodes[at].children[child].1 as usize,
                Err(place) => {
                    let new = self.nodes.len();
                    self.nodes.push(Node::default());
                    self.nodes[at].children.insert(place, (*byte, new as u32));
                    new
                }
            };
        }
        let node = &mut self.nodes[at];
        if is_whole { &mut node.whole } else { &mut node.prefixes }.push(number);
    }

    /// Calls `found` with the number of each text that is a prefix of `path`, or equals it.
    pub(crate) fn find(&self, path: &[u8], mut found: impl FnMut(u16)) {
        let mut node = &self.nodes[0];
        node.prefixes.iter().for_each(|number| found(*number));
        for byte in path {
            let Some((_, child)) = node.children.iter().find(|(known, _)| known == byte) else { return };
            node = &self.nodes[*child as usize];
            node.prefixes.iter().for_each(|number| found(*number));
        }
        node.whole.iter().for_each(|number| found(*number));
    }
}
