//! Names that nobody can guess: knowing one is the right to use it.

use rand::Rng;

const ALPHABET: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";
/// 130 bits.
pub const CHARACTERS: usize = 26;

pub fn fresh() -> String {
    let mut random = [0u8; CHARACTERS];
    rand::rng().fill_bytes(&mut random);
    random.iter().map(|byte| char::from(ALPHABET[usize::from(byte & 31)])).collect()
}
