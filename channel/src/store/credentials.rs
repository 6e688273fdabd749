//! AWS's shared credentials file, which `object_store` does not read: read anew whenever it changes, so that a publisher outlives its keys.

use object_store::CredentialProvider;
use object_store::aws::AwsCredential;
use std::fs;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::SystemTime;

/// One profile of the file.
#[derive(Debug)]
pub(crate) struct SharedCredentials {
    path: PathBuf,
    profile: String,
    /// As of the file's last change.
    read: Mutex<Option<(SystemTime, Arc<AwsCredential>)>>,
}

impl SharedCredentials {
    /// The file, where it is the way that was chosen: the environment's own keys and web identities come first.
    pub(crate) fn find() -> Option<Self> {
        let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
        if set("AWS_ACCESS_KEY_ID").is_some() || set("AWS_WEB_IDENTITY_TOKEN_FILE").is_some() {
            return None;
        }
        let home = || Some(PathBuf::from(set("HOME").or_else(|| set("USERPROFILE"))?).join(".aws").join("credentials"));
        let path = set("AWS_SHARED_CREDENTIALS_FILE").map(PathBuf::from).or_else(home)?;
        let profile = std::env::var("AWS_PROFILE").unwrap_or_else(|_| "default".to_string());
        path.is_file().then_some(Self { path, profile, read: Mutex::new(None) })
    }

    fn read(&self) -> Result<Arc<AwsCredential>, String> {
        let failed = |error: std::io::Error| format!("cannot read {}: {error}", self.path.display());
        let modified = fs::metadata(&self.path).and_then(|metadata| metadata.modified()).map_err(failed)?;
        let mut read = self.read.lock().map_err(|_| "a thread ended while it read the credentials".to_string())?;
        if let Some((at, credential)) = read.as_ref().filter(|(at, _)| *at == modified) {
            tracing::trace!(?at, "the credentials file is as it was");
            return Ok(Arc::clone(credential));
        }
        let text = fs::read_to_string(&self.path).map_err(failed)?;
        let credential = parse(&text, &self.profile);
        let missing = || format!("{} has no keys for the profile {}", self.path.display(), self.profile);
        let credential = Arc::new(credential.ok_or_else(missing)?);
        tracing::info!(path = %self.path.display(), profile = self.profile, "read credentials");
        *read = Some((modified, Arc::clone(&credential)));
        Ok(credential)
    }
}

fn parse(text: &str, profile: &str) -> Option<AwsCredential> {
    let mut inside = false;
    let (mut key_id, mut secret_key, mut token) = (None, None, None);
    for line in text.lines().map(str::trim) {
        if let Some(name) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
            inside = name.trim() == profile;
        } else if let Some((name, value)) = line.split_once('=').filter(|_| inside) {
            let value = Some(value.trim().to_string());
            match name.trim() {
                "aws_access_key_id" => key_id = value,
                "aws_secret_access_key" => secret_key = value,
                "aws_session_token" => token = value,
                _ => {}
            }
        }
    }
    Some(AwsCredential { key_id: key_id?, secret_key: secret_key?, token })
}

#[async_trait::async_trait]
impl CredentialProvider for SharedCredentials {
    type Credential = AwsCredential;

    async fn get_credential(&self) -> object_store::Result<Arc<AwsCredential>> {
        self.read().map_err(|why| object_store::Error::Generic { store: "S3", source: why.into() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_profile_is_found_among_others() {
        let text = "# mine\n[other]\naws_access_key_id = no\naws_secret_access_key = no\n\n[ mine ]\nregion = x\naws_access_key_id=a\n aws_secret_access_key = b=c\n";
        let credential = parse(text, "mine").unwrap();
        assert_eq!((credential.key_id.as_str(), credential.secret_key.as_str()), ("a", "b=c"));
        assert!(parse(text, "third").is_none());
    }
}
