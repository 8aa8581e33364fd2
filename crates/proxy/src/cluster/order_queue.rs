//! The orders that wait to be added to the stream.

use std::collections::VecDeque;

use larder_cluster::message::Order;

/// The most scopes in one entry.
pub(super) const SCOPES: usize = 256;

/// Orders that wait to be added. Each has a number, since orders may be equal.
#[derive(Debug, Default)]
pub(super) struct OrderQueue {
    pub(super) orders: VecDeque<(u64, Order)>,
    next: u64,
}

impl OrderQueue {
    /// Adds the scopes of a doubt to the last order, if that is about as long a doubt: clients that abort changes must
    /// not fill the queue. The first order may be on its way already.
    pub(super) fn joins(&mut self, order: &Order) -> bool {
        let last = self.orders.iter_mut().skip(1).next_back();
        let (Some((_, Order::Unsure(until, known))), Order::Unsure(seconds, scopes)) = (last, order) else {
            return false;
        };
        let joins = until == seconds && known.len() + scopes.len() <= SCOPES;
        if joins {
            known.extend(scopes.iter().filter(|scope| !known.contains(scope)).cloned().collect::<Vec<_>>());
        }
        joins
    }

    pub(super) fn push(&mut self, order: Order) {
        self.orders.push_back((self.next, order));
        self.next += 1;
    }
}

#[cfg(test)]
mod tests {
    use larder_semantics::purge::Scope;

    use super::*;

    fn url(number: usize) -> Scope {
        Scope::Url(number.to_string().into_bytes())
    }

    fn put(queue: &mut OrderQueue, seconds: u32, number: usize) {
        let order = Order::Unsure(seconds, vec![url(number), Scope::Origin(b"o".to_vec())]);
        if !queue.joins(&order) {
            queue.push(order);
        }
    }

    #[test]
    fn doubts_that_wait_are_told_together() {
        let (mut queue, mut told) = (OrderQueue::default(), Vec::new());
        (0..1_000).for_each(|number| put(&mut queue, 60, number));
        assert_eq!(queue.orders.len(), 5, "the first may be on its way: no other joins it");
        for (_, order) in queue.orders {
            let Order::Unsure(60, mut scopes) = order else { panic!("{order:?}") };
            assert!(scopes.len() <= SCOPES);
            scopes.retain(|scope| matches!(scope, Scope::Url(_)));
            told.extend(scopes);
        }
        assert_eq!(told, (0..1_000).map(url).collect::<Vec<_>>());
    }

    #[test]
    fn doubts_of_other_lengths_and_other_orders_wait_apart() {
        let mut queue = OrderQueue::default();
        [60, 60, 61].iter().for_each(|seconds| put(&mut queue, *seconds, 1));
        queue.push(Order::Distrust);
        put(&mut queue, 61, 1);
        assert_eq!(queue.orders.len(), 5);
    }
}
