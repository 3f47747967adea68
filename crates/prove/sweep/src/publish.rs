//! Everything that a sweep's folder tells, written from its raw cells.

use crate::analysis::analyse;
use crate::folder::{Folder, FolderError};
use report::utc;
use report::{exports, html, markdown};
use stats::baseline::baseline;
use stats::cell_summary::VIRTUAL;
use stats::compare::Measurements;
use stats::summary::{ReportData, Summary};

/// Computes the report and writes its files. Equal raw cells give equal files, except that the
/// baseline and the averaged baseline of a live sweep carry a date.
pub fn publish(
    folder: &Folder,
    measurements: Option<&Measurements>,
    threads: usize,
) -> Result<Summary, FolderError> {
    let data = analyse(folder, measurements, threads)?;
    let ReportData { summary, .. } = &data;
    let json = |value: serde_json::Result<String>| {
        value.map_err(|error| FolderError::NoSweep {
            path: folder.path().to_owned(),
            problem: error.to_string(),
        })
    };
    folder.write("summary.json", &json(summary.json())?)?;
    folder.write("cells.csv", &summary.csv())?;
    folder.write("report.md", &markdown::markdown(summary))?;
    folder.write("report.html", &html::html(&data))?;
    let source = match summary.about.testbed.as_str() {
        VIRTUAL => "homing sweep --virtual",
        _ => "homing sweep",
    };
    let ended_ms = folder.ended_ms();
    let baseline = baseline(&summary.about, &summary.cells, source, ended_ms);
    let baseline = serde_json::to_string_pretty(&baseline).map(|text| text + "\n");
    folder.write("baseline.json", &json(baseline)?)?;
    // Simulated time has no date.
    let is_live = summary.about.testbed != VIRTUAL;
    let generated = is_live.then(|| utc(ended_ms));
    let averaged = exports::averaged_baseline(summary, generated.as_deref());
    let averaged = serde_json::to_string_pretty(&averaged).map(|text| text + "\n");
    folder.write("exports/averaged-baseline.json", &json(averaged)?)?;
    folder.write("exports/sweep.tsv", &exports::tsv(summary))?;
    Ok(data.summary)
}
