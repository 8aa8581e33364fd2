//! The time of a cipher alone, as aws-lc-rs computes it.

use anyhow::{Result, anyhow};
use aws_lc_rs::aead::{AES_128_GCM, AES_256_GCM, Aad, CHACHA20_POLY1305, LessSafeKey, Nonce, UnboundKey};
use rustix::time::{ClockId, clock_gettime};
use rustls::CipherSuite;
use std::hint::black_box;
use std::time::{Duration, Instant};

/// The most content of a record (RFC 8446, section 5.1).
const RECORD: usize = 1 << 14;
/// The sealed content.
const CONTENT: usize = 1 << 20;
/// The length of a record's header, which is authenticated.
const HEADER: usize = 5;

/// Returns the CPU nanoseconds in which the cipher of `suite` seals 1 MiB in place, in records of 16 KiB. Repeats it for
/// `duration`. Fails if the library refuses to seal.
pub(crate) fn nanoseconds(suite: CipherSuite, duration: Duration) -> Result<u64> {
    let refused = |_| anyhow!("aws-lc-rs refuses to seal");
    let algorithm = match format!("{suite:?}") {
        name if name.contains("CHACHA20") => &CHACHA20_POLY1305,
        name if name.contains("AES_256") => &AES_256_GCM,
        _ => &AES_128_GCM,
    };
    let key = UnboundKey::new(algorithm, &vec![7; algorithm.key_len()]).map_err(refused)?;
    let key = LessSafeKey::new(key);
    let mut content = vec![b'x'; CONTENT];
    let (mut sealed, mut sequence) = (0, 0_u64);
    let (begun, before) = (Instant::now(), spent());
    while sealed == 0 || begun.elapsed() < duration {
        for record in content.chunks_mut(RECORD) {
            let mut nonce = [0; 12];
            nonce[4..].copy_from_slice(&sequence.to_be_bytes());
            sequence += 1;
            let nonce = Nonce::assume_unique_for_key(nonce);
            let tag = key.seal_in_place_separate_tag(nonce, Aad::from([23; HEADER]), record);
            let _ = black_box(tag.map_err(refused)?);
        }
        sealed += 1;
    }
    Ok(spent().saturating_sub(before).as_nanos() as u64 / sealed)
}

/// Returns the CPU time of this thread.
fn spent() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}
