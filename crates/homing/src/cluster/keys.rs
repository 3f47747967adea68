//! The file with clients' API keys, followed while the server runs.

use std::path::Path;

use anyhow::Context as _;
use frontend::{ApiKeys, KeyRing};
use tasks::Tasks;

use crate::watched_files::WatchedFiles;

/// The keys of the file, which is followed from now on.
pub(super) fn follow(path: &Path, tasks: &Tasks) -> anyhow::Result<KeyRing> {
    let (files, keys) =
        WatchedFiles::open("API keys", vec![path.to_owned()], parse).context("--api-key-file")?;
    let ring = KeyRing::new(keys);
    let followed = ring.clone();
    tasks.spawn(files.follow(tasks.stop.clone(), move |contents| {
        followed.replace(parse(contents)?);
        Ok(())
    }));
    Ok(ring)
}

fn parse(contents: &[Vec<u8>]) -> anyhow::Result<ApiKeys> {
    let text = std::str::from_utf8(&contents.concat())?.to_owned();
    Ok(ApiKeys::parse(&text)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_without_keys_is_refused() {
        let error = format!("{:#}", parse(&[b"# nobody\n".to_vec()]).unwrap_err());
        assert!(error.ends_with("it has no keys"), "{error}");
        let keys = parse(&[b"[[keys]]\nname = \"a\"\nkey = \"sk-new\"\n".to_vec()]);
        assert_eq!(keys.unwrap().len(), 1);
    }
}
