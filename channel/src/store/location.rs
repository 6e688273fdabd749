//! Where a channel is: a folder, a bucket, or a web address.

use super::error::Error;
use std::path::PathBuf;
use url::Url;

/// An address, read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Location {
    /// A local folder.
    Folder(PathBuf),
    /// S3, GCS, Azure: what `object_store` has a scheme for.
    Cloud(Url),
    /// Plain HTTP: to read only.
    Web(Url),
}

impl Location {
    pub(crate) fn parse(text: &str) -> Result<Self, Error> {
        let usage = |why: String| Err(Error::Usage(why));
        // A drive letter of Windows is no scheme.
        let url = Url::parse(text).ok().filter(|url| url.scheme().len() > 1);
        let Some(mut url) = url else { return Ok(Self::Folder(PathBuf::from(text))) };
        match url.scheme() {
            "file" => match url.to_file_path() {
                Ok(path) => Ok(Self::Folder(path)),
                Err(()) => usage(format!("{text} is not a path on this machine")),
            },
            "http" | "https" => {
                // The folder, also where its head was named.
                let path = url.path().trim_end_matches(crate::layout::HEAD).trim_end_matches('/').to_string();
                url.set_path(&format!("{path}/"));
                url.set_fragment(None);
                Ok(Self::Web(url))
            }
            "s3" | "s3a" | "gs" | "az" | "adl" | "azure" | "abfs" | "abfss" => Ok(Self::Cloud(url)),
            other => usage(format!(
                "{other}:// is none of the places a channel can be: a folder, file://, s3://, gs://, az://, abfs://, http:// or https://"
            )),
        }
    }

    /// For people: without credentials.
    pub(crate) fn shown(&self) -> String {
        match self {
            Self::Folder(path) => path.display().to_string(),
            Self::Cloud(url) | Self::Web(url) => {
                let mut url = url.clone();
                let _ = url.set_username("");
                let _ = url.set_password(None);
                url.set_query(None);
                url.to_string().trim_end_matches('/').to_string()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses() {
        let folder = |path: &str| Location::Folder(PathBuf::from(path));
        assert_eq!(Location::parse("run/channel").unwrap(), folder("run/channel"));
        assert_eq!(Location::parse("/srv/run").unwrap(), folder("/srv/run"));
        assert_eq!(Location::parse("c:").unwrap(), folder("c:"));
        #[cfg(unix)]
        assert_eq!(Location::parse("file:///srv/run").unwrap(), folder("/srv/run"));
        for text in ["https://host/run", "https://host/run/", "https://host/run/head.json", "https://host/run#x"] {
            assert_eq!(Location::parse(text).unwrap(), Location::Web("https://host/run/".parse().unwrap()), "{text}");
        }
        assert!(matches!(Location::parse("s3://bucket/run").unwrap(), Location::Cloud(_)));
        assert_eq!(Location::parse("ftp://host/run").unwrap_err().code(), "usage");
    }

    #[test]
    fn no_secret_is_shown() {
        let location = Location::parse("https://me:secret@host/run?token=secret").unwrap();
        assert_eq!(location.shown(), "https://host/run");
    }
}
