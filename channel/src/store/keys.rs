//! Ed25519 keys, natively.

use super::error::Error;
use crate::hex::{Hex, PublicKey, Signature};
use crate::signed::Check;
use ed25519_dalek::{Signer as _, SigningKey, VerifyingKey};
use std::io::{Read as _, Write as _};
use std::path::Path;

/// The key that signs a channel's heads.
///
/// On disk it is a file of one line: 64 hex digits of the seed. Whoever can read it can publish.
#[derive(Clone)]
pub struct SecretKey(SigningKey);

impl std::fmt::Debug for SecretKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "SecretKey of {}", self.public())
    }
}

impl SecretKey {
    /// A new key, from the operating system's randomness.
    ///
    /// # Errors
    /// [`Error::Usage`] if there is none to be had.
    pub fn generate() -> Result<Self, Error> {
        let mut seed = [0; 32];
        getrandom::fill(&mut seed).map_err(|error| Error::Usage(format!("this machine has no randomness: {error}")))?;
        Ok(Self(SigningKey::from_bytes(&seed)))
    }

    /// The key of a seed.
    pub fn from_seed(seed: [u8; 32]) -> Self {
        Self(SigningKey::from_bytes(&seed))
    }

    /// Reads a key file.
    ///
    /// # Errors
    /// [`Error::Io`], [`Error::Usage`] for what is no key.
    pub fn load(path: &Path) -> Result<Self, Error> {
        const LONGEST: u64 = 4096;
        let mut text = String::new();
        let file = std::fs::File::open(path).map_err(Error::io("cannot open the key", path))?;
        file.take(LONGEST).read_to_string(&mut text).map_err(Error::io("cannot read the key", path))?;
        let seed: Hex<32> = text
            .trim()
            .parse()
            .map_err(|_| Error::Usage(format!("{} is not a key: `pulse key generate` makes one", path.display())))?;
        Ok(Self::from_seed(seed.0))
    }

    /// Writes a key file that only its owner may read; never over an existing one.
    ///
    /// # Errors
    /// [`Error::Io`], also if there is a file already.
    pub fn save(&self, path: &Path) -> Result<(), Error> {
        let mut options = std::fs::OpenOptions::new();
        options.write(true).create_new(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let mut file = options.open(path).map_err(Error::io("cannot create the key", path))?;
        let line = format!("{}\n", Hex(self.0.to_bytes()));
        file.write_all(line.as_bytes()).and_then(|()| file.sync_all()).map_err(Error::io("cannot write the key", path))
    }

    /// What receivers pin.
    pub fn public(&self) -> PublicKey {
        Hex(self.0.verifying_key().to_bytes())
    }

    /// Signs `message`.
    pub fn sign(&self, message: &[u8]) -> Signature {
        Hex(self.0.sign(message).to_bytes())
    }
}

/// Whether a signature holds; keys and signatures of small order never do.
pub fn verify(check: &Check) -> bool {
    let signature = ed25519_dalek::Signature::from_bytes(&check.signature.0);
    VerifyingKey::from_bytes(&check.key.0).is_ok_and(|key| key.verify_strict(&check.message, &signature).is_ok())
}
