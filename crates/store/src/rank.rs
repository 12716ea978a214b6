//! Which of a server's nodes acts first on a deadline: every one finds the same, without a word between them.

use reveille_core::ItemId;

/// Of these nodes the one to act first; `None` of none.
pub fn first(alive: impl IntoIterator<Item = i64>, id: &ItemId) -> Option<i64> {
    alive.into_iter().max_by_key(|node| (score(*node, id.as_str()), *node))
}

/// FNV-1a over both, well mixed: the same on every machine and in every version.
fn score(node: i64, id: &str) -> u64 {
    let bytes = node.to_le_bytes().into_iter().chain(id.bytes());
    let hash =
        bytes.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
    let mixed = (hash ^ (hash >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    mixed ^ (mixed >> 33)
}
