//! `homing model`: the models that a real engine computes.

use std::io::IsTerminal as _;

use anyhow::Context as _;
use model_store::{Listed, Models, Progress, Step};

use crate::args::ModelCommand;
use crate::print;

pub(crate) fn run(command: &ModelCommand) -> anyhow::Result<()> {
    let models = store()?;
    match command {
        ModelCommand::Pull { name } => pull(&models, name),
        ModelCommand::List => {
            list(&models);
            Ok(())
        }
        ModelCommand::Path { name } => {
            print::line(format_args!("{}", models.resolve(name)?.path.display()));
            Ok(())
        }
    }
}

/// The user's cache of models.
#[expect(
    clippy::disallowed_methods,
    reason = "the program reads it, and nobody else"
)]
pub(crate) fn store() -> anyhow::Result<Models> {
    Ok(Models::from_environment(&|name| std::env::var_os(name))?)
}

fn pull(models: &Models, name: &str) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()?;
    let mut view = View::default();
    let path = runtime.block_on(async {
        let mut report = |progress: Progress| view.show(&progress);
        tokio::select! {
            pulled = models.pull(name, &mut report) => pulled.map_err(anyhow::Error::from),
            stopped = tokio::signal::ctrl_c() => {
                stopped.context("cannot handle signals")?;
                anyhow::bail!("interrupted; `homing model pull {name}` resumes it")
            }
        }
    })?;
    view.end();
    print::line(format_args!("{}", path.display()));
    Ok(())
}

/// Progress on standard error: one line that changes on a terminal, a few lines elsewhere.
#[derive(Debug, Default)]
struct View {
    shown: Option<(String, u8)>,
    open: bool,
}

/// Elsewhere than on a terminal, every so many percent.
const PLAIN_STEP: u8 = 25;

impl View {
    fn show(&mut self, progress: &Progress) {
        let doing = match progress.step {
            Step::Listing => "listing",
            Step::Fetching => "downloading",
            Step::Unpacking => "checking",
        };
        let text = format!("{doing} {}", progress.what);
        let terminal = std::io::stderr().is_terminal();
        let percent = progress.percent().unwrap_or(0);
        let step = if terminal { 1 } else { PLAIN_STEP };
        let now = (text, percent / step);
        if self.shown.as_ref() == Some(&now) {
            return;
        }
        let size = match progress.total {
            Some(total) => format!("{percent} % of {} MB", total / 1_000_000),
            None => format!("{} MB", progress.done / 1_000_000),
        };
        if terminal {
            print::again(format_args!("{}: {size}", now.0));
            self.open = true;
        } else {
            print::note(format_args!("{}: {size}", now.0));
        }
        self.shown = Some(now);
    }

    fn end(&self) {
        if self.open {
            print::note(format_args!(""));
        }
    }
}

fn list(models: &Models) {
    for model in models.list() {
        let Listed {
            name,
            title,
            licence,
            quantisation,
            source,
            bytes,
            path,
        } = model;
        let facts = [quantisation, licence, Some(source)];
        let facts: Vec<String> = facts.into_iter().flatten().collect();
        print::line(format_args!(
            "{name}\n    {title}, {} MB, {}\n    {}",
            bytes / 1_000_000,
            facts.join(", "),
            match path {
                Some(path) => path.display().to_string(),
                None => format!("not downloaded: homing model pull {name}"),
            }
        ));
    }
}
