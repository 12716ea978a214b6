//! Webhooks signed the Standard Webhooks way: HMAC-SHA256 over id, time and body, so that a receiver knows who sent it,
//! that nobody changed it, and what it has had before.

use base64::{Engine, engine::general_purpose::STANDARD};
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use std::fmt;

/// Never printed.
#[derive(Clone)]
pub struct Signer(Vec<u8>);

/// As the specification has it.
const KEY_BYTES: std::ops::RangeInclusive<usize> = 24..=64;

impl Signer {
    /// `whsec_` and the key in base64.
    pub fn new(secret: &str) -> Result<Self, String> {
        let coded = secret.trim().strip_prefix("whsec_").ok_or("must begin with whsec_")?;
        let key = STANDARD.decode(coded).map_err(|_| "is not base64 after whsec_".to_owned())?;
        if !KEY_BYTES.contains(&key.len()) {
            return Err(format!(
                "has {} bytes; 24 to 64 are wanted, for instance whsec_ and 32 random bytes in base64",
                key.len()
            ));
        }
        Ok(Self(key))
    }

    /// The header `webhook-signature`. `at`: seconds since 1970, as in `webhook-timestamp`.
    pub fn sign(&self, id: &str, at: i64, body: &[u8]) -> String {
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.0).expect("a key of any length");
        mac.update(format!("{id}.{at}.").as_bytes());
        mac.update(body);
        format!("v1,{}", STANDARD.encode(mac.finalize().into_bytes()))
    }
}

impl fmt::Debug for Signer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Signer")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The specification's own example.
    #[test]
    fn the_signature_is_the_one_others_compute() {
        let signer = Signer::new("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").expect("valid");
        let signature = signer.sign("msg_p5jXN8AQM9LWM0D4loKWxJek", 1_614_265_330, br#"{"test": 2432232314}"#);
        assert_eq!(signature, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
    }

    #[test]
    fn secrets_are_checked() {
        for bad in ["", "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "whsec_?", "whsec_MfKQ"] {
            assert!(Signer::new(bad).is_err(), "{bad}");
        }
    }
}
