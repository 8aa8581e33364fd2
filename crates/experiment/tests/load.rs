//! The load driver in front of an origin with known pages and delays.

#![allow(clippy::unwrap_used, reason = "the helpers are tests, too")]

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use larder_experiment::course::{Course, Page};
use larder_experiment::origin::{Effort, Model, Origin};
use larder_load::{AnsweredRequest, Halt, Load, Onlooker, Outcome, Pace, Via};

fn load(origin: &Origin, course: &Course, pace: Pace) -> Load {
    Load { pace, ..Load::new(origin.address(), Via::Http, course.requests(origin.address())) }
}

#[test]
fn every_page_comes_whole_and_in_time() {
    let course = Course::once(20, Page { size: 70_000, cost: 10_000 });
    let origin = Origin::start(Model::of(&course.pages)).unwrap();
    let seen = load(&origin, &course, Pace::Closed { clients: 20 }).run().unwrap();
    assert_eq!((seen.bytes, seen.count(Outcome::Answered)), (20 * 70_000, 20));
    assert_eq!(origin.requests().load(Ordering::Relaxed), 20);
    assert!(seen.percentile(0.0) >= 9.9, "{}", seen.percentile(0.0));
    assert!(origin.processor() > Duration::ZERO);
}

#[test]
fn several_are_asked_in_turn() {
    let course = Course::once(9, Page { size: 1, cost: 0 });
    let origins = [(); 3].map(|()| Origin::start(Model::of(&course.pages)).unwrap());
    let nodes = origins.each_ref().map(Origin::address);
    let load = load(&origins[0], &course, Pace::Closed { clients: 2 });
    assert_eq!(load.run_over(&nodes).unwrap().count(Outcome::Answered), 9);
    assert!(origins.iter().all(|origin| origin.requests().load(Ordering::Relaxed) == 3));
}

#[test]
fn an_open_loop_charges_for_what_was_due() {
    // One request at a time, 5 ms each, but all are due at once.
    let course = Course::once(10, Page { size: 1, cost: 5_000 });
    let origin = Origin::start(Model { effort: Effort::Compute, ..Model::of(&course.pages) }).unwrap();
    let pace = Pace::Open { rate: 1e6, clients: 10, seed: 1 };
    let seen = load(&origin, &course, pace).run().unwrap();
    assert!(seen.percentile(1.0) >= 49.0, "{}", seen.percentile(1.0));
    assert!(seen.mean(None) >= 25.0, "{}", seen.mean(None));
}

/// The longest times since a request was due, and since it was sent.
#[derive(Default)]
struct Longest(Duration, Duration);

impl Onlooker for Longest {
    fn see(&mut self, answered: &AnsweredRequest<'_>) {
        let reply = answered.reply.expect("an answer");
        assert_eq!((reply.status, reply.bytes), (200, 1));
        (self.0, self.1) = (self.0.max(answered.took), self.1.max(answered.served));
    }
}

#[test]
fn an_onlooker_sees_what_a_stall_cost_and_what_the_server_took() {
    // Ten requests are due at once; one at a time is sent, and waits for 5 ms.
    let course = Course::once(10, Page { size: 1, cost: 5_000 });
    let origin = Origin::start(Model::of(&course.pages)).unwrap();
    let load = load(&origin, &course, Pace::Open { rate: 1e6, clients: 1, seed: 1 });
    let longest = Rc::new(RefCell::new(Longest::default()));
    load.send(Rc::clone(&longest) as Rc<RefCell<dyn Onlooker>>).unwrap();
    let Longest(took, served) = longest.take();
    assert!(took >= Duration::from_millis(49), "{took:?}");
    assert!(served >= Duration::from_millis(5) && served < took, "{served:?}");
}

#[test]
fn failures_are_reported_with_their_cause() {
    let course = Course::once(3, Page { size: 1, cost: 0 });
    let origin = Origin::start(Model { failures: 1.0, ..Model::of(&course.pages) }).unwrap();
    let failed = load(&origin, &course, Pace::Closed { clients: 1 }).run().unwrap_err();
    assert_eq!(failed.to_string(), "3 of 3 requests failed: 503 Service Unavailable");
}

#[test]
fn a_load_ends_when_it_is_stopped() {
    let course = Course::once(3, Page { size: 1, cost: 0 });
    let origin = Origin::start(Model::of(&course.pages)).unwrap();
    let load = load(&origin, &course, Pace::Closed { clients: 1 });
    load.stop.store(true, Ordering::Relaxed);
    assert_eq!(load.run().unwrap_err(), Halt::Stopped);
    assert_eq!(origin.requests().load(Ordering::Relaxed), 0);
}
