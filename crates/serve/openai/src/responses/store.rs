//! Conversations by the id of their last response, so that a request can continue one by
//! `previous_response_id`.
//!
//! A response adds a few messages to a conversation that may be long. So each is a node with its
//! own messages and a link to the one before, and a conversation of n turns takes n nodes, whoever
//! continues it and from where. A node stays while its id is stored or another node links to it:
//! ids are forgotten, least recently used first, but no conversation loses its beginning.
//!
//! # Guarantees
//!
//! - **Bounded** in ids and in bytes, and a conversation that alone exceeds the bounds displaces
//!   no other.
//! - **Private.** An id is found only together with the owner that stored it.
//! - **No recursion**: a conversation may have as many turns as fit.
//!
//! The store is a plain value: whoever shares it puts it under a lock.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashMap};
use std::mem::size_of;
use std::sync::Arc;

use crate::request::{Message, ToolCall};

/// What an id costs besides its texts, and a node besides its messages: the entries of the maps.
const ID_BYTES: usize = size_of::<Key>() + size_of::<Stored>() + 96;
const NODE_BYTES: usize = size_of::<Node>() + 32;

/// How much a store keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoreLimits {
    pub entries: usize,
    pub bytes: usize,
}

/// A bounded store of conversations.
#[derive(Clone, Debug)]
pub struct ResponseStore {
    limits: StoreLimits,
    ids: HashMap<Arc<Key>, Stored>,
    /// The least recently used first.
    order: BTreeMap<u64, Arc<Key>>,
    nodes: HashMap<NodeId, Node>,
    bytes: usize,
    /// Counts uses and nodes; both only need to differ.
    counter: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Key {
    owner: String,
    id: String,
}

#[derive(Clone, Copy, Debug)]
struct Stored {
    node: NodeId,
    used: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct NodeId(u64);

/// What one response added to its conversation.
#[derive(Clone, Debug)]
struct Node {
    parent: Option<NodeId>,
    messages: Vec<Message>,
    bytes: usize,
    /// With all before it.
    chain_bytes: usize,
    /// Nodes that continue from here, and one more if the id is stored.
    holders: usize,
}

impl ResponseStore {
    pub fn new(limits: StoreLimits) -> Self {
        Self {
            limits,
            ids: HashMap::new(),
            order: BTreeMap::new(),
            nodes: HashMap::new(),
            bytes: 0,
            counter: 0,
        }
    }

    /// Stores that response `id` added `messages` to the conversation of `parent`. Returns whether
    /// it is stored: not if the parent is not, nor if the conversation is too large.
    pub fn insert(
        &mut self,
        owner: &str,
        id: &str,
        parent: Option<&str>,
        messages: Vec<Message>,
    ) -> bool {
        let parent = match parent {
            None => None,
            Some(parent) => match self.ids.get(&Key::new(owner, parent)) {
                Some(stored) => Some(stored.node),
                None => return false,
            },
        };
        let key = Key::new(owner, id);
        let bytes = NODE_BYTES + messages.iter().map(message_bytes).sum::<usize>();
        let before = parent.map_or(0, |parent| self.nodes[&parent].chain_bytes);
        let chain_bytes = before + bytes;
        if self.limits.entries == 0 || chain_bytes + key.bytes() > self.limits.bytes {
            return false;
        }
        if let Some(parent) = parent {
            self.hold(parent);
        }
        // After the parent is held, which may have been stored under the same id.
        self.remove(owner, id);
        let node = NodeId(self.next_count());
        self.nodes.insert(
            node,
            Node {
                parent,
                messages,
                bytes,
                chain_bytes,
                holders: 1,
            },
        );
        self.bytes += bytes + key.bytes();
        let used = self.next_count();
        let key = Arc::new(key);
        self.order.insert(used, Arc::clone(&key));
        self.ids.insert(key, Stored { node, used });
        while self.ids.len() > self.limits.entries || self.bytes > self.limits.bytes {
            self.forget_oldest();
        }
        true
    }

    /// All messages up to and with those of response `id`.
    pub fn conversation(&mut self, owner: &str, id: &str) -> Option<Vec<Message>> {
        let used = self.next_count();
        let stored = self.ids.get_mut(&Key::new(owner, id))?;
        if let Some(key) = self.order.remove(&stored.used) {
            self.order.insert(used, key);
        }
        stored.used = used;
        let mut chain = Vec::new();
        let mut next = Some(stored.node);
        while let Some(id) = next {
            let node = &self.nodes[&id];
            chain.push(node);
            next = node.parent;
        }
        let messages = chain.iter().rev().flat_map(|node| &node.messages);
        Some(messages.cloned().collect())
    }

    /// Forgets an id; returns whether it was there. Conversations that went on from it stay whole.
    pub fn remove(&mut self, owner: &str, id: &str) -> bool {
        let key = Key::new(owner, id);
        let Some(stored) = self.ids.remove(&key) else {
            return false;
        };
        self.order.remove(&stored.used);
        self.bytes -= key.bytes();
        self.release(stored.node);
        true
    }

    /// How many ids are stored.
    pub fn len(&self) -> usize {
        self.ids.len()
    }

    pub fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }

    /// About how much memory the conversations take.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    fn next_count(&mut self) -> u64 {
        self.counter += 1;
        self.counter
    }

    fn forget_oldest(&mut self) {
        let oldest = self.order.first_key_value();
        if let Some(key) = oldest.map(|(_, key)| Arc::clone(key)) {
            self.remove(&key.owner, &key.id);
        }
    }

    fn hold(&mut self, node: NodeId) {
        if let Some(node) = self.nodes.get_mut(&node) {
            node.holders += 1;
        }
    }

    /// Gives up one hold on a node, and with the last of them the node and its own hold on the one
    /// before.
    fn release(&mut self, node: NodeId) {
        let mut next = Some(node);
        while let Some(id) = next {
            let Some(node) = self.nodes.get_mut(&id) else {
                return;
            };
            node.holders -= 1;
            if node.holders > 0 {
                return;
            }
            next = node.parent;
            self.bytes -= node.bytes;
            self.nodes.remove(&id);
        }
    }
}

impl Key {
    fn new(owner: &str, id: &str) -> Self {
        Self {
            owner: owner.to_owned(),
            id: id.to_owned(),
        }
    }

    fn bytes(&self) -> usize {
        ID_BYTES + self.owner.len() + self.id.len()
    }
}

fn message_bytes(message: &Message) -> usize {
    let optional = |text: &Option<String>| text.as_ref().map_or(0, String::len);
    let call = |call: &ToolCall| {
        size_of::<ToolCall>() + optional(&call.id) + call.name.len() + call.arguments.as_str().len()
    };
    size_of::<Message>()
        + message.content.len()
        + optional(&message.name)
        + optional(&message.tool_call_id)
        + optional(&message.reasoning)
        + message.tool_calls.iter().map(call).sum::<usize>()
}
