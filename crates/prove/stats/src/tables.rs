//! A summary as JSON, as CSV and as a table for a terminal.

use std::fmt::Write as _;
use std::path::Path;

use crate::intervals::NOT_ENOUGH_RUNS;
use crate::summary::Summary;

impl Summary {
    /// Writes `summary.json` and `cells.csv` into a folder, which is made if need be.
    pub fn write(&self, folder: &Path) -> std::io::Result<()> {
        std::fs::create_dir_all(folder)?;
        std::fs::write(folder.join("summary.json"), self.json()?)?;
        std::fs::write(folder.join("cells.csv"), self.csv())
    }

    pub fn json(&self) -> serde_json::Result<String> {
        Ok(serde_json::to_string_pretty(self)? + "\n")
    }

    /// One line for each cell.
    pub fn csv(&self) -> String {
        let mut csv = String::from(
            "mode,concurrency,requests,errors,\
             ttft_ms_p50,ttft_ms_p95,ttft_ms_p99,tpot_ms_p50,tpot_ms_p95,tpot_ms_p99,\
             itl_ms_p50,itl_ms_p95,itl_ms_p99,e2e_s_p50,e2e_s_p95,e2e_s_p99,\
             tops,rps,kv_hit_pct,inflight_spread_mean,inflight_spread_max,\
             dispatched_past_slots,simulated,runs,\
             ttft_ms_p90,tpot_ms_p90,itl_ms_p90,e2e_s_p90,\
             adjusted_ttft_ms_p95,adjusted_e2e_s_p95,goodput_rps,goodput_pct,server_hit_pct,\
             inflight_max,queue_ms_p95,queue_ms_max,lag_ms_p95,\
             ttft_ms_p50_low,ttft_ms_p50_high,ttft_ms_p95_low,ttft_ms_p95_high,\
             tpot_ms_p95_low,tpot_ms_p95_high,tops_low,tops_high,guards,intervals\n",
        );
        for cell in &self.cells {
            let mut fields = vec![
                cell.mode.clone(),
                cell.concurrency.map_or(String::new(), |n| n.to_string()),
                cell.requests.to_string(),
                cell.errors.to_string(),
            ];
            for figures in [cell.ttft_ms, cell.tpot_ms, cell.itl_ms, cell.e2e_s] {
                fields.extend([figures.p50, figures.p95, figures.p99].map(optional));
            }
            fields.extend([
                cell.tops.to_string(),
                cell.rps.to_string(),
                optional(cell.kv_hit_pct),
                optional(cell.inflight_spread.mean),
                cell.inflight_spread.max.to_string(),
                whole(cell.dispatched_past_slots),
                self.about.simulated.to_string(),
                cell.runs.to_string(),
            ]);
            for figures in [cell.ttft_ms, cell.tpot_ms, cell.itl_ms, cell.e2e_s] {
                fields.push(optional(figures.p90));
            }
            fields.extend([
                optional(cell.adjusted_ttft_ms.p95),
                optional(cell.adjusted_e2e_s.p95),
                optional(cell.goodput_rps),
                optional(cell.goodput_pct),
                optional(cell.server_hit_pct),
                cell.traffic.inflight_max.to_string(),
                optional(cell.traffic.queue_ms.p95),
                optional(cell.traffic.queue_ms_max),
                optional(cell.lag_ms_p95),
            ]);
            for figure in ["ttft_ms_p50", "ttft_ms_p95", "tpot_ms_p95", "tops"] {
                let interval = cell.intervals.get(figure);
                fields.push(optional(interval.map(|interval| interval.low)));
                fields.push(optional(interval.map(|interval| interval.high)));
            }
            let guards = cell.guards.iter().map(|guard| guard.kind.name());
            fields.push(guards.collect::<Vec<_>>().join(" "));
            let intervals = match cell.intervals.is_empty() {
                true => NOT_ENOUGH_RUNS,
                false => "95 %",
            };
            fields.push(intervals.to_owned());
            csv.push_str(&fields.join(","));
            csv.push('\n');
        }
        csv
    }

    /// The summary as a text table.
    pub fn table(&self) -> String {
        let mut table = self.table_head();
        for cell in &self.cells {
            let concurrency = cell.concurrency.map_or("-".to_owned(), |n| n.to_string());
            writeln!(
                table,
                "{:<13} {:>5} {:>8} {:>6} | {:>7} {:>7} {:>7} | {:>6} {:>6} | {:>6} {:>6} | {:>6} {:>6} | {:>7.0} {:>6.2} | {:>5} {:>6} {:>4} {:>5}",
                cell.mode,
                concurrency,
                cell.requests,
                cell.errors,
                rounded(cell.ttft_ms.p50, 0),
                rounded(cell.ttft_ms.p95, 0),
                rounded(cell.ttft_ms.p99, 0),
                rounded(cell.tpot_ms.p50, 1),
                rounded(cell.tpot_ms.p95, 1),
                rounded(cell.itl_ms.p50, 1),
                rounded(cell.itl_ms.p95, 1),
                rounded(cell.e2e_s.p50, 1),
                rounded(cell.e2e_s.p95, 1),
                cell.tops,
                cell.rps,
                rounded(cell.kv_hit_pct, 1),
                rounded(cell.inflight_spread.mean, 1),
                cell.inflight_spread.max,
                whole(cell.dispatched_past_slots),
            )
            .expect("a string takes any text");
        }
        table
    }

    fn table_head(&self) -> String {
        let about = &self.about;
        let mark = match about.simulated {
            true => "SIMULATED: ",
            false => "",
        };
        let workers = about
            .workers
            .map_or("?".to_owned(), |workers| workers.to_string());
        let (workload, profile, seed) = (&about.workload, &about.profile, about.seed);
        let [p50, p95, p99] = ["p50", "p95", "p99"];
        format!(
            "{mark}{workload} on {workers} workers, profile {profile}, seed {seed}\n\n\
             {:35} | {p50:>7} {p95:>7} {p99:>7} | {p50:>6} {p95:>6} | {p50:>6} {p95:>6} | {p50:>6} {p95:>6} | {:14} | {:5} {:>6} {:>4} {:>5}\n\
             {:<13} {:>5} {:>8} {:>6} | {:^23} | {:^13} | {:^13} | {:^13} | {:>7} {:>6} | {:>5} {:^11} {:>5}\n",
            "",
            "",
            "",
            "mean",
            "max",
            "past",
            "mode",
            "conc",
            "requests",
            "errors",
            "TTFT ms",
            "TPOT ms",
            "ITL ms",
            "latency s",
            "tok/s",
            "req/s",
            "hit %",
            "spread",
            "slots",
        )
    }
}

fn whole(value: Option<u64>) -> String {
    value.map_or(String::new(), |value| value.to_string())
}

fn optional(value: Option<f64>) -> String {
    value.map_or(String::new(), |value| value.to_string())
}

fn rounded(value: Option<f64>, digits: usize) -> String {
    value.map_or("-".to_owned(), |value| format!("{value:.digits$}"))
}
