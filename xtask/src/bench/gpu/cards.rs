//! Which cards there are, which server runs on which, and which may start at the same time.

use std::process::Command;

use anyhow::{Context as _, ensure};

use super::arguments::{Arguments, Device};

const ONE_CARD_SERVERS: usize = 3;
const CPU_SERVERS: usize = 2;

/// A card, as nvidia-smi lists it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Card {
    pub(super) number: u32,
    pub(super) name: String,
    pub(super) memory_mib: u64,
    pub(super) driver: String,
}

/// Where a server runs.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Placement {
    /// From 0.
    pub(super) server: usize,
    /// None on the CPU.
    pub(super) card: Option<Card>,
    /// Of the card's memory.
    pub(super) memory_share: f64,
}

/// A place for every server.
pub(super) fn place(arguments: &Arguments) -> anyhow::Result<Vec<Placement>> {
    let cards = match arguments.device {
        Device::Cpu => Vec::new(),
        Device::Cuda => chosen(listed()?, &arguments.cards)?,
    };
    let servers = arguments.servers.unwrap_or(match cards.len() {
        0 => CPU_SERVERS,
        1 => ONE_CARD_SERVERS,
        more => more,
    });
    Ok(placed(arguments, &cards, servers))
}

fn placed(arguments: &Arguments, cards: &[Card], servers: usize) -> Vec<Placement> {
    let place = |server: usize| {
        // Servers that this one shares its card with, itself included.
        let sharing = match cards.len() {
            0 => 1,
            cards => (0..servers)
                .filter(|other| other % cards == server % cards)
                .count(),
        };
        Placement {
            server,
            card: cards.get(server % cards.len().max(1)).cloned(),
            memory_share: arguments.memory_share(sharing),
        }
    };
    (0..servers).map(place).collect()
}

/// Servers in the order of their start; those of one batch start together. The first is alone,
/// because it fills the cache of compiled code that the others then read. Two that measure the
/// free memory of one card at the same time fail, so later batches have one server per card,
/// unless nothing is measured.
pub(super) fn batches(placements: &[Placement], together: bool) -> Vec<Vec<Placement>> {
    let Some((first, others)) = placements.split_first() else {
        return Vec::new();
    };
    let mut batches = vec![vec![first.clone()]];
    for placement in others {
        let number = |placement: &Placement| placement.card.as_ref().map(|card| card.number);
        let shares_card = |batch: &Vec<Placement>| {
            let mut cards = batch.iter().map(number);
            cards.any(|card| card == number(placement))
        };
        match batches.last_mut().filter(|_| placement.server > 1) {
            Some(batch) if together || !shares_card(batch) => batch.push(placement.clone()),
            _ => batches.push(vec![placement.clone()]),
        }
    }
    batches
}

fn listed() -> anyhow::Result<Vec<Card>> {
    let output = Command::new("nvidia-smi")
        .args(["--query-gpu=index,name,memory.total,driver_version"])
        .args(["--format=csv,noheader,nounits"])
        .output()
        .context(
            "no NVIDIA card: nvidia-smi cannot be run (--device cpu tries this on the processor)",
        )?;
    let said = String::from_utf8_lossy(match output.status.success() {
        true => &output.stdout,
        false => &output.stderr,
    });
    let cards = parsed(&said);
    ensure!(
        output.status.success() && !cards.is_empty(),
        "no NVIDIA card: nvidia-smi says: {}",
        said.trim()
    );
    Ok(cards)
}

fn parsed(listing: &str) -> Vec<Card> {
    let card = |line: &str| {
        let mut fields = line.split(',').map(str::trim);
        Some(Card {
            number: fields.next()?.parse().ok()?,
            name: fields.next()?.to_owned(),
            memory_mib: fields.next()?.parse().ok()?,
            driver: fields.next()?.to_owned(),
        })
    };
    listing.lines().filter_map(card).collect()
}

fn chosen(cards: Vec<Card>, numbers: &[u32]) -> anyhow::Result<Vec<Card>> {
    if numbers.is_empty() {
        return Ok(cards);
    }
    let find = |&number: &u32| {
        let found = cards.iter().find(|card| card.number == number);
        found.cloned().with_context(|| {
            let known: Vec<String> = cards.iter().map(|card| card.number.to_string()).collect();
            format!("--cards: no card {number}; there are {}", known.join(", "))
        })
    };
    numbers.iter().map(find).collect()
}

#[cfg(test)]
mod tests {
    use super::super::arguments::tests::parsed as arguments;
    use super::*;

    fn cards(count: u32) -> Vec<Card> {
        let lines: Vec<String> = (0..count)
            .map(|number| format!("{number}, NVIDIA H200, 143771, 580.95.05"))
            .collect();
        parsed(&lines.join("\n"))
    }

    /// Servers of each batch, as they are started.
    fn started(card_count: u32, servers: usize, together: bool) -> Vec<Vec<usize>> {
        let placements = placed(&arguments(""), &cards(card_count), servers);
        let batches = batches(&placements, together).into_iter();
        let servers = |batch: Vec<Placement>| batch.iter().map(|one| one.server).collect();
        batches.map(servers).collect()
    }

    #[test]
    fn a_listing_is_read_and_cards_are_chosen() {
        let all = cards(3);
        assert_eq!(
            (all.len(), all[2].number, all[2].memory_mib),
            (3, 2, 143_771)
        );
        assert_eq!(chosen(all.clone(), &[2]).unwrap()[0].number, 2);
        let missing = chosen(all, &[7]).unwrap_err().to_string();
        assert!(missing.contains("there are 0, 1, 2"), "{missing}");
        assert!(parsed("No devices were found").is_empty());
    }

    #[test]
    fn servers_on_one_card_start_one_after_the_other() {
        assert_eq!(started(1, 3, false), [vec![0], vec![1], vec![2]]);
        assert_eq!(started(1, 3, true), [vec![0], vec![1, 2]]);
        assert_eq!(started(4, 4, false), [vec![0], vec![1, 2, 3]]);
        assert_eq!(started(2, 4, false), [vec![0], vec![1, 2], vec![3]]);
        assert_eq!(started(0, 2, false), [vec![0], vec![1]]);
    }

    #[test]
    fn servers_are_spread_over_the_cards() {
        let placements = placed(&arguments(""), &cards(2), 3);
        let told: Vec<(u32, f64)> = placements
            .iter()
            .map(|one| (one.card.as_ref().unwrap().number, one.memory_share))
            .collect();
        assert_eq!(told, [(0, 0.45), (1, 0.90), (0, 0.45)]);
    }
}
