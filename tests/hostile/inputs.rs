//! Request fields that an origin believes and the cache key does not contain.
