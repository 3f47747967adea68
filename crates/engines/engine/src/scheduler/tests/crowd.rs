//! Whatever happens around it, a request gets what it would get alone.

use contract::{GenerateRequest, TokenId, TokenStream};
use proptest::prelude::*;

use super::world::{World, alone, limits, received, request};
use crate::executor::Limits;

#[derive(Clone, Debug)]
enum Op {
    Submit {
        stem: u32,
        length: usize,
        max_tokens: u32,
        ignore_eos: bool,
    },
    Cancel(usize),
    Step,
    Reset,
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let submit = (0_u32..3, 1_usize..40, 1_u32..30, any::<bool>()).prop_map(
        |(stem, length, max_tokens, ignore_eos)| Op::Submit {
            stem,
            length,
            max_tokens,
            ignore_eos,
        },
    );
    let op = prop_oneof![
        4 => submit,
        1 => (0_usize..20).prop_map(Op::Cancel),
        12 => Just(Op::Step),
        1 => Just(Op::Reset),
    ];
    prop::collection::vec(op, 1..80)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn any_crowd_gets_what_each_would_get_alone(
        total_blocks in 18_u32..40,
        slots in 1_u32..6,
        max_step_tokens in 6_u32..40,
        draft_tokens in 0_u32..4,
        ops in ops(),
    ) {
        let limits =
            Limits { total_blocks, slots, max_step_tokens, draft_tokens, ..limits() };
        let mut world = World::new(limits);
        let mut readers: Vec<Option<(GenerateRequest, TokenStream)>> = Vec::new();
        for op in ops {
            match op {
                Op::Submit { stem, length, max_tokens, ignore_eos } => {
                    let prompt: Vec<TokenId> = (0..length as u32).map(|i| i * stem % 7).collect();
                    let mut asked = request(&prompt, max_tokens);
                    asked.limits.ignore_eos = ignore_eos;
                    let stream = world.submit(asked.clone());
                    readers.push(Some((asked, stream)));
                }
                Op::Cancel(which) => {
                    if let Some(reader) = readers.get_mut(which) {
                        *reader = None;
                    }
                }
                Op::Step => {
                    world.step();
                }
                Op::Reset => {
                    world.scheduler.reset_cache();
                    world.hear();
                }
            }
        }
        world.run();
        for (asked, mut stream) in readers.into_iter().flatten() {
            let (tokens, _, finish) = received(&mut stream);
            let (expected, reason) = alone(&asked);
            prop_assert_eq!(tokens, expected);
            prop_assert_eq!(finish, Some(reason));
        }
        prop_assert!(world.admitted.is_sorted(), "first come, first served");
        prop_assert!(world.scheduler.is_idle());
        let occupancy = world.scheduler.pool().occupancy();
        prop_assert_eq!(occupancy.active, 0, "every block comes back");
        prop_assert_eq!(world.scheduler.free_slots.len(), slots as usize);
    }
}
