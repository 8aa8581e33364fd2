//! The protocols, byte by byte, and their treatment of invalid input.

mod common;
mod line;
mod onc;
mod thrift;
