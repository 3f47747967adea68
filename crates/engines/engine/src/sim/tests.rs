//! The simulated executor, without waiting and with.

use contract::{HashSeed, OutputLimits, RequestId, Sampling};

use super::*;
use crate::block_pool::BlockId;
use crate::executor::Phase;

const EOS: TokenId = 7_777;

fn bank() -> Arc<AnswerBank> {
    let article = |first: TokenId| {
        (0..20)
            .map(|passage| (0..50).map(|word| first + passage * 50 + word).collect())
            .collect()
    };
    Arc::new(AnswerBank::new(
        vec![vec![1, 2]],
        vec![article(10_000), article(20_000)],
    ))
}

fn request(prompt: &[TokenId]) -> GenerateRequest {
    GenerateRequest {
        id: RequestId::new("test"),
        nonce: 0,
        trace: None,
        prompt: prompt.into(),
        answered: std::sync::Arc::default(),
        hash_seed: HashSeed::BASE,
        limits: OutputLimits {
            max_tokens: 5_000,
            min_tokens: 0,
            ignore_eos: false,
            eos_tokens: [EOS].into(),
        },
        sampling: Sampling::default(),
        logprobs: None,
        grammar: None,
    }
}

fn executor(profile: &str, seed: u64) -> SimExecutor {
    SimExecutor::new(&Profile::named(profile).unwrap(), bank(), seed)
}

/// A row that computes the last known token.
fn decode<'a>(
    slot: usize,
    request: &'a GenerateRequest,
    tokens: &'a [TokenId],
    drafts: usize,
) -> Row<'a> {
    const NO_BLOCKS: &[BlockId] = &[];
    Row {
        sequence: SequenceId(slot as u64),
        slot,
        phase: Phase::Decode,
        request,
        tokens,
        start: tokens.len() - 1,
        count: 1,
        drafts,
        blocks: NO_BLOCKS,
    }
}

/// Runs a request to its end beside `others` rows of other requests.
fn run_to_end(
    executor: &mut SimExecutor,
    request: &GenerateRequest,
    others: usize,
) -> Vec<TokenId> {
    let noise = self::request(&[5, 6, 7]);
    let drafts = executor.limits.draft_tokens as usize;
    let mut tokens = request.prompt.to_vec();
    loop {
        let mut rows: Vec<Row<'_>> = (0..others)
            .map(|slot| decode(slot, &noise, &noise.prompt, drafts))
            .collect();
        rows.push(decode(others, request, &tokens, drafts));
        let (_, mut output) = executor.simulate(&Batch { rows });
        let new = output.rows.pop().unwrap().tokens;
        assert!((1..=1 + drafts).contains(&new.len()));
        tokens.extend_from_slice(&new);
        if tokens.last() == Some(&EOS) {
            return tokens.split_off(request.prompt.len());
        }
    }
}

#[test]
fn an_answer_depends_on_seed_and_request_alone() {
    let asked = request(&[10_123, 10_124]);
    let alone = run_to_end(&mut executor("h200-llama-70b-fp8", 1), &asked, 0);
    assert_eq!(alone[..2], [1, 2]);
    assert_eq!(
        run_to_end(&mut executor("h200-llama-70b-fp8", 1), &asked, 20),
        alone
    );
    assert_eq!(
        run_to_end(&mut executor("2xh100-llama-70b-fp8-draft", 1), &asked, 3),
        alone,
        "speculation changes the pace and not the text"
    );
    assert_ne!(
        run_to_end(&mut executor("h200-llama-70b-fp8", 2), &asked, 0),
        alone
    );
    let mut seeded = asked.clone();
    seeded.sampling.seed = Some(5);
    assert_ne!(
        run_to_end(&mut executor("h200-llama-70b-fp8", 1), &seeded, 0),
        alone
    );
}

#[test]
fn a_new_sequence_in_a_slot_gets_its_own_answer() {
    let mut executor = executor("zero-delay", 1);
    let (first, second) = (request(&[10_123]), request(&[20_123]));
    let expected = run_to_end(&mut self::executor("zero-delay", 1), &second, 0);
    run_to_end(&mut executor, &first, 0);
    executor.slots[0].as_mut().unwrap().sequence = SequenceId(99);
    assert_eq!(run_to_end(&mut executor, &second, 0), expected);
}

#[test]
fn drafts_are_accepted_with_their_probabilities() {
    let mut executor = executor("2xh100-llama-70b-fp8-draft", 3);
    let probabilities = executor.speculation.acceptance.clone();
    let mut reached = [0_u32; 6];
    for prompt in 0..20_000 {
        let mut asked = request(&[prompt, 10_000]);
        asked.limits.ignore_eos = true;
        let tokens = asked.prompt.clone();
        let batch = Batch {
            rows: vec![decode(0, &asked, &tokens, 5)],
        };
        executor.slots[0] = None;
        let (_, output) = executor.simulate(&batch);
        for count in &mut reached[..output.rows[0].tokens.len()] {
            *count += 1;
        }
    }
    for (position, expected) in probabilities.iter().enumerate() {
        let share = f64::from(reached[position + 1]) / f64::from(reached[position]);
        assert!(
            (share - expected).abs() < 0.02,
            "position {position}: {share}"
        );
    }
}

#[test]
fn only_rows_that_reach_the_end_speak() {
    let asked = request(&[10_000; 100]);
    let mut row = decode(0, &asked, &asked.prompt, 0);
    (row.start, row.count, row.phase) = (0, 40, Phase::Prefill);
    let (_, output) = executor("h200-llama-70b-fp8", 1).simulate(&Batch { rows: vec![row] });
    assert!(output.rows[0].tokens.is_empty());
}

#[test]
fn what_a_step_costs() {
    let asked = request(&vec![9; 8_000]);
    let cost = |profile: &str, rows: Vec<Row<'_>>| {
        executor(profile, 1)
            .simulate(&Batch { rows })
            .0
            .as_secs_f64()
            * 1e3
    };
    let prefill = |start: usize, count: usize| {
        let mut row = decode(0, &asked, &asked.prompt, 0);
        (row.start, row.count, row.phase) = (start, count, Phase::Prefill);
        row
    };
    let h200 = "h200-llama-70b-fp8";
    // 3,500 tokens: 376 ms of matrix products and 29 ms of attention, near the reference's
    // 371 + 18 ms, with the attention on its own.
    assert!((cost(h200, vec![prefill(0, 3_500)]) - 405.0).abs() < 3.0);
    // A follow-up of 100 tokens on 6,000 cached ones hides behind the weights.
    assert!((cost(h200, vec![prefill(6_000, 100)]) - 21.2).abs() < 0.5);
    assert_eq!(cost("zero-delay", vec![prefill(0, 8_000)]), 0.0);
    // Drafting costs its own steps and wider matrices.
    let asked = request(&vec![9; 5_000]);
    let tokens = &asked.prompt;
    let eagle = "h200-llama-70b-fp8-eagle3";
    let plain = cost(eagle, vec![decode(0, &asked, tokens, 0)]);
    let drafted = cost(eagle, vec![decode(0, &asked, tokens, 3)]);
    assert!((drafted - plain - (3.0 * 0.7 + 3.0 * 0.037)).abs() < 1e-6);
}

#[test]
fn a_step_with_drafts_says_what_they_took() {
    let mut executor = executor("h200-llama-70b-fp8-eagle3", 1);
    let asked = request(&[9; 500]);
    let mut split = |drafts: &[usize]| {
        let rows = drafts.iter().enumerate();
        let rows = rows.map(|(slot, &drafts)| decode(slot, &asked, &asked.prompt, drafts));
        let (step, output) = executor.simulate(&Batch {
            rows: rows.collect(),
        });
        (step, output.draft_time, output.forward_time)
    };
    let (step, draft, forward) = split(&[3, 1]);
    // Drafting goes as far as the longest draft; the rest of the step verifies.
    assert_eq!(draft, Duration::from_micros(2_100));
    assert_eq!(draft + forward, step);
    let (step, draft, forward) = split(&[0, 0]);
    assert_eq!((draft, forward), (Duration::ZERO, step));
}

#[tokio::test(start_paused = true)]
async fn lateness_of_timers_does_not_add_up() {
    let mut executor = executor("h200-llama-70b-fp8", 1);
    let began = Instant::now();
    let step = Duration::from_micros(18_300);
    for _ in 0..1_000 {
        executor.wait(step).await;
    }
    let error = began.elapsed().abs_diff(1_000 * step);
    assert!(
        error < Duration::from_millis(3),
        "{error:?} over a thousand steps"
    );
}
