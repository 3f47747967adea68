//! The store against a list of whole conversations.

use proptest::prelude::*;

use super::*;
use crate::request::Role;

const OWNERS: [&str; 2] = ["a", "b"];

fn message(text: &str) -> Message {
    Message::new(Role::User, text)
}

fn store(entries: usize, bytes: usize) -> ResponseStore {
    ResponseStore::new(StoreLimits { entries, bytes })
}

/// What the ids and the nodes that they reach take, counted anew.
fn counted(store: &ResponseStore) -> usize {
    let mut reached = std::collections::HashSet::new();
    for stored in store.ids.values() {
        let mut next = Some(stored.node);
        while let Some(id) = next {
            reached.insert(id);
            next = store.nodes[&id].parent;
        }
    }
    assert_eq!(reached.len(), store.nodes.len(), "no node without a reader");
    let nodes: usize = store.nodes.values().map(|node| node.bytes).sum();
    let ids: usize = store.ids.keys().map(|key| key.bytes()).sum();
    nodes + ids
}

#[derive(Clone, Debug)]
enum Step {
    Insert {
        owner: usize,
        id: u8,
        parent: Option<u8>,
        length: usize,
    },
    Read {
        owner: usize,
        id: u8,
    },
    Remove {
        owner: usize,
        id: u8,
    },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let (owner, id) = (0..2_usize, 0..12_u8);
    let insert = (
        owner.clone(),
        id.clone(),
        prop::option::weighted(0.8, id.clone()),
        0..200_usize,
    );
    let step = prop_oneof![
        4 => insert.prop_map(|(owner, id, parent, length)| Step::Insert {
            owner, id, parent, length,
        }),
        2 => (owner.clone(), id.clone()).prop_map(|(owner, id)| Step::Read { owner, id }),
        1 => (owner, id).prop_map(|(owner, id)| Step::Remove { owner, id }),
    ];
    prop::collection::vec(step, 0..60)
}

/// Whole conversations, the least recently used first.
#[derive(Default)]
struct Model(Vec<(String, Vec<Message>)>);

impl Model {
    fn position(&self, key: &str) -> Option<usize> {
        self.0.iter().position(|(other, _)| other == key)
    }

    fn take(&mut self, key: &str) -> Option<Vec<Message>> {
        let at = self.position(key)?;
        Some(self.0.remove(at).1)
    }
}

proptest! {
    #[test]
    fn the_store_keeps_its_bounds_and_whole_conversations(
        steps in steps(),
        entries in 0..8_usize,
        bytes in 1_000..6_000_usize,
    ) {
        let mut store = store(entries, bytes);
        let mut model = Model::default();
        let key = |owner: usize, id: u8| format!("{}/{id}", OWNERS[owner]);
        for (at, step) in steps.into_iter().enumerate() {
            match step {
                Step::Insert { owner, id, parent, length } => {
                    let new = message(&at.to_string().repeat(length));
                    let before = match parent {
                        None => Some(Vec::new()),
                        Some(parent) => model
                            .position(&key(owner, parent))
                            .map(|at| model.0[at].1.clone()),
                    };
                    let parent = parent.map(|parent| parent.to_string());
                    let stored = store.insert(
                        OWNERS[owner], &id.to_string(), parent.as_deref(), vec![new.clone()],
                    );
                    match before {
                        None => prop_assert!(!stored),
                        Some(mut conversation) if stored => {
                            conversation.push(new);
                            model.take(&key(owner, id));
                            model.0.push((key(owner, id), conversation));
                        }
                        Some(_) => {}
                    }
                    // The store may forget, but only the least recently used.
                    let forgotten = model.0.len() - store.len();
                    model.0.drain(..forgotten);
                    prop_assert!(!stored || !store.is_empty());
                }
                Step::Read { owner, id } => {
                    let expected = model.take(&key(owner, id));
                    if let Some(conversation) = &expected {
                        model.0.push((key(owner, id), conversation.clone()));
                    }
                    prop_assert_eq!(store.conversation(OWNERS[owner], &id.to_string()), expected);
                }
                Step::Remove { owner, id } => {
                    let expected = model.take(&key(owner, id)).is_some();
                    prop_assert_eq!(store.remove(OWNERS[owner], &id.to_string()), expected);
                }
            }
            prop_assert!(store.len() <= entries);
            prop_assert!(store.bytes() <= bytes);
            prop_assert_eq!(store.bytes(), counted(&store));
            prop_assert_eq!(store.order.len(), store.len());
        }
        for (key, conversation) in model.0 {
            let (owner, id) = key.split_once('/').unwrap();
            prop_assert_eq!(store.conversation(owner, id), Some(conversation));
            prop_assert!(store.remove(owner, id));
        }
        prop_assert_eq!((store.len(), store.bytes(), store.nodes.len()), (0, 0, 0));
    }
}

#[test]
fn a_long_conversation_costs_each_turn_once() {
    const TURNS: usize = 50_000;
    let mut store = store(10, usize::MAX);
    assert!(store.insert("a", "0", None, vec![message("hi")]));
    for turn in 1..TURNS {
        let parent = (turn - 1).to_string();
        let id = turn.to_string();
        assert!(store.insert("a", &id, Some(&parent), vec![message("hi")]));
    }
    assert_eq!(store.len(), 10);
    let turn = NODE_BYTES + message_bytes(&message("hi"));
    let ids = 10 * Key::new("a", "10000").bytes();
    assert_eq!(store.bytes(), TURNS * turn + ids);
    let last = (TURNS - 1).to_string();
    assert_eq!(store.conversation("a", &last).unwrap().len(), TURNS);
    let copy = store.clone();
    for turn in TURNS - 10..TURNS {
        assert!(store.remove("a", &turn.to_string()));
    }
    assert_eq!(store.bytes(), 0);
    drop(copy);
}

#[test]
fn another_owner_finds_nothing() {
    let mut store = store(10, 10_000);
    assert!(store.insert("a", "1", None, vec![message("secret")]));
    assert_eq!(store.conversation("b", "1"), None);
    assert!(!store.insert("b", "2", Some("1"), vec![message("more")]));
    assert!(!store.remove("b", "1"));
    assert!(store.conversation("a", "1").is_some());
}

#[test]
fn a_conversation_that_cannot_fit_displaces_no_other() {
    let mut store = store(10, 4_000);
    assert!(store.insert("a", "1", None, vec![message("small")]));
    assert!(!store.insert("a", "2", None, vec![message(&"x".repeat(5_000))]));
    assert!(!store.insert("a", "3", Some("1"), vec![message(&"x".repeat(3_800))]));
    assert_eq!(store.len(), 1);
    assert!(store.conversation("a", "1").is_some());
}

#[test]
fn a_response_may_continue_from_the_one_it_replaces() {
    let mut store = store(10, 10_000);
    assert!(store.insert("a", "1", None, vec![message("x")]));
    assert!(store.insert("a", "1", Some("1"), vec![message("y")]));
    let conversation = store.conversation("a", "1").unwrap();
    assert_eq!(conversation, [message("x"), message("y")]);
    assert!(store.remove("a", "1"));
    assert_eq!(store.bytes(), 0);
}
