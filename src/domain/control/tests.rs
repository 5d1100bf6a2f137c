//! Sentence by sentence, then properties.

use super::*;
use proptest::prelude::*;

fn at(millis: i64) -> Timestamp {
    Timestamp::from_millisecond(1_800_000_000_000 + millis).unwrap()
}

fn ask(holder: &str) -> TakeControl {
    TakeControl {
        holder: holder.into(),
        request: Some("a-1".into()),
        idle_release_seconds: 600,
        reconnect_seconds: 30,
        ceiling_seconds: 3600,
    }
}

fn granted(taken: Result<Taken, Refusal>) -> ControlGrant {
    match taken {
        Ok(Taken::Granted(grant)) => grant,
        other => panic!("{other:?}"),
    }
}

/// Ann holds control since 0, by the lease `one`.
fn held() -> Arbiter {
    let mut arbiter = Arbiter::default();
    granted(arbiter.take(ask("ann"), "one".into(), at(0)));
    arbiter
}

/// Renews every second up to this time.
fn renewed(arbiter: &mut Arbiter, lease: &str, from: i64, to: i64) {
    for second in (from / 1000)..=(to / 1000) {
        arbiter.renew(lease, false, at(second * 1000)).unwrap();
    }
}

#[test]
fn the_agent_has_the_hands_until_somebody_takes_them() {
    let mut arbiter = Arbiter::default();
    assert_eq!(arbiter.state(), ControlState::default());
    assert_eq!(arbiter.admit_tool(Class::Change, at(0)), Ok(()));
    assert_eq!(arbiter.admit_input("", at(0)), Err(Refusal::LeaseEnded));
    assert_eq!(arbiter.next_change(), None);
}

#[test]
fn take_waits_for_the_agents_action_then_holds() {
    let mut arbiter = Arbiter::default();
    arbiter.admit_tool(Class::Change, at(0)).unwrap();
    assert_eq!(arbiter.take(ask("ann"), "one".into(), at(10)), Ok(Taken::Waiting));
    let state = arbiter.state();
    assert_eq!((state.holder.as_deref(), state.pending, state.since), (Some("ann"), true, Some(at(10))));
    assert_eq!(arbiter.admit_input("one", at(20)), Err(Refusal::LeaseEnded), "nothing yet");
    assert_eq!(arbiter.admit_tool(Class::Change, at(20)), Err(Refusal::Held(Box::new(state.clone()))), "the next action is not let in");
    assert_eq!(arbiter.take(ask("bob"), "two".into(), at(20)), Err(Refusal::Held(Box::new(state))));
    assert_eq!(arbiter.claim("one", at(30)), Ok(Taken::Waiting));
    arbiter.acted();
    let grant = granted(arbiter.claim("one", at(5000)));
    assert_eq!((grant.epoch, grant.ceiling, grant.idle_until), (1, at(5000 + 3_600_000), at(5000 + 600_000)), "counted from the hold on");
    assert!(!arbiter.state().pending);
    assert_eq!(arbiter.claim("one", at(5100)), Ok(Taken::Granted(grant)), "asking again is no second take");
}

#[test]
fn who_gives_up_waiting_leaves_the_agent_alone() {
    let mut arbiter = Arbiter::default();
    arbiter.admit_tool(Class::Change, at(0)).unwrap();
    arbiter.take(ask("ann"), "one".into(), at(10)).unwrap();
    arbiter.withdraw("two");
    assert!(arbiter.state().pending);
    arbiter.withdraw("one");
    arbiter.acted();
    assert_eq!(arbiter.claim("one", at(20)), Err(Refusal::LeaseEnded));
    assert_eq!(arbiter.admit_tool(Class::Change, at(20)), Ok(()), "and it need not look first: nobody had the hands");
}

#[test]
fn while_a_person_holds_reads_answer_and_changes_are_refused_with_who_and_since_when() {
    let mut arbiter = held();
    assert_eq!(arbiter.admit_tool(Class::Read, at(100)), Ok(()));
    let Err(Refusal::Held(state)) = arbiter.admit_tool(Class::Change, at(100)) else { panic!() };
    assert_eq!((state.holder.as_deref(), state.since, state.request.as_deref()), (Some("ann"), Some(at(0)), Some("a-1")));
}

#[test]
fn a_grant_dies_two_seconds_after_its_last_renewal_for_good() {
    let mut arbiter = held();
    assert_eq!(arbiter.next_change(), Some(at(2000)));
    assert_eq!(arbiter.admit_input("one", at(1999)), Ok(()), "input is no renewal");
    assert_eq!(arbiter.admit_input("one", at(2000)), Err(Refusal::LeaseEnded));
    assert_eq!(arbiter.renew("one", false, at(2001)), Err(Refusal::LeaseEnded));
    assert!(!arbiter.gate_open());
    let state = arbiter.state();
    assert_eq!((state.holder.as_deref(), state.dead), (Some("ann"), true), "she may come back");
    granted(arbiter.take(ask("ann"), "two".into(), at(2002)));
    assert!(!arbiter.state().dead);
    let mut arbiter = held();
    assert!(!arbiter.state().dead);
    renewed(&mut arbiter, "one", 0, 60_000);
    assert_eq!(arbiter.admit_input("one", at(61_999)), Ok(()));
}

#[test]
fn the_holder_comes_back_within_the_reconnect_window_and_nobody_else_does() {
    let mut arbiter = held();
    assert!(matches!(arbiter.take(ask("bob"), "two".into(), at(29_999)), Err(Refusal::Held(_))));
    let grant = granted(arbiter.take(ask("ann"), "three".into(), at(29_999)));
    assert_eq!((grant.epoch, grant.ceiling), (1, at(3_600_000)), "no change of hands, and no longer than before");
    assert_eq!(arbiter.admit_input("three", at(30_000)), Ok(()));
    assert_eq!(arbiter.admit_input("one", at(30_000)), Err(Refusal::LeaseEnded));
    let mut arbiter = held();
    assert_eq!(arbiter.tick(at(30_000)), Some(Ended::Away));
    assert_eq!(granted(arbiter.take(ask("bob"), "two".into(), at(30_000))).epoch, 3);
}

#[test]
fn a_second_window_of_the_holder_takes_over_from_the_first() {
    let mut arbiter = held();
    granted(arbiter.take(ask("ann"), "two".into(), at(500)));
    assert_eq!(arbiter.admit_input("one", at(600)), Err(Refusal::LeaseEnded));
    assert_eq!(arbiter.release("one", at(600)), Err(Refusal::LeaseEnded), "an old window ends nothing");
    assert_eq!(arbiter.admit_input("two", at(600)), Ok(()));
}

#[test]
fn without_input_control_goes_back() {
    let mut arbiter = held();
    renewed(&mut arbiter, "one", 0, 300_000);
    arbiter.admit_input("one", at(300_000)).unwrap();
    renewed(&mut arbiter, "one", 301_000, 899_000);
    assert_eq!(arbiter.tick(at(899_999)), None);
    assert_eq!(arbiter.tick(at(900_000)), Some(Ended::Idle));
    assert_eq!(arbiter.tick(at(900_000)), None, "said once");
    assert_eq!(arbiter.state().holder, None);
}

#[test]
fn the_ceiling_ends_control_and_extending_moves_it() {
    let drive = |arbiter: &mut Arbiter, from: i64, to: i64| {
        for second in from..=to {
            arbiter.renew("one", false, at(second * 1000)).unwrap();
            arbiter.admit_input("one", at(second * 1000)).unwrap();
        }
    };
    let mut arbiter = held();
    drive(&mut arbiter, 0, 3599);
    assert_eq!(arbiter.tick(at(3_600_000)), Some(Ended::Ceiling));
    let mut arbiter = held();
    drive(&mut arbiter, 0, 3000);
    let grant = arbiter.renew("one", true, at(3_000_000)).unwrap();
    assert_eq!((grant.ceiling, grant.idle_until), (at(6_600_000), at(3_600_000)));
    drive(&mut arbiter, 3001, 6599);
    assert_eq!(arbiter.tick(at(6_600_000)), Some(Ended::Ceiling));
}

#[test]
fn a_settled_request_ends_the_control_that_is_bound_to_it() {
    let mut arbiter = held();
    arbiter.settled("a-2", at(100));
    assert_eq!(arbiter.admit_input("one", at(100)), Ok(()));
    arbiter.settled("a-1", at(200));
    assert_eq!(arbiter.tick(at(200)), Some(Ended::Settled));
    assert_eq!(arbiter.admit_input("one", at(200)), Err(Refusal::LeaseEnded), "at the next event");
    let mut arbiter = Arbiter::default();
    arbiter.admit_tool(Class::Change, at(0)).unwrap();
    arbiter.take(ask("ann"), "one".into(), at(10)).unwrap();
    arbiter.settled("a-1", at(20));
    arbiter.acted();
    assert_eq!(arbiter.claim("one", at(30)), Err(Refusal::LeaseEnded), "who still waited gets nothing");
}

#[test]
fn after_a_hand_back_or_a_settled_takeover_the_agent_looks_first() {
    let looked = |arbiter: &mut Arbiter, time: i64| {
        let since = arbiter.look(at(time));
        arbiter.observed(since, at(time));
    };
    let mut arbiter = held();
    looked(&mut arbiter, 50);
    arbiter.release("one", at(100)).unwrap();
    assert_eq!(arbiter.admit_tool(Class::Change, at(200)), Err(Refusal::ObserveFirst), "a look while she drove does not count");
    assert_eq!(arbiter.admit_tool(Class::Read, at(200)), Ok(()));
    looked(&mut arbiter, 300);
    assert_eq!(arbiter.admit_tool(Class::Change, at(400)), Ok(()));
    arbiter.acted();
    arbiter.settled("a-9", at(500));
    assert_eq!(arbiter.admit_tool(Class::Change, at(600)), Err(Refusal::ObserveFirst));
}

#[test]
fn what_is_said_to_be_settled_again_asks_for_no_other_look() {
    let mut arbiter = held();
    // The gateway that hands the answer over says so first, the one that stored it a moment later.
    arbiter.settled("a-1", at(100));
    let since = arbiter.look(at(200));
    arbiter.settled("a-1", at(250));
    arbiter.observed(since, at(300));
    assert_eq!(arbiter.admit_tool(Class::Change, at(400)), Ok(()));
    arbiter.acted();
    arbiter.settled("a-1", at(500));
    assert_eq!(arbiter.admit_tool(Class::Change, at(600)), Ok(()));
    arbiter.acted();
    // A grant for it that came late ends all the same, and what was done with it has to be looked at.
    granted(arbiter.take(ask("ann"), "late".into(), at(700)));
    arbiter.settled("a-1", at(800));
    assert_eq!(arbiter.admit_input("late", at(800)), Err(Refusal::LeaseEnded));
    assert_eq!(arbiter.admit_tool(Class::Change, at(900)), Err(Refusal::ObserveFirst));
    // What is forgotten asks for one look too many, and no more.
    (0..100).for_each(|n| arbiter.settled(&format!("b-{n}"), at(1000)));
    assert!(arbiter.settled.len() <= REMEMBERED);
}

#[test]
fn a_look_that_began_before_the_hands_came_back_does_not_count() {
    let mut arbiter = held();
    let since = arbiter.look(at(50));
    arbiter.release("one", at(100)).unwrap();
    arbiter.observed(since, at(200));
    assert_eq!(arbiter.admit_tool(Class::Change, at(300)), Err(Refusal::ObserveFirst), "it may have seen the page of before");
    let since = arbiter.look(at(400));
    arbiter.settled("a-9", at(450));
    arbiter.observed(since, at(500));
    assert_eq!(arbiter.admit_tool(Class::Change, at(600)), Err(Refusal::ObserveFirst), "nor one over a settled request");
}

#[test]
fn every_change_of_hands_grows_the_epoch() {
    let mut arbiter = held();
    assert_eq!(arbiter.state().epoch, 1);
    arbiter.release("one", at(100)).unwrap();
    assert_eq!(arbiter.state().epoch, 2);
    assert_eq!(granted(arbiter.take(ask("bob"), "two".into(), at(200))).epoch, 3);
}

#[test]
fn a_clock_that_goes_back_revives_nothing() {
    let mut arbiter = held();
    arbiter.pass_time(at(2500));
    assert_eq!(arbiter.renew("one", false, at(100)), Err(Refusal::LeaseEnded));
    assert_eq!(arbiter.admit_input("one", at(100)), Err(Refusal::LeaseEnded));
}

#[derive(Clone, Debug)]
enum Op {
    Take(u8, bool),
    Claim(usize),
    Withdraw(usize),
    Renew(usize, bool),
    Release(usize),
    Settled(u8),
    Input(usize),
    Tool(bool),
    Acted,
    Observed,
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        (0..3_u8, any::<bool>()).prop_map(|(who, bound)| Op::Take(who, bound)),
        (0..8_usize).prop_map(Op::Claim),
        (0..8_usize).prop_map(Op::Withdraw),
        (0..8_usize, any::<bool>()).prop_map(|(lease, extend)| Op::Renew(lease, extend)),
        (0..8_usize).prop_map(Op::Release),
        (0..2_u8).prop_map(Op::Settled),
        (0..8_usize).prop_map(Op::Input),
        any::<bool>().prop_map(Op::Tool),
        Just(Op::Acted),
        Just(Op::Observed),
    ]
}

proptest! {
    /// Never two holders, nothing of a dead grant, no action beside a person's hands, epochs only grow.
    #[test]
    fn whatever_happens(steps in prop::collection::vec((op(), 0..3000_i64), 1..80)) {
        let mut arbiter = Arbiter::default();
        // Every lease ever given, its holder, and when it was last good for sure.
        let mut leases: Vec<(String, Option<Timestamp>)> = Vec::new();
        let mut now = 0;
        let mut epoch = 0;
        let mut acting = false;
        let name = |leases: &[(String, Option<Timestamp>)], back: usize| {
            leases.iter().rev().nth(back).map_or("none".to_owned(), |(lease, _)| lease.clone())
        };
        for (step, wait) in steps {
            now += wait;
            let time = at(now);
            match step {
                Op::Take(who, bound) => {
                    let lease = format!("lease-{}", leases.len());
                    let before = arbiter.state();
                    let request = bound.then(|| format!("a-{who}"));
                    let ask = TakeControl { request, idle_release_seconds: 5, reconnect_seconds: 3, ceiling_seconds: 9, ..ask(&who.to_string()) };
                    let taken = arbiter.take(ask, lease.clone(), time);
                    let good = matches!(taken, Ok(Taken::Granted(_)));
                    if good && before.holder.as_deref().is_some_and(|holder| holder != who.to_string()) {
                        prop_assert!(arbiter.state().epoch > before.epoch, "another's hands");
                    }
                    prop_assert!(!(good && acting && before.holder.is_none()), "in the middle of an action");
                    leases.push((lease, good.then_some(time)));
                }
                Op::Claim(back) => {
                    let lease = name(&leases, back);
                    let held = arbiter.state();
                    if let Ok(Taken::Granted(_)) = arbiter.claim(&lease, time) {
                        prop_assert!(!(acting && held.pending));
                        if held.pending {
                            leases.iter_mut().filter(|(known, _)| *known == lease).for_each(|(_, renewed)| *renewed = Some(time));
                        }
                    }
                }
                Op::Withdraw(back) => arbiter.withdraw(&name(&leases, back)),
                Op::Renew(back, extend) => {
                    let lease = name(&leases, back);
                    if arbiter.renew(&lease, extend, time).is_ok() {
                        let known = leases.iter_mut().find(|(known, _)| *known == lease).unwrap();
                        prop_assert!(known.1.is_some_and(|good| time < after(good, GRANT_SECONDS)), "a dead grant was renewed");
                        known.1 = Some(time);
                    }
                }
                Op::Release(back) => drop(arbiter.release(&name(&leases, back), time)),
                Op::Settled(who) => arbiter.settled(&format!("a-{who}"), time),
                Op::Input(back) => {
                    let lease = name(&leases, back);
                    let others: Vec<String> = leases.iter().map(|(known, _)| known.clone()).filter(|known| *known != lease).collect();
                    if arbiter.admit_input(&lease, time).is_ok() {
                        let renewed = leases.iter().find(|(known, _)| *known == lease).and_then(|(_, renewed)| *renewed);
                        prop_assert!(renewed.is_some_and(|good| time < after(good, GRANT_SECONDS)), "input of a dead grant");
                        prop_assert!(!acting, "beside the agent's action");
                        for other in others {
                            prop_assert!(arbiter.admit_input(&other, time).is_err(), "two holders");
                        }
                    }
                }
                Op::Tool(change) if !(change && acting) => {
                    let class = if change { Class::Change } else { Class::Read };
                    match arbiter.admit_tool(class, time) {
                        Ok(()) => {
                            prop_assert!(!change || arbiter.state().holder.is_none());
                            acting |= change;
                        }
                        Err(_) => prop_assert!(change, "looking is always allowed"),
                    }
                }
                Op::Tool(_) => {}
                Op::Acted => {
                    arbiter.acted();
                    acting = false;
                }
                Op::Observed => {
                    let since = arbiter.look(time);
                    arbiter.observed(since, time);
                }
            }
            arbiter.pass_time(time);
            let state = arbiter.state();
            prop_assert!(state.epoch >= epoch);
            epoch = state.epoch;
            if let Some(next) = arbiter.next_change() {
                prop_assert!(next > time, "what time has changed is changed");
            }
        }
    }
}
