//! Which GPU belongs to which worker.

use std::collections::BTreeMap;

use super::MEBIBYTE;
use crate::prometheus::Series;
use crate::state::WorkerState;

/// Labels that may hold a worker's name, the most telling first. `Hostname` is the exporter's
/// and ours; Prometheus puts `exported_` before a label that it has itself.
const NAMING: [&str; 8] = [
    "worker",
    "exported_pod",
    "pod",
    "Hostname",
    "hostname",
    "exported_instance",
    "instance",
    "node",
];

/// The exporter's label with the name of the product.
const KIND: &str = "modelName";

/// One GPU with its figures.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Gpu {
    labels: BTreeMap<String, String>,
    /// Share of time that the GPU computes, from 0 to 1.
    utilization: Option<f64>,
    used_bytes: Option<f64>,
    free_bytes: Option<f64>,
}

/// Puts three series together for each GPU, in a fixed order.
pub(super) fn join(utilization: Vec<Series>, used: Vec<Series>, free: Vec<Series>) -> Vec<Gpu> {
    let mut gpus: BTreeMap<Key, Gpu> = BTreeMap::new();
    let mut add = |all: Vec<Series>, set: fn(&mut Gpu, f64)| {
        for series in all {
            let gpu = gpus.entry(Key::of(&series.labels)).or_default();
            set(gpu, series.value);
            gpu.labels = series.labels;
        }
    };
    add(free, |gpu, value| gpu.free_bytes = Some(value * MEBIBYTE));
    add(used, |gpu, value| gpu.used_bytes = Some(value * MEBIBYTE));
    add(utilization, |gpu, value| {
        gpu.utilization = Some((value / 100.0).clamp(0.0, 1.0));
    });
    gpus.into_values().collect()
}

/// What tells GPUs apart and orders them: where it is, its number there, its name or whatever
/// else is said about it.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    host: String,
    number: u64,
    uuid: String,
    others: Vec<(String, String)>,
}

impl Key {
    fn of(labels: &BTreeMap<String, String>) -> Self {
        let label = |name: &str| labels.get(name).cloned().unwrap_or_default();
        let others = labels.clone().into_iter();
        let others = others.filter(|(name, _)| name != "__name__");
        Self {
            host: label("Hostname") + &label("instance"),
            number: label("gpu").parse().unwrap_or(u64::MAX),
            uuid: label("UUID"),
            others: match labels.contains_key("UUID") {
                true => Vec::new(),
                false => others.collect(),
            },
        }
    }
}

/// Shows at each worker what is known of its GPUs: their mean utilisation, and the memory of
/// the fullest. Their number and kind too, where the worker does not know them.
pub(super) fn apply(gpus: &[Gpu], workers: &mut [WorkerState]) {
    let owners = owners(gpus, workers);
    for (index, worker) in workers.iter_mut().enumerate() {
        let owned = gpus.iter().zip(&owners);
        let owned: Vec<&Gpu> = owned
            .filter(|(_, owner)| **owner == Some(index))
            .map(|(gpu, _)| gpu)
            .collect();
        // Without any GPU it is Prometheus that has none, which is said once for all.
        worker.unknown = (owned.is_empty() && !gpus.is_empty()).then(|| unmatched(gpus.len()));
        if !reports_gpu(worker) && !owned.is_empty() {
            worker.gpu.count = u32::try_from(owned.len()).unwrap_or(u32::MAX);
            if let Some(kind) = owned.iter().find_map(|gpu| gpu.labels.get(KIND)) {
                worker.gpu.kind.clone_from(kind);
            }
        }
        let utilizations = owned.iter().filter_map(|gpu| gpu.utilization);
        let (count, sum) = utilizations.fold((0_u32, 0.0), |(count, sum), utilization| {
            (count + 1, sum + utilization)
        });
        worker.utilization = (count > 0).then(|| sum / f64::from(count));
        let fullest = owned
            .iter()
            .filter(|gpu| gpu.used_bytes.is_some())
            .max_by(|one, other| {
                one.used_bytes
                    .partial_cmp(&other.used_bytes)
                    .unwrap_or(std::cmp::Ordering::Equal)
            });
        worker.memory_used_bytes = fullest
            .and_then(|gpu| gpu.used_bytes)
            .map(|used| used as u64);
        if let Some((used, free)) = fullest.and_then(|gpu| gpu.used_bytes.zip(gpu.free_bytes)) {
            worker.gpu.memory_bytes = (used + free) as u64;
        }
    }
}

/// An engine of others says nothing about the machine below it.
fn reports_gpu(worker: &WorkerState) -> bool {
    worker.gpu.memory_bytes > 0
}

fn unmatched(gpus: usize) -> String {
    let gpus = match gpus {
        1 => "one GPU".to_owned(),
        several => format!("{several} GPUs"),
    };
    format!("Prometheus knows {gpus}, with no label that names this worker")
}

/// The worker of each GPU, by index. By order only where that is right: every GPU is somebody's,
/// and workers that know theirs are in the order of their machines.
fn owners(gpus: &[Gpu], workers: &[WorkerState]) -> Vec<Option<usize>> {
    let named: Vec<Option<usize>> = gpus.iter().map(|gpu| named_owner(gpu, workers)).collect();
    if named.iter().any(Option::is_some) {
        return named;
    }
    let count = |worker: &WorkerState| worker.gpu.count.max(1) as usize;
    let wanted: usize = workers.iter().map(count).sum();
    if wanted != gpus.len() || (workers.len() > 1 && !workers.iter().all(reports_gpu)) {
        return vec![None; gpus.len()];
    }
    let in_order = workers.iter().enumerate();
    let mut in_order = in_order.flat_map(|(index, worker)| (0..count(worker)).map(move |_| index));
    gpus.iter().map(|_| in_order.next()).collect()
}

/// Who a label names. Of several that it could mean the longest name, and `worker-10` is not
/// `worker-1`.
fn named_owner(gpu: &Gpu, workers: &[WorkerState]) -> Option<usize> {
    NAMING.iter().find_map(|label| {
        let value = gpu.labels.get(*label)?;
        let named = workers.iter().enumerate();
        named
            .filter(|(_, worker)| has_word(value, &worker.name))
            .max_by_key(|(_, worker)| worker.name.len())
            .map(|(index, _)| index)
    })
}

/// Whether `word` stands in `text` and neither goes on nor began before.
fn has_word(text: &str, word: &str) -> bool {
    let inside = |character: char| character.is_alphanumeric();
    !word.is_empty()
        && text.match_indices(word).any(|(at, _)| {
            !text[..at].ends_with(inside) && !text[at + word.len()..].starts_with(inside)
        })
}
