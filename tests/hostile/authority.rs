//! Clients that try to act as an administrator, as another site or as a mail client.
