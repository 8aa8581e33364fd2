//! Forged datagrams: the proxy does not amplify them.
