use super::*;
use futures::FutureExt as _;
use proptest::prelude::*;
use std::collections::HashSet;
use std::time::Duration;

fn key(n: usize) -> Key {
    ("n".into(), format!("r{n:04}"))
}

fn open() -> Queue {
    let queue = Queue::default();
    queue.open();
    queue
}

/// The next one that waits now.
fn now(queue: &Queue) -> Option<Key> {
    queue.next().now_or_never()
}

#[tokio::test]
async fn the_first_to_come_is_the_first_to_go_whoever_keeps_coming() {
    let queue = open();
    for n in 0..200 {
        queue.trigger(key(n), Lane::Living);
    }
    // Each one that was looked at comes back at once: a crowd that never ends.
    for turn in 0..1000 {
        let next = now(&queue).expect("a crowd waits");
        assert_eq!(next, key(turn % 200));
        queue.done(next.clone(), None);
        queue.trigger(next, Lane::Living);
    }
}

#[tokio::test]
async fn a_trigger_during_a_pass_leads_to_another_one() {
    let queue = open();
    queue.trigger(key(1), Lane::Living);
    queue.trigger(key(1), Lane::Living);
    let first = now(&queue).expect("it waits");
    assert_eq!(now(&queue), None, "it waits once");
    queue.trigger(key(1), Lane::Living);
    assert_eq!(now(&queue), None, "never twice at once");
    // The pass did not know of the trigger: it would have slept for an hour.
    queue.done(first, Some((Instant::now() + Duration::from_hours(1), Lane::Living)));
    let second = now(&queue).expect("again");
    queue.done(second, None);
    assert_eq!(now(&queue), None);
}

#[test]
fn it_is_looked_at_again_when_its_time_comes_and_earlier_when_it_is_triggered() {
    let mut state = State { open: true, ..State::default() };
    let (began, later) = (Instant::now(), Duration::from_secs);
    state.trigger(key(1), Lane::Living);
    assert_eq!(state.next(began), Ok(key(1)));
    state.done(key(1), Some((began + later(600), Lane::Living)));
    assert_eq!(state.next(began), Err(Some(began + later(600))));
    state.trigger(key(1), Lane::Living);
    assert_eq!(state.next(began), Ok(key(1)));
    state.done(key(1), Some((began + later(60), Lane::Living)));
    assert_eq!(state.next(began + later(59)), Err(Some(began + later(60))), "what the last pass said counts");
    assert_eq!(state.next(began + later(60)), Ok(key(1)));
    state.done(key(1), None);
    assert_eq!(state.next(began + later(6000)), Err(None), "the timer of before is gone");
}

#[tokio::test]
async fn it_is_told_when_a_time_comes() {
    let queue = open();
    queue.trigger(key(1), Lane::Living);
    let first = now(&queue).expect("it waits");
    let due = Instant::now() + Duration::from_millis(20);
    queue.done(first, Some((due, Lane::Living)));
    assert_eq!(queue.next().await, key(1));
    assert!(Instant::now() >= due, "not early");
}

#[tokio::test]
async fn the_living_go_before_history_which_is_not_forgotten() {
    let queue = open();
    for n in 0..1000 {
        queue.trigger(key(n), Lane::History);
    }
    queue.trigger(key(2000), Lane::Living);
    queue.trigger(key(999), Lane::Living);
    assert_eq!([now(&queue), now(&queue)], [Some(key(2000)), Some(key(999))]);
    queue.done(key(2000), None);
    let mut history = 0;
    for _ in 0..160 {
        queue.trigger(key(2000), Lane::Living);
        let next = now(&queue).expect("both wait");
        history += u64::from(next != key(2000));
        queue.done(next, None);
    }
    assert_eq!(history, 160 / HISTORY_TURN);
}

#[tokio::test]
async fn who_waits_for_the_next_one_is_woken() {
    let queue = std::sync::Arc::new(open());
    let waiting = tokio::spawn({
        let queue = queue.clone();
        async move { queue.next().await }
    });
    tokio::task::yield_now().await;
    queue.trigger(key(1), Lane::Living);
    assert_eq!(waiting.await.expect("ends"), key(1));
}

#[tokio::test]
async fn nothing_is_collected_while_nobody_leads() {
    let queue = Queue::default();
    queue.trigger(key(1), Lane::Living);
    assert_eq!(now(&queue), None);
    queue.open();
    queue.trigger(key(1), Lane::Living);
    let passing = now(&queue).expect("it waits");
    queue.trigger(key(2), Lane::Living);
    queue.close();
    assert_eq!(now(&queue), None);
    queue.open();
    queue.trigger(key(1), Lane::Living);
    assert_eq!(now(&queue), Some(key(1)), "its pass of before was dropped with the leadership");
    queue.done(passing, None);
}

#[derive(Clone, Debug)]
enum Step {
    Trigger(usize, bool),
    Begin,
    End(usize, Option<u64>),
    Wait(u64),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        (0..6_usize, any::<bool>()).prop_map(|(n, living)| Step::Trigger(n, living)),
        Just(Step::Begin),
        (any::<usize>(), proptest::option::of(0..5_u64)).prop_map(|(n, again)| Step::End(n, again)),
        (0..3_u64).prop_map(Step::Wait),
    ]
}

proptest! {
    /// Whatever happens in whatever order: what was triggered is looked at afterwards, one pass of an object at a time, and
    /// when a pass said so it is looked at again.
    #[test]
    fn no_wake_up_is_lost(steps in proptest::collection::vec(step(), 1..200)) {
        let mut state = State { open: true, ..State::default() };
        let mut clock = Instant::now();
        let mut owed: HashSet<Key> = HashSet::new();
        let mut running: Vec<Key> = Vec::new();
        for step in steps {
            match step {
                Step::Trigger(n, living) => {
                    state.trigger(key(n), if living { Lane::Living } else { Lane::History });
                    owed.insert(key(n));
                }
                Step::Begin => if let Ok(next) = state.next(clock) {
                    prop_assert!(!running.contains(&next), "two passes at once");
                    owed.remove(&next);
                    running.push(next);
                },
                Step::End(..) if running.is_empty() => {}
                Step::End(which, again) => {
                    let ended = running.remove(which % running.len());
                    if again.is_some() { owed.insert(ended.clone()); }
                    state.done(ended, again.map(|seconds| (clock + Duration::from_secs(seconds), Lane::Living)));
                }
                Step::Wait(seconds) => clock += Duration::from_secs(seconds),
            }
        }
        clock += Duration::from_mins(1);
        for key in running.drain(..) { state.done(key, None); }
        while let Ok(next) = state.next(clock) {
            owed.remove(&next);
            state.done(next, None);
        }
        prop_assert!(owed.is_empty(), "never looked at: {owed:?}");
        prop_assert!(state.waiting.is_empty() && state.running.is_empty() && state.timers.is_empty() && state.timer_of.is_empty());
    }
}
