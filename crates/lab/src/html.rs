//! Text in HTML and SVG.

/// Returns `text` in the form for content, and for attributes in double quotes.
pub fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
