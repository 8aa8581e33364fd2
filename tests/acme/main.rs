//! Certificates by ACME, from Pebble, the ACME server of Let's Encrypt for tests: both challenges, renewal, failures,
//! files, and clusters. All connections use the loopback interface.

mod clusters;
mod dns;
mod failures;
mod files;
mod orders;
mod pebble;
mod renewal;
mod world;
