//! A summary in the forms that people read: a page, Markdown, and files for other tools.
//!
//! | module | what it writes |
//! |---|---|
//! | [`html`] | `report.html`: one file with charts, which needs nothing else |
//! | [`markdown`] | `report.md` |
//! | [`exports`] | the averaged baseline and tab-separated values |
//! | `date` | a moment as people write it |

mod date;
pub mod exports;
pub mod html;
pub mod markdown;

pub use date::utc;
