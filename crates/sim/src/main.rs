//! `reveille-sim --seed N` repeats one run, `--seeds A..B` tries many.

use clap::Parser;
use reveille_sim::{Options, StoreKind, run, run_many};
use std::{ops::Range, process::ExitCode};

/// Runs the engine under seeded faults and judges every run.
#[derive(Parser)]
struct Cli {
    /// One run, twice: the same trace must come of it.
    #[arg(long)]
    seed: Option<u64>,
    /// Many runs: `0..10000`.
    #[arg(long, value_parser = range, default_value = "0..1000")]
    seeds: Range<u64>,
    #[arg(long, value_enum, default_value = "memory")]
    store: Kind,
    /// Print everything that happened in the one run.
    #[arg(long)]
    trace: bool,
    /// Runs at once; all cores unless given.
    #[arg(long)]
    threads: Option<usize>,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum Kind {
    Memory,
    Sqlite,
}

fn range(text: &str) -> Result<Range<u64>, String> {
    let parts = text.split_once("..").and_then(|(from, to)| Some((from.parse().ok()?, to.parse().ok()?)));
    parts.map(|(from, to): (u64, u64)| from..to).ok_or_else(|| "must be like 0..1000".to_owned())
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    let store = match cli.store {
        Kind::Memory => StoreKind::Memory,
        Kind::Sqlite => StoreKind::Sqlite,
    };
    let options = Options { store, ..Options::default() };
    let guilty = match cli.seed {
        Some(seed) => one(seed, Options { traced: true, ..options }, cli.trace),
        None => {
            let threads = cli.threads.or_else(|| std::thread::available_parallelism().ok().map(usize::from));
            let (guilty, figures) = run_many(cli.seeds, options, threads.unwrap_or(1));
            for report in &guilty {
                println!("seed {}: {}", report.seed, report.guilt[0]);
            }
            println!("{figures:#?}");
            !guilty.is_empty()
        }
    };
    if guilty { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

fn one(seed: u64, options: Options, trace: bool) -> bool {
    let (first, second) = (run(seed, options), run(seed, options));
    if trace {
        for (at, event) in &first.trace {
            println!("{at:>8} {event:?}");
        }
    }
    for guilt in &first.guilt {
        println!("{guilt}");
    }
    println!("{:#?}", first.figures);
    println!("trace {:016x}, again {:016x}", first.hash, second.hash);
    !first.guilt.is_empty() || first.hash != second.hash
}
