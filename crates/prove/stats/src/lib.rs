//! What runs come to: raw records in; figures, intervals, verdicts and a summary out.
//!
//! A run, virtual or live, leaves a [`RawCell`]: its facts and a record for each request. All
//! else is computed from those, so the same records give the same summary, byte for byte.
//!
//! | module | what it does |
//! |---|---|
//! | [`raw`] | what a run leaves behind |
//! | [`figures`], [`traffic`] | percentiles, rates, and how requests spread over workers |
//! | [`intervals`], `student` | how certain the figures are, and whether modes differ |
//! | [`cell_summary`] | one mode at one concurrency |
//! | `summarise`, [`guards`] | its runs become its summary, and what makes it doubtful |
//! | [`slo`], [`headline`] | the highest concurrency under objectives, and where modes cross |
//! | [`compare`] | how far a sweep is off from published measurements |
//! | [`baseline`] | a sweep as a console draws it |
//! | [`summary`] | all of it together |
//! | `tables` | a summary as JSON, CSV and a table for a terminal |

pub mod baseline;
pub mod cell_summary;
pub mod compare;
pub mod figures;
pub mod guards;
pub mod headline;
pub mod intervals;
pub mod raw;
pub mod slo;
mod student;
mod summarise;
pub mod summary;
mod tables;
pub mod traffic;

pub use baseline::baseline;
pub use cell_summary::{About, CellSummary, VIRTUAL};
pub use compare::{Comparison, Measurements, MeasurementsError};
pub use raw::{CellName, RawCell};
pub use slo::{Objectives, SloSummary};
pub use summary::{ReportData, Summary};
