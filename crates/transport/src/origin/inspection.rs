//! Looks at content while it arrives. The last piece is held back until the whole has been examined, so that nobody takes
//! content for complete that is refused, and a client knows nothing of an index that is not known here.

use larder_packages::{Mismatch, Verifier};
use larder_words::debug_as;
use tokio::task::JoinHandle;

use crate::net::byte_budget::Share;

/// Content up to this length is read in the thread that receives it, longer content in one for blocking work, in bytes.
const SHORT: usize = 64 << 10;

/// Called with the content when it is complete.
pub type ContentReader = Box<dyn FnOnce(Vec<u8>) + Send + Sync>;

/// Called with the digests of content that is not what it has to be.
type MismatchReport = Box<dyn FnOnce(&Mismatch) + Send + Sync>;

/// The content so far.
struct GatheredContent {
    bytes: Vec<u8>,
    /// Its part of the budget for contents that are gathered.
    share: Share,
    /// The longest content that is gathered, in bytes.
    most: usize,
    reader: ContentReader,
}

/// The examination of one content.
#[derive(Default)]
pub struct Inspection {
    verifier: Option<Verifier>,
    /// Called if the content is not what it has to be.
    on_mismatch: Option<MismatchReport>,
    gathered: Option<GatheredContent>,
    reading: Option<JoinHandle<()>>,
    held: Vec<u8>,
    passed: Vec<u8>,
    /// Whether all content has been examined.
    is_over: bool,
}

impl Inspection {
    /// Compares the content with the digests of `verifier`, and calls `on_mismatch` if it has none of them.
    pub fn verify(
        mut self,
        verifier: Option<Verifier>,
        on_mismatch: impl FnOnce(&Mismatch) + Send + Sync + 'static,
    ) -> Self {
        self.on_mismatch = verifier.is_some().then(|| Box::new(on_mismatch) as _);
        self.verifier = verifier;
        self
    }

    /// Gives the content to `reader`, if it has at most `most` bytes and there is room in the budget of `share`.
    pub fn read(mut self, reader: Option<ContentReader>, share: Share, most: usize) -> Self {
        self.gathered = reader.map(|reader| GatheredContent { bytes: Vec::new(), share, most, reader });
        self
    }

    /// Whether there is nothing to examine.
    pub fn is_idle(&self) -> bool {
        self.verifier.is_none() && self.gathered.is_none()
    }

    /// Adds content that precedes the download and is sent from elsewhere.
    pub fn precede(&mut self, piece: &[u8]) {
        self.verifier.iter_mut().for_each(|verifier| verifier.update(piece));
    }

    /// Adds a piece, and returns whether an earlier one may pass.
    pub(super) fn add(&mut self, piece: &[u8]) -> bool {
        self.precede(piece);
        if self.gathered.as_mut().is_some_and(|gathered| !gathered.add(piece)) {
            self.gathered = None;
        }
        std::mem::swap(&mut self.passed, &mut self.held);
        self.held.clear();
        self.held.extend_from_slice(piece);
        !self.passed.is_empty()
    }

    /// Returns the bytes that may pass.
    pub(super) fn passed(&self) -> &[u8] {
        &self.passed
    }

    /// Ends the content: verifies it, and waits until it has been read. Errors: the digests, if they differ.
    pub(super) async fn end(&mut self) -> Result<(), String> {
        if let Some(mismatch) = self.verifier.take().and_then(|verifier| verifier.finish().err()) {
            (self.gathered, self.is_over) = (None, true);
            self.on_mismatch.take().into_iter().for_each(|call| call(&mismatch));
            return Err(mismatch.to_string());
        }
        match self.gathered.take() {
            Some(GatheredContent { bytes, reader, .. }) if bytes.len() <= SHORT => reader(bytes),
            Some(GatheredContent { bytes, reader, share, .. }) => {
                self.reading = Some(tokio::task::spawn_blocking(move || {
                    reader(bytes);
                    drop(share);
                }));
            }
            None => {}
        }
        if let Some(reading) = &mut self.reading {
            // It panics nowhere; without it, less is known.
            let _ = reading.await;
            self.reading = None;
        }
        self.is_over = true;
        self.passed = std::mem::take(&mut self.held);
        Ok(())
    }

    pub(super) fn is_over(&self) -> bool {
        self.is_over
    }
}

impl GatheredContent {
    /// Adds a piece, if there is room for it.
    fn add(&mut self, piece: &[u8]) -> bool {
        let is_taken = self.bytes.len() + piece.len() <= self.most && self.share.grow(piece.len());
        if is_taken {
            self.bytes.extend_from_slice(piece);
        }
        is_taken
    }
}

debug_as!(Inspection, |inspection| "Inspection({:?})", inspection.verifier);
