//! Connections, places and lookups that one client or one origin could take from all others.
