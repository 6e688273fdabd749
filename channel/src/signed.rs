//! A head as it is served: a line with its signature, then the exact bytes that are signed.
//!
//! Signature and body are one object, so that no cache can pair an old one with a new one. Who verifies is not settled here: natively it is
//! ed25519-dalek, in a browser WebCrypto, which answers later. So [`SignedHead::checks`] lists what is to be verified, and
//! [`SignedHead::trust`] takes the answer.

use crate::error::Error;
use crate::head::Head;
use crate::hex::{Hash, PublicKey, Signature, hash};
use crate::layout::{HEAD_DOMAIN, MAX_HEAD_BYTES};
use crate::rotation::Rotation;
use serde::{Deserialize, Serialize};

/// The first line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
struct Seal {
    key: PublicKey,
    signature: Signature,
}

/// A head that was read and not yet trusted.
#[derive(Debug, Clone)]
pub struct SignedHead {
    seal: Seal,
    body: Vec<u8>,
    head: Head,
    hash: Hash,
}

/// One signature that has to hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Check {
    /// Who should have made it.
    pub key: PublicKey,
    /// Over what.
    pub message: Vec<u8>,
    /// The signature.
    pub signature: Signature,
}

/// A head that a trusted key has signed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TrustedHead {
    /// What it says.
    pub head: Head,
    /// BLAKE3 of the bytes that were served.
    pub hash: Hash,
}

impl SignedHead {
    /// Reads what was served as the head.
    ///
    /// # Errors
    /// [`Error::Limit`], [`Error::Head`], [`Error::Unsupported`].
    pub fn parse(bytes: &[u8]) -> Result<Self, Error> {
        if bytes.len() > MAX_HEAD_BYTES {
            let (found, limit) = (bytes.len() as u64, MAX_HEAD_BYTES as u64);
            return Err(Error::Limit { what: "the head in bytes", found, limit });
        }
        let line = bytes.iter().position(|byte| *byte == b'\n').ok_or_else(|| Error::head(looks(bytes)))?;
        let (line, body) = bytes.split_at(line);
        let seal: Seal = serde_json::from_slice(line).map_err(|_| Error::head(looks(bytes)))?;
        let body = body.get(1..).unwrap_or_default().to_vec();
        let head = Head::parse(&body)?;
        if head.key != seal.key {
            return Err(Error::head("it names another key than the one that signs it"));
        }
        Ok(Self { seal, body, head, hash: hash(bytes) })
    }

    /// The bytes to serve: `sign` makes an Ed25519 signature with the secret part of the key that the head names.
    ///
    /// # Errors
    /// [`Error::Head`] for a head that breaks a rule, [`Error::Limit`] for one that is too long.
    pub fn write(head: &Head, sign: impl FnOnce(&[u8]) -> Signature) -> Result<Vec<u8>, Error> {
        let body = head.to_body()?;
        let signature = sign(&[HEAD_DOMAIN, &body].concat());
        let mut bytes = serde_json::to_vec(&Seal { key: head.key, signature }).map_err(Error::head)?;
        bytes.push(b'\n');
        bytes.extend(body);
        // What is written is read: by the same rules.
        Self::parse(&bytes).map(|_| bytes)
    }

    /// What the head says, which may be anything until it is trusted.
    pub fn unverified(&self) -> &Head {
        &self.head
    }

    /// The signatures that have to hold if `trusted` is a key whose word counts.
    ///
    /// # Errors
    /// [`Error::Key`] if no chain of rotations leads from `trusted` to the key that signs.
    pub fn checks(&self, trusted: &PublicKey) -> Result<Vec<Check>, Error> {
        let mut at = *trusted;
        let mut checks = Vec::new();
        let rotations = &self.head.rotations;
        let begin = rotations.iter().position(|rotation| rotation.from == at).unwrap_or(rotations.len());
        for rotation in rotations.get(begin..).unwrap_or_default() {
            let Rotation { from, to, sequence, signature } = *rotation;
            if from != at || sequence > self.head.sequence {
                return Err(Error::head("its key rotations do not follow from one another"));
            }
            let message = Rotation::message(&from, &to, sequence, &self.head.run);
            checks.push(Check { key: from, message, signature });
            at = to;
        }
        if at != self.seal.key {
            return Err(Error::Key { found: self.seal.key, trusted: *trusted });
        }
        let message = [HEAD_DOMAIN, &self.body].concat();
        checks.push(Check { key: at, message, signature: self.seal.signature });
        Ok(checks)
    }

    /// The head, once every check has been answered.
    ///
    /// # Errors
    /// [`Error::Signature`] unless all of `answers`, in the order of [`SignedHead::checks`], say that the signature holds; [`Error::Key`] as there.
    pub fn trust(self, trusted: &PublicKey, answers: &[bool]) -> Result<TrustedHead, Error> {
        let checks = self.checks(trusted)?;
        let failed = checks.iter().enumerate().find(|(place, _)| answers.get(*place) != Some(&true));
        match failed {
            Some((_, check)) => Err(Error::Signature { key: check.key }),
            None => Ok(TrustedHead { head: self.head, hash: self.hash }),
        }
    }

    /// [`SignedHead::checks`] and [`SignedHead::trust`] in one, where verifying answers at once.
    ///
    /// # Errors
    /// As there.
    pub fn verify(self, trusted: &PublicKey, verify: impl Fn(&Check) -> bool) -> Result<TrustedHead, Error> {
        let answers: Vec<bool> = self.checks(trusted)?.iter().map(verify).collect();
        self.trust(trusted, &answers)
    }
}

/// What bytes that are no head look like.
fn looks(bytes: &[u8]) -> &'static str {
    let begins =
        |text: &[u8]| bytes.trim_ascii_start().get(..text.len()).is_some_and(|start| start.eq_ignore_ascii_case(text));
    match bytes {
        [] => "it is empty",
        [0x1f, 0x8b, ..] => "it is compressed with gzip: serve it as it is",
        _ if begins(b"<!doctype") || begins(b"<html") || begins(b"<?xml") || begins(b"<error") => {
            "it is a web page or an XML document: is the address that of the folder with head.json?"
        }
        _ => "it does not begin with a line that holds key and signature",
    }
}
