//! The command `soak-links`: a range of seeds, some at a time, and what they showed.

use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::corpus::find_linker;
use crate::link_programs::{LinkTally, Linker, run_seed};
use crate::{Options, Result};

/// They are taken unless others are asked for.
const LINKERS: [&str; 4] = ["lld", "mold", "bfd", "gold"];

pub(crate) fn run(options: &Options, ours: &Path) -> Result<bool> {
    let (first, last) = options.seeds.unwrap_or((0, 50));
    let names =
        if options.linkers.is_empty() { LINKERS.map(str::to_owned).into() } else { options.linkers.clone() };
    let linker = |name: String| Ok(Linker { path: find_linker(&name)?, name });
    let linkers: Vec<Linker> = names.into_iter().map(linker).collect::<Result<_>>()?;
    let base = std::env::temp_dir().join(format!("soak-links-{}", std::process::id()));
    let next = AtomicU64::new(first);
    let total = Mutex::new((LinkTally::default(), 0usize));
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= last {
                        break;
                    }
                    let result = run_seed(seed, ours, &linkers, &base.join(seed.to_string()));
                    let mut total = total.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
                    match result {
                        Ok(tally) => {
                            tally.warned.iter().for_each(|line| println!("{line}\n"));
                            total.0.add(tally);
                        }
                        Err(text) => {
                            total.1 += 1;
                            println!("{text}\n");
                        }
                    }
                }
            });
        }
    });
    let (tally, differences) = total.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    println!(
        "seeds {first}..{last}: {differences} differ; {} links compared, {} smaller when pruned, {} fell back; {} failed alike",
        tally.compared,
        tally.smaller,
        tally.warned.len(),
        tally.failed
    );
    Ok(differences == 0)
}
