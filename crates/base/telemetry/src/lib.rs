//! What every stage reports, in one catalogue and one registry.
//!
//! A metric exists because [`catalog`] declares it: name, kind, labels, buckets, meaning.
//! A stage asks the [`Registry`] once for the cell of its label values and keeps the
//! handle; from then on reporting is an atomic operation. The text that Prometheus
//! scrapes is written by our own small encoder, because no crate has summaries over an
//! exact time window that print NaN when the window is empty.
//!
//! # Guarantees
//!
//! - **One spelling.** The registry accepts only catalogued metrics, so neither a
//!   dashboard nor `docs/metrics.md` can miss one.
//! - **Stable text.** Families appear in catalogue order and cells in the order of their
//!   label values: equal states render to equal text.
//! - **No clock.** The caller that observes a window or renders passes the time.
//!
//! # Elsewhere
//!
//! Serving the text over HTTP belongs to the frontend; log lines belong to `tracing`.

pub mod catalog;
mod cell;
mod encode;
mod registry;
mod window;

pub use catalog::{Kind, Metric};
pub use cell::{Counter, Gauge, Histogram, Summary, TimeCounter};
pub use registry::Registry;
pub use window::{Samples, Window};

/// What an HTTP response carrying [`Registry::render`]'s text says it is.
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";
