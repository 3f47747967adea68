//! A plan as something to type.

use super::{Plan, Testbed};

impl Plan {
    /// What to type to run it again.
    pub fn command(&self) -> String {
        let mut words = vec!["homing sweep".to_owned()];
        let mut word = |flag: &str, value: &str| words.push(format!("--{flag} {}", quoted(value)));
        match &self.testbed {
            Testbed::Virtual { profile, workers } => {
                word("profile", profile);
                word("workers", &workers.to_string());
            }
            Testbed::Story { workers, .. } => word("workers", &workers.to_string()),
            Testbed::Homing {
                target,
                model,
                beside,
            } => {
                word("target", target);
                model.iter().for_each(|model| word("model", model));
                let beside = beside
                    .iter()
                    .map(|one| format!("{}={}", one.name, one.target));
                let beside: Vec<String> = beside.collect();
                if !beside.is_empty() {
                    word("beside", &beside.join(","));
                }
            }
            Testbed::Hooks {
                target,
                model,
                set_mode_command,
                get_mode_command,
                reset_command,
                ready_url,
            } => {
                word("target", target);
                for (flag, value) in [
                    ("model", model),
                    ("set-mode-command", set_mode_command),
                    ("get-mode-command", get_mode_command),
                    ("reset-command", reset_command),
                    ("ready-url", ready_url),
                ] {
                    value.iter().for_each(|value| word(flag, value));
                }
            }
        }
        let levels: Vec<String> = self.levels.iter().map(u32::to_string).collect();
        word("workload", &self.workload);
        word("levels", &levels.join(","));
        match self.is_story() {
            true => words.insert(1, "--story".to_owned()),
            false => {
                let modes = self.own_mode_words();
                words.push(format!("--modes {}", quoted(&modes.join(","))));
            }
        }
        let mut word = |flag: &str, value: &str| words.push(format!("--{flag} {}", quoted(value)));
        word("repeats", &self.repeats.to_string());
        word("warmup", &format!("{}s", self.warmup_s));
        word("window", &format!("{}s", self.window_s));
        if !super::is_settle_s(&self.settle_s) {
            word("settle", &format!("{}s", self.settle_s));
        }
        word("order", self.order.name());
        word("slo", &self.slo.notation());
        word("seed", &self.seed.to_string());
        if self.is_virtual() {
            words.insert(1, "--virtual".to_owned());
        }
        words.join(" ")
    }

    /// Without servers beside, which have an option of their own.
    fn own_mode_words(&self) -> Vec<String> {
        let is_beside = |mode: &String| self.beside().iter().any(|one| one.name == *mode);
        let modes = self.modes.iter().zip(self.mode_words());
        modes
            .filter(|(mode, _)| !is_beside(mode))
            .map(|(_, word)| word)
            .collect()
    }
}

/// For a shell, if it needs it.
pub(super) fn quoted(value: &str) -> String {
    let plain =
        |character: char| character.is_ascii_alphanumeric() || "-_.,:/=@+".contains(character);
    match !value.is_empty() && value.chars().all(plain) {
        true => value.to_owned(),
        false => format!("'{}'", value.replace('\'', r"'\''")),
    }
}
