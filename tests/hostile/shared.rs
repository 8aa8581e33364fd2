//! One client's failure, reload or cookie is not given to other clients.
