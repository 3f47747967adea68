//! How many files this process may have open, sockets included.
//!
//! The usual limit of 1,024 is a default from another time: the kernel lets a process raise it
//! to a second limit, commonly a thousand times as high, without being asked for a reason.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Files that are no clients' connections: listeners, workers, logs, models.
const OTHERS: u64 = 64;
/// More than this needs more than descriptors.
const MOST_CONNECTIONS: u64 = 65_536;

/// Raises the limit as far as it goes, and says how many connections it allows.
pub(crate) fn connections() -> usize {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: maximum,
        maximum,
    };
    let allowed = match setrlimit(Resource::Nofile, raised) {
        Ok(()) => maximum,
        Err(_) => current,
    };
    connections_of(allowed)
}

/// Of so many files, or of any number. An eighth is left for what nobody thought of.
fn connections_of(files: Option<u64>) -> usize {
    let files = files.unwrap_or(u64::MAX);
    let reserve = frontend::Connections::descriptors(0) as u64;
    let free = (files - files / 8).saturating_sub(OTHERS + reserve);
    free.clamp(1, MOST_CONNECTIONS) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_leave_files_for_everything_else() {
        for (files, connections) in [
            (Some(0), 1),
            (Some(128), 32),
            (Some(1024), 816),
            (Some(1_048_576), 65_536),
            (None, 65_536),
        ] {
            assert_eq!(connections_of(files), connections, "{files:?}");
        }
    }
}
