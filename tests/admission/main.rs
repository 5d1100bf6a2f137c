//! Who may write what, on a real API server: the rules of the kinds, the admission policies and the roles, as a server of
//! today holds them and as one from before stamping does.

// A test that can't go on has nothing better to do than to stop with a message.
// What the modules here share is reached by nothing else.
#![allow(unreachable_pub)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

#[path = "../support/mod.rs"]
mod support;

mod world;

/// Runs each test on both kinds of server.
macro_rules! on_both {
    ($($test:ident),+ $(,)?) => {
        mod stamped {
            $(#[tokio::test]
            async fn $test() {
                super::$test(crate::world::World::stamped().await).await;
            })+
        }
        mod checked {
            $(#[tokio::test]
            async fn $test() {
                super::$test(crate::world::World::checked().await).await;
            })+
        }
    };
}

mod answers;
mod attacks;
mod bounds;
mod canary;
mod outcomes;
mod races;
mod roles;
mod samples;
mod secrets;
mod sessions;
mod speaking;
mod stamps;
mod statuses;
mod writers;
