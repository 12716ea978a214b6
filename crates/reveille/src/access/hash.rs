//! What is kept of a token: enough to know it again, not enough to be taken for it.
//!
//! A page does not keep the token but a proof that it was given it once. Both are kept here as digests: who reads them can
//! make neither. The tokens themselves are long and random, so a plain digest is as good as a slow one.

use ring::digest::{SHA256, digest};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::{fmt, str::FromStr};

type Digest = [u8; 32];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hash {
    pub token: Digest,
    pub proof: Digest,
}

/// What a page has instead of the token.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Proof(Digest);

const VERSION: &str = "v1";

pub fn sha256(parts: &[&[u8]]) -> Digest {
    let mut out = [0; 32];
    out.copy_from_slice(digest(&SHA256, &parts.concat()).as_ref());
    out
}

impl Hash {
    pub fn of(token: &[u8]) -> Self {
        Self { token: sha256(&[token]), proof: Proof::of(token).hash() }
    }
}

impl Proof {
    pub fn of(token: &[u8]) -> Self {
        Self(sha256(&[b"page of ", token]))
    }

    pub fn hash(&self) -> Digest {
        sha256(&[&self.0])
    }

    pub fn parse(text: &str) -> Option<Self> {
        unhex(text).map(Self)
    }

    pub fn expose(&self) -> String {
        hex(&self.0)
    }
}

impl fmt::Debug for Proof {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Proof(…)")
    }
}

impl fmt::Display for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{VERSION}:{}:{}", hex(&self.token), hex(&self.proof))
    }
}

impl FromStr for Hash {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let wrong = "is not a hash that `reveille token new` made";
        let mut parts = text.split(':');
        let (version, token, proof) = (parts.next(), parts.next().and_then(unhex), parts.next().and_then(unhex));
        match (version, token, proof, parts.next()) {
            (Some(VERSION), Some(token), Some(proof), None) => Ok(Self { token, proof }),
            _ => Err(wrong),
        }
    }
}

impl Serialize for Hash {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Hash {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Exactly as many as a digest has.
pub fn unhex(text: &str) -> Option<Digest> {
    let mut out = [0; 32];
    if text.len() != 2 * out.len() || !text.is_ascii() {
        return None;
    }
    for (byte, pair) in out.iter_mut().zip(text.as_bytes().chunks(2)) {
        *byte = u8::from_str_radix(str::from_utf8(pair).ok()?, 16).ok()?;
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_says_neither_token_nor_proof() {
        let (token, hash) = ("rv_0123456789abcdef", Hash::of(b"rv_0123456789abcdef"));
        let kept = hash.to_string();
        let proof = Proof::of(token.as_bytes());
        assert!(!kept.contains(token) && !kept.contains(&proof.expose()), "{kept}");
        assert_eq!(kept.parse(), Ok(hash));
        assert_eq!(Proof::parse(&proof.expose()).map(|proof| proof.hash()), Some(hash.proof));
        assert_ne!(hash.token, hash.proof);
        assert_eq!(format!("{proof:?}"), "Proof(…)");
        for wrong in ["", "v1", "v2:00:00", &kept[..kept.len() - 1], &format!("{kept}:"), &kept.replace('a', "é")] {
            assert!(wrong.parse::<Hash>().is_err(), "{wrong}");
        }
    }
}
