//! Inputs made of others, the same ones in every run: what a fuzzer does first, on any compiler and within a bound. What it
//! finds belongs into `fuzz/seeds`.

use std::{fs, path::Path};

/// Pieces that parsers care about.
const WORDS: [&str; 44] = [
    "\"",
    "\\",
    "{",
    "}",
    "[",
    "]",
    ":",
    ",",
    "null",
    "true",
    "-1",
    "0",
    "1e999",
    "NaN",
    "9223372036854775808",
    "\0",
    "\u{feff}",
    "\n",
    "\r\n",
    "<**",
    "**>",
    "stopMessage",
    "clock",
    "clear",
    "5m",
    "PT1H",
    "Z",
    "+08:00",
    "T",
    "-",
    ".",
    "会",
    "🙂",
    "\u{202e}",
    "${X}",
    "{session}",
    "=",
    "[[agent]]",
    "\"\"\"",
    "#",
    "data: ",
    "event: ",
    "\n\n",
    "[DONE]",
];

/// As many inputs for each seed set, unless asked for otherwise.
pub fn inputs(default: usize) -> usize {
    std::env::var("REVEILLE_FUZZ_INPUTS").map_or(default, |text| text.parse().expect("a number of inputs"))
}

/// The seeds of a target, in the order of their names.
pub fn seeds(target: &str) -> Vec<Vec<u8>> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds").join(target);
    let mut paths: Vec<_> =
        fs::read_dir(&directory).expect("seeds").map(|entry| entry.expect("a seed").path()).collect();
    paths.sort();
    assert!(paths.len() >= 5, "too few seeds in {}", directory.display());
    paths.iter().map(|path| fs::read(path).expect("readable")).collect()
}

/// Every seed as it is, then mutations of them: so many inputs altogether.
pub fn each(target: &str, count: usize, mut check: impl FnMut(&[u8])) {
    let seeds = seeds(target);
    seeds.iter().for_each(|seed| check(seed));
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    for _ in seeds.len()..count {
        check(&random.mutant(&seeds));
    }
}

/// SplitMix64.
pub struct Random(pub u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.next() % end.max(1) as u64).expect("small")
    }

    pub fn mutant(&mut self, seeds: &[Vec<u8>]) -> Vec<u8> {
        let mut bytes = seeds[self.below(seeds.len())].clone();
        for _ in 0..=self.below(4) {
            self.change(&mut bytes, seeds);
        }
        bytes
    }

    fn change(&mut self, bytes: &mut Vec<u8>, seeds: &[Vec<u8>]) {
        let at = self.below(bytes.len() + 1);
        let end = (at + 1 + self.below(12)).min(bytes.len());
        match self.below(6) {
            0 if at < bytes.len() => bytes[at] ^= 1 << self.below(8),
            1 if at < end => drop(bytes.drain(at..end)),
            2 if at < end => {
                let copy = bytes[at..end].to_vec();
                bytes.splice(at..at, copy);
            }
            3 => {
                let other = &seeds[self.below(seeds.len())];
                let from = self.below(other.len() + 1);
                bytes.truncate(at);
                bytes.extend_from_slice(&other[from..]);
            }
            4 => bytes.truncate(at),
            _ => {
                let word = WORDS[self.below(WORDS.len())];
                bytes.splice(at..at, word.bytes());
            }
        }
    }
}
