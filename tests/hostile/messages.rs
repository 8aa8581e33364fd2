//! Answers of origins whose framing, trailers or upgrades do not add up.
