//! Files that break.
