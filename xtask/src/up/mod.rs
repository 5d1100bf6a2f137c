//! `cargo xtask up`, `down` and `status`: the whole product on this machine.

mod args;
mod cluster;
mod daemon;
mod demo;
mod down;
mod footprint;
mod forward;
mod report;
mod run;
mod stack;
mod state;
mod status;
mod worker;

pub use args::{DirArgs, UpArgs};
pub use down::down;
pub use run::beckon;
pub use state::{Recorded, State};
pub use status::status;

use crate::failure::Result;

/// Runs `up`.
pub fn up(args: &UpArgs) -> Result<()> {
    let plan = args.plan()?;
    if args.daemon {
        return run::run(&plan);
    }
    state::refuse_running(&plan.dir)?;
    run::prepare(&plan)?;
    if args.detach { daemon::start(args, &plan) } else { run::run(&plan) }
}
