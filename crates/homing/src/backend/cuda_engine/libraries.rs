//! Folders that may have NVIDIA's libraries, besides those that the loader knows.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

/// The folder that an option names, then those of `pip install nvidia-cublas`: for the `python3` on the
/// path, and for the user, where pip installs if it may not write there.
pub(super) fn folders(named: Option<&Path>) -> Vec<PathBuf> {
    #[expect(
        clippy::disallowed_methods,
        reason = "this crate is the reader of the environment"
    )]
    let (path, home) = (std::env::var_os("PATH"), std::env::var_os("HOME"));
    let named = named.map(Path::to_owned).into_iter();
    let of_python = of_python(&path.unwrap_or_default());
    let of_user = home.map(|home| of_user(Path::new(&home)));
    named
        .chain(of_python)
        .chain(of_user.into_iter().flatten())
        .collect()
}

/// Packages of the first `python3`, where it is.
fn of_python(path: &OsStr) -> Vec<PathBuf> {
    let mut folders = std::env::split_paths(path);
    let Some(bin) = folders.find(|folder| folder.join("python3").exists()) else {
        return Vec::new();
    };
    let prefix = bin.parent().unwrap_or(Path::new("/"));
    ["lib", "local/lib"]
        .into_iter()
        .flat_map(|library| packages_in(&prefix.join(library)))
        .collect()
}

/// Packages that a user installed without the rights to the machine's own.
fn of_user(home: &Path) -> Vec<PathBuf> {
    packages_in(&home.join(".local/lib"))
}

/// NVIDIA's folders among the packages of all Pythons in a folder.
fn packages_in(library: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(library) else {
        return Vec::new();
    };
    let mut found = Vec::new();
    for entry in entries.flatten() {
        if !entry.file_name().to_string_lossy().starts_with("python3") {
            continue;
        }
        for packages in ["site-packages", "dist-packages"] {
            let folder = entry.path().join(packages).join("nvidia/cu13/lib");
            found.extend(folder.is_dir().then_some(folder));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packages_of_the_first_python_are_found() {
        let root = tempfile::tempdir().unwrap();
        let make = |name: &str| {
            let packages = root
                .path()
                .join(name)
                .join("lib/python3.12/site-packages/nvidia/cu13/lib");
            std::fs::create_dir_all(&packages).unwrap();
            let bin = root.path().join(name).join("bin");
            std::fs::create_dir_all(&bin).unwrap();
            (bin, packages)
        };
        let (no_python, _) = make("one");
        let (first, packages) = make("two");
        let (second, _) = make("three");
        for bin in [&first, &second] {
            std::fs::write(bin.join("python3"), "").unwrap();
        }
        let path = std::env::join_paths([no_python, first, second]).unwrap();
        assert_eq!(of_python(&path), [packages]);
        assert!(of_python(OsStr::new("")).is_empty());
    }

    #[test]
    fn packages_of_the_user_are_found() {
        let home = tempfile::tempdir().unwrap();
        assert!(of_user(home.path()).is_empty());
        let packages = home
            .path()
            .join(".local/lib/python3.11/site-packages/nvidia/cu13/lib");
        std::fs::create_dir_all(&packages).unwrap();
        assert_eq!(of_user(home.path()), [packages]);
    }
}
