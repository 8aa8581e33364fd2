//! Requests and answers built to cost processor time: the work stays linear in their length.
