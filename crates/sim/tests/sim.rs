//! Runs of the simulator as part of the usual tests. `REVEILLE_SIM_SEEDS=20000` asks for more of them; a failure names the
//! seed, and `cargo run -p reveille-sim -- --seed N` repeats it exactly.

use reveille_sim::{Options, Report, StoreKind, oracle::Rule, plant::Bug, run, run_many};
use std::thread::available_parallelism;

/// Runs in which a bug was found once, with what it was. The same seed may mean another run by now; it is repeated all the same.
const FOUND: &[(u64, &str)] = &[
    (789, "a reply told messages whose lease had run out while its process stood still, and so did the next one"),
    (29, "whoever's timer closed a session called what another process had begun to call"),
    (1861, "a call whose beginning failed before the clock was set back was tried too early, and then forgotten"),
    (3947, "a webhook that was due together with its session's end was forgotten"),
];

fn threads() -> usize {
    available_parallelism().map_or(1, usize::from)
}

#[track_caller]
fn innocent(guilty: &[Report]) {
    let shown: Vec<String> = guilty.iter().map(|report| format!("seed {}: {}", report.seed, report.guilt[0])).collect();
    assert!(guilty.is_empty(), "{} runs broke a rule:\n{}", guilty.len(), shown.join("\n"));
}

#[test]
fn nothing_early_lost_twice_out_of_order_or_left_behind() {
    let seeds = std::env::var("REVEILLE_SIM_SEEDS").map_or(1000, |text| text.parse().expect("a number"));
    let (guilty, figures) = run_many(0..seeds, Options::default(), threads());
    println!("{figures:#?}");
    innocent(&guilty);
    assert!(figures.crashes > seeds && figures.deliveries > seeds, "the runs are too quiet to show anything");
}

#[test]
fn the_same_on_sqlite() {
    let (guilty, figures) = run_many(0..40, Options { store: StoreKind::Sqlite, ..Options::default() }, threads());
    innocent(&guilty);
    assert!(figures.crashes > 10);
}

#[test]
fn what_was_found_once_stays_fixed() {
    for (seed, what) in FOUND {
        let report = run(*seed, Options::default());
        assert!(report.guilt.is_empty(), "seed {seed} ({what}): {}", report.guilt[0]);
    }
}

#[test]
fn a_seed_repeats_exactly() {
    for seed in 0..24 {
        let options = Options { traced: true, ..Options::default() };
        let (first, second) = (run(seed, options), run(seed, options));
        let differs =
            first.trace.iter().zip(&second.trace).position(|(one, other)| format!("{one:?}") != format!("{other:?}"));
        assert_eq!(differs, None, "seed {seed}");
        assert_eq!((first.hash, first.trace.len()), (second.hash, second.trace.len()), "seed {seed}");
    }
    let hash = |seed| run(seed, Options { traced: true, ..Options::default() }).hash;
    assert_ne!(hash(1), hash(2));
}

/// A judge who never convicts would let everything above pass.
#[test]
fn planted_bugs_are_found() {
    for bug in Bug::ALL {
        let expected: &[Rule] = match bug {
            Bug::LosesMessages => &[Rule::Lost],
            Bug::FiresEarly => &[Rule::Early],
            Bug::ForgetsLeases | Bug::Undelivers => &[Rule::Twice],
            Bug::LosesItems => &[Rule::Lost, Rule::Wrong],
            Bug::SwallowsWord => &[Rule::Late, Rule::Lost, Rule::Leak],
            Bug::SkipsOldest => &[Rule::Order],
            Bug::Miscounts => &[Rule::Limit],
        };
        let (guilty, figures) = run_many(0..24, Options { bug: Some(bug), ..Options::default() }, threads());
        let found = guilty.iter().flat_map(|report| &report.guilt).any(|guilt| expected.contains(&guilt.rule));
        assert!(found, "{bug:?} went unnoticed in {} runs", figures.runs);
    }
}
