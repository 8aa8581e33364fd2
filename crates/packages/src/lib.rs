//! What the protocols of package registries promise about their URLs, as pure functions.
//!
//! A protocol is recognised by paths and documents, not by hosts, so that mirrors and private registries are treated as
//! the public ones:
//! - [`Resource::of`] tells what a path is: content whose digest its URL names, a file of a version, an index document;
//! - [`Document::read`] returns what an index document says about files: [`digest`]s and dates;
//! - [`learned`] keeps that, within bounds;
//! - [`Verifier`] compares content with the digests that it may have;
//! - [`pack_request`] and [`PackCheck`] do for packs of git what the others do for files;
//! - [`age`] decides whether a version is old enough, and [`Document::without_young`] removes the others.
//!
//! Times are seconds since 1970, as `u32`. This crate has no clock, no socket and no store.

pub mod age;
mod archive;
pub mod digest;
mod document;
mod json;
pub mod learned;
mod protocols;
mod resource;

pub use digest::{Digest, Mismatch, Verifier};
pub use document::{Document, Item, Place};
pub use learned::{FileRecord, FileRecords, News, Source, StoredContent, UrlId};
pub use protocols::git::{PackCheck, pack_request};
pub use protocols::{Protocol, Protocols};
pub use resource::{Keep, Kind, Resource, Version};
