//! Makes large values where they stay.

use std::pin::Pin;

/// Returns the value of `make` in a box. The box is allocated first, so that the value is written to it directly.
/// `Box::new` copies a value that is made before: of a future, all bytes, though few of them are in use yet.
#[inline(always)]
pub fn boxed<T>(make: impl FnOnce() -> T) -> Box<T> {
    Box::write(Box::new_uninit(), make())
}

/// The same for a value that must not move, such as a future.
#[inline(always)]
pub fn pinned<T>(make: impl FnOnce() -> T) -> Pin<Box<T>> {
    Box::into_pin(boxed(make))
}
