//! Other users of the machine: files, secrets and sockets of the proxy.
