//! A channel in a bucket: S3, GCS, Azure.

use super::credentials::SharedCredentials;
use super::error::Error;
use super::place::{Listed, Place, Read, Small, Tag, Wanted};
use super::uploads::{Unfinished, Uploads};
use crate::layout::HEAD;
use crate::time::Time;
use futures::{StreamExt as _, TryStreamExt as _};
use object_store::aws::AmazonS3Builder;
use object_store::azure::MicrosoftAzureBuilder;
use object_store::gcp::GoogleCloudStorageBuilder;
use object_store::multipart::MultipartStore;
use object_store::{
    ClientOptions, GetOptions, GetRange, ObjectStore, ObjectStoreExt as _, PutMode, PutOptions, PutPayload,
    RetryConfig, UpdateVersion,
};
use pulse_encoder::Progress;
use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Runtime;
use url::Url;

/// Objects up to this length go in one request, larger ones in parts of it, or of the least multiple with which 10,000 parts are enough.
const PART: u64 = 8 << 20;
const MOST_PARTS: u64 = 10_000;
/// Parts under way at once.
const CONCURRENT: usize = 4;

/// Both sides of a bucket's client.
trait Client: ObjectStore + MultipartStore {}
impl<T: ObjectStore + MultipartStore> Client for T {}

pub(crate) struct Cloud {
    runtime: Arc<Runtime>,
    client: Arc<dyn Client>,
    prefix: object_store::path::Path,
    shown: String,
    uploads: Uploads,
}

impl Cloud {
    /// `uploads` is where unfinished uploads are noted, so that the next run goes on with them.
    pub(crate) fn new(
        runtime: Arc<Runtime>,
        url: &Url,
        shown: String,
        idle: Duration,
        uploads: Option<PathBuf>,
    ) -> Result<Self, Error> {
        let usage = |error: object_store::Error| Error::Usage(format!("{shown}: {error}"));
        // On idle time, never on a whole transfer: a slow line that goes on is not a fault.
        let options = ClientOptions::new().with_timeout_disabled().with_read_timeout(idle).with_connect_timeout(idle);
        let retry = RetryConfig { max_retries: 4, retry_timeout: Duration::from_secs(60), ..RetryConfig::default() };
        let client: Arc<dyn Client> = match url.scheme() {
            "gs" => {
                let builder = GoogleCloudStorageBuilder::from_env().with_client_options(options).with_retry(retry);
                Arc::new(builder.with_url(url.as_str()).build().map_err(usage)?)
            }
            "s3" | "s3a" => {
                // An endpoint that says http means it.
                let endpoint = std::env::var("AWS_ENDPOINT_URL_S3").or_else(|_| std::env::var("AWS_ENDPOINT_URL"));
                let plain = endpoint.or_else(|_| std::env::var("AWS_ENDPOINT"));
                let options = options.with_allow_http(plain.is_ok_and(|endpoint| endpoint.starts_with("http://")));
                let mut builder = AmazonS3Builder::from_env().with_client_options(options).with_retry(retry);
                if let Some(shared) = SharedCredentials::find() {
                    builder = builder.with_credentials(Arc::new(shared));
                }
                Arc::new(builder.with_url(url.as_str()).build().map_err(usage)?)
            }
            _ => {
                let builder = MicrosoftAzureBuilder::from_env().with_client_options(options).with_retry(retry);
                Arc::new(builder.with_url(url.as_str()).build().map_err(usage)?)
            }
        };
        let path = object_store::parse_url(url).map(|(_, path)| path);
        // Without credentials in the URL the path is all that is needed of it.
        let prefix =
            path.or_else(|_| object_store::path::Path::from_url_path(url.path()).map_err(Into::into)).map_err(usage)?;
        Ok(Self { runtime, client, prefix, shown, uploads: Uploads::new(uploads) })
    }

    fn path(&self, path: &str) -> object_store::path::Path {
        path.split('/').filter(|part| !part.is_empty()).fold(self.prefix.clone(), |path, part| path.join(part))
    }

    fn place(&self, path: &str) -> String {
        format!("{}/{path}", self.shown)
    }

    fn failed(&self, action: &'static str, path: &str) -> impl Fn(object_store::Error) -> Error {
        let place = self.place(path);
        move |error| match error {
            object_store::Error::NotFound { .. } => Error::Missing { place: place.clone() },
            object_store::Error::PermissionDenied { .. } | object_store::Error::Unauthenticated { .. } => {
                Error::Denied { action, place: place.clone() }
            }
            error => Error::Store { action, place: place.clone(), why: error.to_string() },
        }
    }

    async fn read(&self, path: &str, limit: usize) -> Result<Read, Error> {
        let failed = self.failed("read", path);
        let answer = match self.client.get_opts(&self.path(path), GetOptions::default()).await {
            Err(object_store::Error::NotFound { .. }) => return Ok(Read::Absent),
            answer => answer.map_err(&failed)?,
        };
        let tag = Tag { etag: answer.meta.e_tag.clone(), version: answer.meta.version.clone() };
        let mut body = answer.into_stream();
        let mut bytes = Vec::new();
        while let Some(piece) = body.try_next().await.map_err(&failed)? {
            bytes.extend_from_slice(&piece);
            if bytes.len() > limit {
                break;
            }
        }
        Ok(Read::Found(Small { bytes, tag: Some(tag), date: None, events: None }))
    }

    async fn fetch(&self, wanted: Wanted<'_>, out: &mut File, progress: &dyn Progress) -> Result<(), Error> {
        let failed = self.failed("fetch", wanted.path);
        let range = (wanted.from > 0).then_some(GetRange::Offset(wanted.from));
        let options = GetOptions { range, ..GetOptions::default() };
        let answer = self.client.get_opts(&self.path(wanted.path), options).await.map_err(&failed)?;
        let mut left = wanted.bytes - wanted.from;
        let mut body = answer.into_stream();
        while let Some(piece) = body.try_next().await.map_err(&failed)? {
            if progress.is_cancelled() {
                return Err(Error::Interrupted);
            }
            if piece.len() as u64 > left {
                let why = "it is longer than was announced".to_string();
                return Err(Error::Swapped { place: self.place(wanted.path), why });
            }
            out.write_all(&piece).map_err(Error::io("cannot write", Path::new(wanted.path)))?;
            left -= piece.len() as u64;
            progress.advance(piece.len() as u64);
        }
        Ok(())
    }

    /// Uploads in equal parts, the last not larger; goes on with an upload that a run before this one began.
    async fn upload(&self, path: &str, file: &Path, bytes: u64, progress: &dyn Progress) -> Result<(), Error> {
        let failed = self.failed("upload", path);
        let location = self.path(path);
        let part_bytes = bytes.div_ceil(MOST_PARTS).div_ceil(PART).max(1) * PART;
        let parts = bytes.div_ceil(part_bytes) as usize;
        let mut upload = match self.uploads.find(path, bytes, part_bytes) {
            Some(upload) => upload,
            None => {
                let id = self.client.create_multipart(&location).await.map_err(&failed)?;
                self.uploads.begin(path, id, bytes, part_bytes)?
            }
        };
        let missing: Vec<usize> = (0..parts).filter(|part| !upload.parts.contains_key(part)).collect();
        progress.advance((parts - missing.len()) as u64 * part_bytes);
        let (id, location, failed) = (&upload.id.clone(), &location, &failed);
        let mut sent = futures::stream::iter(missing.into_iter().map(|part| async move {
            let piece = read_part(file, part as u64 * part_bytes, part_bytes)?;
            let length = piece.len() as u64;
            let stored = self.client.put_part(location, id, part, piece.into()).await.map_err(failed)?;
            Ok::<_, Error>((part, stored, length))
        }))
        .buffer_unordered(CONCURRENT);
        while let Some((part, stored, length)) = sent.try_next().await? {
            upload.parts.insert(part, stored.content_id);
            self.uploads.note(&upload)?;
            progress.advance(length);
            if progress.is_cancelled() {
                return Err(Error::Interrupted);
            }
        }
        let stored = upload.parts.values().map(|part| object_store::multipart::PartId { content_id: part.clone() });
        self.client.complete_multipart(location, id, stored.collect()).await.map_err(failed)?;
        self.uploads.end(path)
    }

    async fn abort(&self, upload: &Unfinished) -> Result<(), Error> {
        // Twice: a part that was under way at the first may have arrived since.
        for _ in 0..2 {
            match self.client.abort_multipart(&self.path(&upload.path), &upload.id).await {
                Ok(()) | Err(object_store::Error::NotFound { .. }) => {}
                Err(error) => return Err(self.failed("give up the upload of", &upload.path)(error)),
            }
        }
        self.uploads.end(&upload.path)
    }
}

fn read_part(file: &Path, start: u64, bytes: u64) -> Result<Vec<u8>, Error> {
    let mut source = File::open(file).map_err(Error::io("cannot open", file))?;
    let mut piece = Vec::new();
    let read = source.seek(SeekFrom::Start(start)).and_then(|_| source.take(bytes).read_to_end(&mut piece));
    read.map_err(Error::io("cannot read", file))?;
    Ok(piece)
}

impl Place for Cloud {
    fn read_small(&self, path: &str, limit: usize, _: Option<&Tag>, _: bool) -> Result<Read, Error> {
        self.runtime.block_on(self.read(path, limit))
    }

    fn download(&self, wanted: Wanted<'_>, out: &mut File, progress: &dyn Progress) -> Result<(), Error> {
        self.runtime.block_on(self.fetch(wanted, out, progress))
    }

    fn put_head(&self, bytes: &[u8], expected: Option<&Small>) -> Result<(), Error> {
        let mode = match expected {
            None => PutMode::Create,
            Some(head) => {
                let Some(Tag { etag, version }) = head.tag.clone() else {
                    return Err(Error::Usage(format!(
                        "{} gives files no ETag, so that two publishers could both win",
                        self.shown
                    )));
                };
                PutMode::Update(UpdateVersion { e_tag: etag, version })
            }
        };
        let options = PutOptions { mode, ..PutOptions::default() };
        let path = self.path(HEAD);
        let put = self.client.put_opts(&path, PutPayload::from(bytes.to_vec()), options);
        self.runtime.block_on(put).map(|_| ()).map_err(self.failed("write", HEAD))
    }

    fn put_file(&self, path: &str, file: &Path, progress: &dyn Progress) -> Result<(), Error> {
        let bytes = std::fs::metadata(file).map_err(Error::io("cannot look at", file))?.len();
        if bytes > PART {
            return self.runtime.block_on(self.upload(path, file, bytes, progress));
        }
        let payload = PutPayload::from(std::fs::read(file).map_err(Error::io("cannot read", file))?);
        let put = self.runtime.block_on(self.client.put(&self.path(path), payload));
        put.map_err(self.failed("upload", path))?;
        progress.advance(bytes);
        Ok(())
    }

    fn size(&self, path: &str) -> Result<Option<u64>, Error> {
        match self.runtime.block_on(self.client.head(&self.path(path))) {
            Ok(meta) => Ok(Some(meta.size)),
            Err(object_store::Error::NotFound { .. }) => Ok(None),
            Err(error) => Err(self.failed("look at", path)(error)),
        }
    }

    fn list(&self, folder: &str) -> Result<Vec<Listed>, Error> {
        let listed = self.client.list(Some(&self.path(folder)));
        let listed = listed.map_ok(|meta| Listed {
            path: format!("{folder}{}", meta.location.filename().unwrap_or_default()),
            bytes: meta.size,
            modified: Time(meta.last_modified.timestamp().try_into().unwrap_or(0)),
        });
        self.runtime.block_on(listed.try_collect()).map_err(self.failed("list", folder))
    }

    fn delete(&self, path: &str) -> Result<(), Error> {
        match self.runtime.block_on(self.client.delete(&self.path(path))) {
            Ok(()) | Err(object_store::Error::NotFound { .. }) => Ok(()),
            Err(error) => Err(self.failed("delete", path)(error)),
        }
    }

    fn abort_uploads(&self, dry_run: bool) -> Result<Vec<Listed>, Error> {
        let unfinished = self.uploads.all()?;
        if !dry_run {
            unfinished.iter().try_for_each(|upload| self.runtime.block_on(self.abort(upload)))?;
        }
        let listed = |upload: Unfinished| Listed {
            bytes: upload.part_bytes * upload.parts.len() as u64,
            modified: upload.begun,
            path: upload.path,
        };
        Ok(unfinished.into_iter().map(listed).collect())
    }
}
