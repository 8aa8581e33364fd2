//! Origins that send more than they announced: no byte of it answers another request.
