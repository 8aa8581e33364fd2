//! Bytes that wait in memory for slow clients: a limit for all together, and a share for each client.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::base::networks::network;

/// A limit of bytes, shared by all clients.
#[derive(Clone, Debug)]
pub struct ByteBudget {
    most: usize,
    held: Arc<Mutex<BudgetShare>>,
}

/// The bytes that are held.
#[derive(Debug, Default)]
struct BudgetShare {
    all: usize,
    clients: HashMap<IpAddr, usize>,
}

/// The part of a budget that one reply holds, until this is dropped.
#[derive(Debug)]
pub struct Share {
    budget: ByteBudget,
    client: IpAddr,
    bytes: usize,
}

impl ByteBudget {
    /// Creates a budget of `most` bytes.
    #[inline]
    pub fn new(most: usize) -> Self {
        Self { most, held: Arc::default() }
    }

    /// Creates an empty share for a reply to `client`. All addresses of an IPv6 /64 network count as one client.
    #[inline]
    pub fn share(&self, client: IpAddr) -> Share {
        Share { budget: self.clone(), client: network(client, 32, 64), bytes: 0 }
    }
}

impl Share {
    /// Adds `bytes` to the share. Returns false if the budget is exhausted. A client may hold as many bytes as stay
    /// free, so at most half of all: if it does not read its replies, there is room for those of others.
    pub fn grow(&mut self, bytes: usize) -> bool {
        let mut held = self.budget.held.lock();
        let (own, all) = (held.clients.get(&self.client).unwrap_or(&0) + bytes, held.all + bytes);
        if own > self.budget.most.saturating_sub(all) {
            return false;
        }
        held.all = all;
        held.clients.insert(self.client, own);
        self.bytes += bytes;
        true
    }

    /// Returns the bytes of the share.
    #[inline]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Gives all but `bytes` of the share back.
    pub fn shrink(&mut self, bytes: usize) {
        let surplus = self.bytes.saturating_sub(bytes);
        if surplus == 0 {
            return;
        }
        self.bytes -= surplus;
        let mut held = self.budget.held.lock();
        held.all -= surplus;
        if let Some(own) = held.clients.get_mut(&self.client) {
            *own -= surplus;
            if *own == 0 {
                held.clients.remove(&self.client);
            }
        }
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.shrink(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_that_holds_half_of_the_budget_leaves_room_for_others() {
        const MOST: usize = 1 << 20;
        let (budget, client) = (ByteBudget::new(MOST), |last: u8| IpAddr::from([192, 0, 2, last]));
        let (mut one, mut two, mut other) =
            (budget.share(client(1)), budget.share(client(1)), budget.share(client(2)));
        assert!(one.grow(MOST / 4) && two.grow(MOST / 4) && !one.grow(1) && !two.grow(1));
        assert!(other.grow(MOST / 4) && !other.grow(1));
        drop((one, other));
        assert!(two.grow(MOST / 4) && !two.grow(1));
        two.shrink(MOST / 8);
        assert_eq!((two.bytes(), budget.held.lock().all), (MOST / 8, MOST / 8));
        drop(two);
        assert!(budget.held.lock().all == 0 && budget.held.lock().clients.is_empty());
    }
}
