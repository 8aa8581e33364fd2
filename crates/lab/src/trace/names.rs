//! The names of a trace's objects, concatenated in one string: a million URLs are two allocations.

/// Names by object; an object that the trace identifies by a number has none.
#[derive(Debug, Default)]
pub(super) struct Names {
    text: String,
    /// The end of each object's name; it begins at the end of the name before.
    ends: Vec<usize>,
}

impl Names {
    /// Names object `id`; objects between the last named one and this one have no names.
    pub(super) fn push(&mut self, id: u32, name: &str) {
        self.ends.resize(id as usize, self.text.len());
        self.text.push_str(name);
        self.ends.push(self.text.len());
    }

    /// Returns the name of object `id`.
    pub(super) fn get(&self, id: u32) -> Option<&str> {
        let id = id as usize;
        let end = *self.ends.get(id)?;
        let begin = if id == 0 { 0 } else { self.ends[id - 1] };
        (begin < end).then(|| &self.text[begin..end])
    }
}
