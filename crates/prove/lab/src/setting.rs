//! What an experiment is about, found by name: a load, the hardware, how many workers.

use engine::sim::{PUBLISHED_PROFILE, Profile, ProfileError};

use crate::workload::{Unfit, Workload, WorkloadError};

/// A load and a fleet that are known to fit each other.
#[derive(Clone, Debug)]
pub struct Setting {
    pub workload: Workload,
    pub profile: Profile,
    pub workers: u32,
}

/// Why there is no such setting.
#[derive(Debug, thiserror::Error)]
pub enum SettingError {
    #[error(transparent)]
    Workload(#[from] WorkloadError),
    #[error(transparent)]
    Profile(#[from] ProfileError),
    #[error("workload `{workload}`: {problem}")]
    Unfit { workload: String, problem: Unfit },
}

impl SettingError {
    /// What of a plan is wrong.
    pub fn field(&self) -> &'static str {
        match self {
            Self::Workload(_) => "workload",
            Self::Profile(_) => "profile",
            Self::Unfit { .. } => "workers",
        }
    }
}

impl Setting {
    /// A shipped workload by name or one from a TOML file, on the profile and workers that
    /// are given, else on those it asks for, else on the default.
    pub fn find(
        workload: &str,
        profile: Option<&str>,
        workers: Option<u32>,
    ) -> Result<Self, SettingError> {
        let workload = Workload::find(workload)?;
        let profile = Profile::find(
            profile
                .or(workload.profile.as_deref())
                .unwrap_or(PUBLISHED_PROFILE),
        )?;
        let workers = workers.or(workload.workers).unwrap_or(profile.workers);
        workload
            .check(&profile, workers)
            .map_err(|problem| SettingError::Unfit {
                workload: workload.name.clone(),
                problem,
            })?;
        Ok(Self {
            workload,
            profile,
            workers,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_given_goes_before_what_the_workload_asks_for() {
        let asked = Setting::find("large-pool", None, None).unwrap();
        assert_eq!(
            (asked.workers, asked.profile.name.as_str()),
            (32, PUBLISHED_PROFILE)
        );
        assert_eq!(
            Setting::find("large-pool", None, Some(5)).unwrap().workers,
            5
        );
    }

    #[test]
    fn what_does_not_exist_or_fit_is_named() {
        for (workload, profile, workers, part) in [
            ("nothing", None, None, "no workload `nothing`"),
            ("burst", Some("abacus"), None, "no profile `abacus`"),
            (
                "burst",
                Some("missing.toml"),
                None,
                "cannot read profile missing.toml",
            ),
            ("heterogeneous", None, Some(1), "workload `heterogeneous`: "),
        ] {
            let error = Setting::find(workload, profile, workers).unwrap_err();
            assert!(error.to_string().starts_with(part), "{error}");
        }
    }
}
