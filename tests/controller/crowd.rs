//! More requests at once than the controller has hands for, on an API server that is slow: everybody's turn comes.

use crate::told::Told;
use crate::world::{Meter, World, now};
use beckon::api::v1alpha1::Source;
use futures::{StreamExt as _, stream};
use std::sync::Mutex;
use std::time::Duration;
use tokio::time::Instant;

/// How many ask at once, each again as soon as it has its answer.
const CROWD: usize = 128;
/// How much longer each of the controller's writes takes: it makes 32 at once, so some 64 a second.
const SLOWER: Duration = Duration::from_millis(500);
/// How long the crowd keeps coming.
const LASTS: Duration = Duration::from_secs(20);

#[tokio::test(flavor = "multi_thread")]
async fn nobody_is_passed_over_for_as_long_as_others_keep_coming() {
    let world = World::new("crowd").await;
    let running =
        world.start_through(&["--minAttentionWait", "0", "--maxTotal", "100000", "--lease-duration", "15s"], &Meter::slow(SLOWER));
    let (told, listening) = Told::watch(&world);
    let began = Instant::now();
    let waits = Mutex::new(Vec::new());
    stream::iter(0..CROWD)
        .for_each_concurrent(CROWD, async |n| {
            for round in 0.. {
                let name = format!("r{n:03}-{round:03}");
                world.request(&name, None, |spec| spec.source = Source::UserAction).await;
                told.open(&name).await;
                world.resolve(&name, "yes").await.unwrap();
                let resolved = Instant::now();
                told.settled(&name).await;
                waits.lock().unwrap().push(resolved.elapsed());
                if began.elapsed() > LASTS {
                    return;
                }
            }
        })
        .await;
    let mut waits = waits.into_inner().unwrap();
    waits.sort_unstable();
    let (median, longest) = (waits[waits.len() / 2], *waits.last().unwrap());
    println!("{} answers, recorded within {median:?} (median), {longest:?} (longest); {}", waits.len(), now());
    // Half the crowd waits with a write before each, so a fair turn is some two seconds, and on a machine that is busy the median.
    assert!(longest < (LASTS / 2).max(4 * median), "the longest waited {longest:?}, the median {median:?}");
    listening.abort();
    running.end().await;
}
