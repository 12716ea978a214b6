//! The tokens that are good now.

use super::{
    Entry, Grant, Hash, Proof,
    hash::{hex, sha256},
};
use crate::config::Token;
use rand::Rng;
use ring::hmac;
use std::{collections::HashMap, sync::Arc};

type Tag = Vec<u8>;

/// Digests are found by their signatures under a key of this process, so that how long a look takes says nothing about
/// them.
pub struct Book {
    key: hmac::Key,
    by_token: HashMap<Tag, Known>,
    by_proof: HashMap<Tag, Known>,
}

#[derive(Clone)]
struct Known {
    grant: Arc<Grant>,
    hash: Hash,
}

/// What somebody has shown, and what it gives the right to.
#[derive(Clone, Debug)]
pub struct Pass {
    pub grant: Arc<Grant>,
    pub proof: Proof,
    hash: Hash,
}

impl Pass {
    /// Cookies do not know of ports, so every token has a cookie of its own name.
    pub fn cookie_name(&self) -> String {
        format!("reveille_{}", hex(&self.hash.proof[..4]))
    }

    /// Only who knows the token's digest can make it: neither the page nor whoever takes its cookie.
    pub fn sign(&self, text: &str) -> String {
        hex(hmac::sign(&self.signing_key(), text.as_bytes()).as_ref())
    }

    pub fn has_signed(&self, text: &str, signature: &str) -> bool {
        let given = super::hash::unhex(signature);
        given.is_some_and(|given| hmac::verify(&self.signing_key(), text.as_bytes(), &given).is_ok())
    }

    fn signing_key(&self) -> hmac::Key {
        hmac::Key::new(hmac::HMAC_SHA256, &self.hash.token)
    }
}

impl Book {
    /// `own`: the operator's, which comes from the environment or a file of its own.
    pub fn new(own: Option<&Token>, entries: &[Entry]) -> Self {
        let mut random = [0; 32];
        rand::rng().fill_bytes(&mut random);
        let key = hmac::Key::new(hmac::HMAC_SHA256, &random);
        let mut book = Self { key, by_token: HashMap::new(), by_proof: HashMap::new() };
        for entry in entries {
            book.add(Known { grant: Arc::new(entry.grant()), hash: entry.hash });
        }
        if let Some(token) = own {
            let grant = Arc::new(Grant::operator("operator"));
            book.add(Known { grant, hash: Hash::of(token.expose().as_bytes()) });
        }
        book
    }

    fn add(&mut self, known: Known) {
        self.by_token.insert(self.tag(&known.hash.token), known.clone());
        self.by_proof.insert(self.tag(&known.hash.proof), known);
    }

    pub fn is_empty(&self) -> bool {
        self.by_token.is_empty()
    }

    pub fn by_token(&self, token: &[u8]) -> Option<Pass> {
        let known = self.by_token.get(&self.tag(&sha256(&[token])))?;
        Some(Pass { grant: known.grant.clone(), proof: Proof::of(token), hash: known.hash })
    }

    pub fn by_proof(&self, proof: Proof) -> Option<Pass> {
        let known = self.by_proof.get(&self.tag(&proof.hash()))?;
        Some(Pass { grant: known.grant.clone(), proof, hash: known.hash })
    }

    fn tag(&self, digest: &[u8]) -> Tag {
        hmac::sign(&self.key, digest).as_ref().to_vec()
    }
}
