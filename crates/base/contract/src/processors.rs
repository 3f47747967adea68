//! CPU time of the machine, and the share that other guests of its host took.
//!
//! A hypervisor lends the same processors to several machines, and what the others take comes
//! and goes within minutes. Linux counts it as stolen time, which distinguishes a slow program
//! from a machine that did not get its processors.

/// Time of all processors since the machine started, in whatever unit the kernel counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Processors {
    /// Time in which they ran something of this machine.
    pub worked: u64,
    /// Time in which there was something to run, but other guests had them.
    pub taken: u64,
}

impl Processors {
    /// The file in which Linux reports CPU times.
    pub const FILE: &str = "/proc/stat";

    /// Reads the line that is about all processors together.
    pub fn parse(stat: &str) -> Option<Self> {
        let mut fields = stat.lines().next()?.split_whitespace();
        if fields.next()? != "cpu" {
            return None;
        }
        let times: Vec<u64> = fields.map_while(|field| field.parse().ok()).collect();
        let [
            user,
            nice,
            system,
            _idle,
            _waiting,
            irq,
            softirq,
            stolen,
            ..,
        ] = times[..]
        else {
            return None;
        };
        Some(Self {
            worked: user + nice + system + irq + softirq,
            taken: stolen,
        })
    }

    /// Which share of the time in which there was something to run others had since `earlier`.
    pub fn share_taken_since(self, earlier: Self) -> f64 {
        let worked = self.worked.saturating_sub(earlier.worked);
        let taken = self.taken.saturating_sub(earlier.taken);
        match worked + taken {
            0 => 0.0,
            wanted => taken as f64 / wanted as f64,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_of_all_processors_is_read() {
        let stat = "cpu  10 20 30 4000 500 6 7 80 9 9\ncpu0 1 1 1 1 1 1 1 1 1 1\n";
        let read = Processors::parse(stat).unwrap();
        assert_eq!((read.worked, read.taken), (73, 80));
    }

    #[test]
    fn what_does_not_tell_stolen_time_tells_nothing() {
        for stat in [
            "",
            "cpu",
            "cpu 1 2 3 4",
            "cpu0 1 2 3 4 5 6 7 8",
            "cpu a b c",
        ] {
            assert_eq!(Processors::parse(stat), None, "{stat}");
        }
    }

    #[test]
    fn a_share_is_of_the_time_in_which_there_was_work() {
        let at = |worked, taken| Processors { worked, taken };
        let shares = [(at(0, 0), 0.0), (at(90, 10), 0.1), (at(0, 5), 1.0)];
        for (later, share) in shares {
            let earlier = at(7, 3);
            let later = at(7 + later.worked, 3 + later.taken);
            let found = later.share_taken_since(earlier);
            assert!((found - share).abs() < 1e-12, "{found}");
        }
        // A counter that went back, as after a move to another host, is no reason to panic.
        assert!(at(0, 0).share_taken_since(at(7, 3)).abs() < 1e-12);
    }
}
