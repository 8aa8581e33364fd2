//! An engine or a node that lies: the cluster shows no secret and serves nothing forged.
