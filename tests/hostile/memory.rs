//! Memory that a client or an origin makes the proxy hold: each byte is inside a budget.
