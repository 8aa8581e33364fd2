//! The bytes of memory that allocations take, for everything that is charged to a budget.

/// Returns the bytes that an allocator with four size classes for each doubling (jemalloc, mimalloc) takes
/// for `size` bytes.
pub(crate) fn allocated(size: usize) -> usize {
    match size {
        0 => 0,
        1..=128 => size.next_multiple_of(16),
        _ => size.next_multiple_of(size.next_power_of_two() >> 3),
    }
}

#[cfg(test)]
mod tests {
    use super::allocated;

    #[test]
    fn sizes_round_up_to_the_classes_of_the_allocator() {
        let classes = [(0, 0), (1, 16), (128, 128), (129, 160), (257, 320), (1024, 1024), (1025, 1280)];
        for (size, class) in classes {
            assert_eq!(allocated(size), class, "{size} bytes");
        }
    }
}
