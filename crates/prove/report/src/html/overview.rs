//! What was run, and how to run it again.

use super::Page;
use super::text::{count, escape, list, short};

pub(super) fn section(page: Page<'_>) -> String {
    let (summary, about) = (page.summary, &page.summary.about);
    let mut banners = String::new();
    if about.simulated {
        banners += "<p class=\"banner simulated\"><strong>SIMULATED</strong> No GPU was used: \
                    engines and their timing are simulated. The figures compare routing under \
                    one model of the hardware.</p>\n";
    }
    if summary.done < summary.planned {
        let (done, planned) = (count(summary.done as u64), count(summary.planned as u64));
        banners += &format!(
            "<p class=\"banner partial\"><strong>partial: {done} of {planned} runs</strong> \
             Figures are of what is done; they will change.</p>\n"
        );
    }
    let certainty = summary.certainty();
    if !certainty.is_empty() {
        banners += &format!("<p class=\"plan\">{}</p>\n", escape(&certainty));
    }
    format!(
        "<header>\n<p class=\"kicker\">Sweep report</p>\n<h1>{}</h1>\n\
         <p class=\"run\">run <code>{}</code></p>\n{banners}<p class=\"plan\">{}</p>\n\
         <p class=\"again\">To repeat it:</p>\n<pre><code>{}</code></pre>\n</header>\n",
        escape(&heading(page)),
        escape(&summary.run_id),
        escape(&plan(page)),
        escape(&about.command),
    )
}

fn heading(page: Page<'_>) -> String {
    let workload = &page.summary.about.workload;
    match page.summary.levels.as_slice() {
        [] => workload.clone(),
        [level] => format!("{workload} with {level} conversations at once"),
        [lowest, .., highest] => {
            format!("{workload} with {lowest} to {highest} conversations at once")
        }
    }
}

/// In one line.
fn plan(page: Page<'_>) -> String {
    let (summary, about) = (page.summary, &page.summary.about);
    let levels: Vec<String> = summary.levels.iter().map(u32::to_string).collect();
    let mut parts = vec![
        format!("Workload {}", about.workload),
        format!("profile {}", about.profile),
    ];
    if about.testbed != stats::cell_summary::VIRTUAL {
        parts.push(format!("server {}", about.testbed));
    }
    parts.extend(about.workers.map(|workers| match workers {
        1 => "1 worker".to_owned(),
        workers => format!("{workers} workers"),
    }));
    parts.push(format!("modes {}", list(&summary.modes)));
    if !levels.is_empty() {
        parts.push(format!("{} conversations at once", list(&levels)));
    }
    parts.push(match about.repeats {
        1 => "1 run of each".to_owned(),
        repeats => format!("{repeats} runs of each"),
    });
    parts.push(format!(
        "{} s of warm-up and {} s of window",
        short(about.warmup_s),
        short(about.window_s)
    ));
    parts.push(format!("order {}", about.order));
    parts.push(format!("seed {}", about.seed));
    parts.join("; ") + "."
}
