//! One conversation in tokens.
//!
//! Each turn's prompt is everything said so far, as a chat template would render it, so it
//! begins with the last turn's prompt and answer. Tokens and block hashes are kept and only
//! ever extended: rehashing a conversation each turn would cost more than routing it.

use std::sync::Arc;

use contract::{BlockHash, HashSeed, LocalHash, TokenId};
use loadgen::TurnPlan;

use crate::content::{Content, NEXT_TURN, OPENING, TO_ASSISTANT};

#[derive(Debug, Default)]
pub(crate) struct Dialogue {
    /// Conversation and turn that the tokens are the prompt of.
    asked: Option<(u64, u32)>,
    tokens: Vec<TokenId>,
    chain: Vec<BlockHash>,
}

impl Dialogue {
    /// Goes on to a turn. Asking for the same turn again changes nothing.
    pub(crate) fn ask(&mut self, plan: &TurnPlan, is_shared: bool, content: &mut Content) {
        let asked = (plan.conversation, plan.turn);
        if self.asked.replace(asked) == Some(asked) {
            return;
        }
        if plan.turn == 0 {
            self.tokens.clear();
            self.chain.clear();
            self.tokens.extend(OPENING);
            content.starter(
                plan.starter,
                plan.starter_tokens,
                is_shared,
                &mut self.tokens,
            );
        } else {
            self.tokens.extend(NEXT_TURN);
            content.follow_up(
                plan.conversation,
                plan.turn,
                plan.follow_up_tokens,
                &mut self.tokens,
            );
        }
        self.tokens.extend(TO_ASSISTANT);
    }

    /// Takes in what was answered.
    pub(crate) fn answer(&mut self, tokens: &[TokenId]) {
        self.tokens.extend_from_slice(tokens);
    }

    pub(crate) fn prompt(&self) -> Arc<[TokenId]> {
        self.tokens.as_slice().into()
    }

    /// The hashes of the prompt's full blocks.
    pub(crate) fn chain(&mut self, block_size: usize) -> &[BlockHash] {
        let hashed = self.chain.len() * block_size;
        for block in self.tokens[hashed..].chunks_exact(block_size) {
            let local = LocalHash::of(block, HashSeed::BASE);
            self.chain
                .push(BlockHash::after(self.chain.last().copied(), local));
        }
        &self.chain
    }
}

#[cfg(test)]
mod tests {
    use contract::block_chain;

    use super::*;

    fn plan(turn: u32) -> TurnPlan {
        TurnPlan {
            lane: 0,
            conversation: 3,
            turn,
            turns: 3,
            starter: 1,
            starter_tokens: 100,
            follow_up_tokens: 30,
            max_tokens: 64,
        }
    }

    #[test]
    fn a_turn_continues_the_last_and_its_chain_is_the_prompts() {
        let mut content = Content::new(9);
        let mut dialogue = Dialogue::default();
        let mut last: Vec<TokenId> = Vec::new();
        for turn in 0..3 {
            dialogue.ask(&plan(turn), true, &mut content);
            dialogue.ask(&plan(turn), true, &mut content);
            let prompt = dialogue.prompt();
            assert_eq!(prompt[..last.len()], last);
            let added = prompt.len() - last.len();
            assert_eq!(added, if turn == 0 { 110 } else { 40 }, "asked once");
            assert_eq!(dialogue.chain(16), block_chain(&prompt, 16, HashSeed::BASE));
            dialogue.answer(&[42; 21]);
            last = [&*prompt, &[42; 21]].concat();
        }
    }

    #[test]
    fn the_next_conversation_begins_anew() {
        let mut content = Content::new(9);
        let (mut used, mut fresh) = (Dialogue::default(), Dialogue::default());
        used.ask(&plan(0), true, &mut content);
        used.answer(&[1, 2, 3]);
        used.chain(16);
        let next = TurnPlan {
            conversation: 4,
            starter: 2,
            ..plan(0)
        };
        used.ask(&next, true, &mut content);
        fresh.ask(&next, true, &mut content);
        assert_eq!(used.prompt(), fresh.prompt());
        assert_eq!(used.chain(16), fresh.chain(16));
    }
}
