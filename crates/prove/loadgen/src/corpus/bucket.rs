//! Texts in a bucket that speaks S3.
//!
//! Signing, pages and retries are `object_store`'s; bytes travel over our own [`HttpClient`],
//! so that there is one HTTP client in the program and tests need no socket. What S3 says
//! when something is wrong is turned into one line that names what to change.

mod transport;

#[cfg(test)]
mod tests;

use std::time::Duration;

use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use object_store::aws::{AmazonS3, AmazonS3Builder, AmazonS3ConfigKey};
use object_store::path::Path;
use object_store::{
    ClientConfigKey, Error, ObjectMeta, ObjectStore, ObjectStoreExt as _, RetryConfig,
};

use self::transport::StoreTransport;
use super::{Corpus, CorpusError, LARGEST_FILE};
use http_client::HttpClient;

/// Files that are fetched at once.
const AT_ONCE: usize = 8;

/// A person waits for this: an unreachable server is reported soon.
const RETRIES: usize = 2;
const PATIENCE: Duration = Duration::from_secs(20);

/// Ways to be allowed in; without one of them the library would ask the cloud's own network,
/// which is not there on most machines and answers with silence.
const CREDENTIALS: [AmazonS3ConfigKey; 5] = [
    AmazonS3ConfigKey::AccessKeyId,
    AmazonS3ConfigKey::SkipSignature,
    AmazonS3ConfigKey::WebIdentityTokenFile,
    AmazonS3ConfigKey::ContainerCredentialsRelativeUri,
    AmazonS3ConfigKey::ContainerCredentialsFullUri,
];

#[derive(Debug, thiserror::Error)]
pub enum BucketError {
    #[error("`{0}` is not an address such as s3://bucket/folder")]
    Address(String),
    #[error(
        "no key for {0}: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or \
         AWS_SKIP_SIGNATURE=true for a public bucket"
    )]
    NoKey(String),
    #[error("AWS_ENDPOINT_URL is http: set AWS_ALLOW_HTTP=true to read without encryption")]
    InTheClear,
    #[error("{setting} has an invalid value: {reason}")]
    Setting { setting: String, reason: String },
    #[error("{address}: {reason}")]
    Refused { address: String, reason: String },
}

/// A folder in a bucket.
#[derive(Debug)]
pub struct Bucket {
    address: String,
    prefix: Path,
    store: AmazonS3,
}

/// Whether an address means a bucket.
pub fn is_bucket(address: &str) -> bool {
    address.starts_with("s3://")
}

impl Bucket {
    /// `settings` are the usual variables by name, such as `AWS_REGION`; unknown ones are
    /// ignored.
    pub fn new(
        address: &str,
        settings: impl IntoIterator<Item = (String, String)>,
        transport: HttpClient,
    ) -> Result<Self, BucketError> {
        let wrong = || BucketError::Address(address.to_owned());
        let place = address.strip_prefix("s3://").ok_or_else(wrong)?;
        let (bucket, prefix) = place.split_once('/').unwrap_or((place, ""));
        if bucket.is_empty() {
            return Err(wrong());
        }
        let mut builder = AmazonS3Builder::new();
        for (name, value) in settings {
            if let Ok(key) = name.to_ascii_lowercase().parse::<AmazonS3ConfigKey>() {
                builder = builder.with_config(key, value);
            }
        }
        let given = |key: &AmazonS3ConfigKey| {
            let value = builder.get_config_value(key);
            value.is_some_and(|value| !value.is_empty() && value != "false")
        };
        if !CREDENTIALS.iter().any(given) {
            return Err(BucketError::NoKey(address.to_owned()));
        }
        if in_the_clear(&builder) {
            return Err(BucketError::InTheClear);
        }
        let retry = RetryConfig {
            max_retries: RETRIES,
            retry_timeout: PATIENCE,
            ..RetryConfig::default()
        };
        let store = builder
            .with_bucket_name(bucket)
            .with_retry(retry)
            .with_http_connector(StoreTransport::new(transport, PATIENCE))
            .build()
            .map_err(|error| BucketError::Setting {
                setting: "an AWS_ variable".to_owned(),
                reason: last_of(&error),
            })?;
        Ok(Self {
            address: address.to_owned(),
            prefix: Path::from(prefix),
            store,
        })
    }

    /// Reads all files below the folder. `progress` gets the number of files read and of all files.
    pub async fn read(
        &self,
        mut progress: impl FnMut(usize, usize),
    ) -> Result<Corpus, CorpusError> {
        let listed = self.store.list(Some(&self.prefix));
        let mut files: Vec<ObjectMeta> = listed
            .try_collect()
            .await
            .map_err(|error| self.refused(&error))?;
        files.sort_by(|left, right| left.location.cmp(&right.location));
        let total = files.len();
        let fetched = stream::iter(files).map(|file| self.fetch(file));
        let mut fetched = fetched.buffered(AT_ONCE);
        let (mut corpus, mut count) = (Corpus::default(), 0);
        while let Some((name, bytes)) = fetched.try_next().await? {
            corpus.add(name, bytes.as_deref());
            count += 1;
            progress(count, total);
        }
        corpus.not_empty(&self.address)
    }

    /// A file's name and content, the latter only if it is not too large.
    async fn fetch(&self, file: ObjectMeta) -> Result<(String, Option<Vec<u8>>), BucketError> {
        let name = file.location.to_string();
        if file.size > LARGEST_FILE {
            return Ok((name, None));
        }
        let got = self.store.get(&file.location).await;
        let bytes = match got {
            Ok(got) => got.bytes().await,
            Err(error) => Err(error),
        };
        let bytes = bytes.map_err(|error| self.refused(&error))?;
        Ok((name, Some(bytes.to_vec())))
    }

    fn refused(&self, error: &Error) -> BucketError {
        BucketError::Refused {
            address: self.address.clone(),
            reason: reason(error),
        }
    }
}

/// Whether an endpoint is http and nobody said that this is wanted. The library leaves that
/// to its own HTTP client, which we do not use.
fn in_the_clear(builder: &AmazonS3Builder) -> bool {
    let value = |key| builder.get_config_value(&key).unwrap_or_default();
    let endpoints = [AmazonS3ConfigKey::Endpoint, AmazonS3ConfigKey::S3Endpoint];
    let http = endpoints
        .map(value)
        .iter()
        .any(|url| url.starts_with("http://"));
    let allowed = value(AmazonS3ConfigKey::Client(ClientConfigKey::AllowHttp));
    http && allowed != "true"
}

/// The error in words.
fn reason(error: &Error) -> String {
    let text = error.to_string();
    let code = text.split_once("<Code>").and_then(|(_, rest)| {
        let (code, _) = rest.split_once("</Code>")?;
        Some(code)
    });
    match (code, error) {
        (Some("InvalidAccessKeyId"), _) => {
            "the server does not know the key in AWS_ACCESS_KEY_ID".to_owned()
        }
        (Some("SignatureDoesNotMatch"), _) => {
            "AWS_SECRET_ACCESS_KEY does not belong to AWS_ACCESS_KEY_ID".to_owned()
        }
        (Some("NoSuchBucket"), _) => "there is no such bucket".to_owned(),
        (Some("AccessDenied"), _) | (None, Error::PermissionDenied { .. }) => {
            "access denied: this key may not list or read it".to_owned()
        }
        (None, Error::Unauthenticated { .. }) => "the server does not accept the key".to_owned(),
        (None, Error::NotFound { .. }) => "there is no such bucket or file".to_owned(),
        (Some(code), _) => format!("the server refused: {code}"),
        (None, _) => last_of(error),
    }
}

/// The innermost reason; what is around it repeats it.
fn last_of(error: &dyn std::error::Error) -> String {
    let mut innermost = error;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    innermost.to_string()
}
