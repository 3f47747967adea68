//! Ten minutes of load in seconds, and the same numbers twice.

use std::fmt::Write as _;
use std::rc::Rc;
use std::time::Duration;

use contract::random::Random;
use preprocess::corpus;
use tokio::task::LocalSet;

use testkit::{Answer, Cluster, Setup, assistant, user};

const CONVERSATIONS: u64 = 60;
const SIMULATED: Duration = Duration::from_secs(600);

/// Conversations of three to five turns, one after the other, until the time is up.
async fn converse(cluster: Rc<Cluster>, number: u64) -> Vec<Answer> {
    let mut random = Random::new(number);
    let mut answers = Vec::new();
    while cluster.clock.now().as_secs_f64() < SIMULATED.as_secs_f64() {
        let article = &corpus::articles()[random.below(corpus::articles().len())];
        let mut messages = vec![user(article.text)];
        for _ in 0..3 + random.below(3) {
            let answer = cluster
                .chat(&messages)
                .with("max_tokens", 1024)
                .answer()
                .await;
            messages.push(assistant(&answer.text));
            messages.push(user("Please explain the last point further."));
            answers.push(answer);
        }
    }
    answers
}

/// All answers of a run, in the order in which they began.
fn run(mode: &'static str) -> Vec<Answer> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build();
    let local = LocalSet::new();
    local.block_on(&runtime.unwrap(), async {
        let cluster = Rc::new(
            Cluster::start(Setup {
                mode,
                ..Setup::default()
            })
            .await,
        );
        let tasks: Vec<_> = (0..CONVERSATIONS)
            .map(|number| tokio::task::spawn_local(converse(Rc::clone(&cluster), number)))
            .collect();
        let mut answers = Vec::new();
        for task in tasks {
            answers.extend(task.await.unwrap());
        }
        assert!(cluster.views().iter().all(|worker| worker.in_flight == 0));
        answers.sort_by_key(|answer| answer.began);
        answers
    })
}

fn summary(answers: &[Answer]) -> String {
    let mut first: Vec<Duration> = answers.iter().map(|answer| answer.first_token).collect();
    first.sort_unstable();
    let rank = |share: f64| first[(share * first.len() as f64).ceil() as usize - 1];
    let sum = |count: fn(&Answer) -> u32| answers.iter().map(|a| u64::from(count(a))).sum::<u64>();
    let prompt = sum(|answer| answer.usage.prompt_tokens);
    let cached = sum(|answer| answer.usage.prompt_tokens_details.unwrap().cached_tokens);
    let mut text = String::new();
    write!(
        text,
        "{} requests, {} output tokens, hit rate {:.1} %, first token p50 {:?} p95 {:?}",
        answers.len(),
        sum(|answer| answer.usage.completion_tokens),
        100.0 * cached as f64 / prompt as f64,
        rank(0.50),
        rank(0.95),
    )
    .unwrap();
    text
}

#[test]
fn ten_minutes_of_sixty_conversations_give_the_same_numbers_twice() {
    let first = run("kv-blocks");
    let second = run("kv-blocks");
    println!("kv-blocks: {}", summary(&first));
    assert_eq!(summary(&first), summary(&second));
    assert_eq!(first, second);
    // The load is what it says: every conversation was busy all the time.
    let busy: Duration = first.iter().map(|answer| answer.total).sum();
    assert!(busy >= SIMULATED * CONVERSATIONS as u32, "{busy:?}");
}
