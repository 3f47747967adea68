//! Reads the corpus that conversations begin with, and warns of files that it skips.

use std::path::Path;

use ::loadgen::Starter;
use ::loadgen::corpus::Corpus;
use ::loadgen::corpus::bucket::{Bucket, is_bucket};
use http_client::{HttpClient, HttpOptions};

use crate::print;

/// How often a long download says where it is.
const EVERY: usize = 100;

pub(super) async fn read(place: &str) -> anyhow::Result<Vec<Starter>> {
    let corpus = match is_bucket(place) {
        true => read_bucket(place).await?,
        false => Corpus::read_folder(Path::new(place))?,
    };
    for left_out in &corpus.left_out {
        print::note(format_args!("warning: {left_out}"));
    }
    Ok(corpus.starters)
}

async fn read_bucket(address: &str) -> anyhow::Result<Corpus> {
    let transport = HttpClient::network(HttpOptions::default());
    let bucket = Bucket::new(address, amazon_variables(), transport)?;
    let progress = |read: usize, total: usize| {
        if read.is_multiple_of(EVERY) || read == total {
            print::note(format_args!("{address}: {read} of {total} files read"));
        }
    };
    Ok(bucket.read(progress).await?)
}

fn amazon_variables() -> Vec<(String, String)> {
    let all = std::env::vars_os().filter_map(|(name, value)| {
        let (name, value) = (name.into_string().ok()?, value.into_string().ok()?);
        name.starts_with("AWS_").then_some((name, value))
    });
    all.collect()
}
