//! When every worker is full, in the mode that binds late.

use std::time::Duration;

use http::StatusCode;

use testkit::{Chat, Cluster, Setup, bytes, user};

async fn full_cluster() -> (Cluster, usize) {
    cluster(Setup::default()).await
}

async fn cluster(setup: Setup) -> (Cluster, usize) {
    let setup = Setup {
        mode: "kv",
        workers: 1,
        ..setup
    };
    let cluster = Cluster::start(setup).await;
    let slots = cluster.views()[0].card.slots as usize;
    (cluster, slots)
}

fn long(cluster: &Cluster) -> Chat<'_> {
    let request = cluster.chat(&[user("a long answer, please")]);
    request.with("ignore_eos", true).with("max_tokens", 300)
}

#[tokio::test(start_paused = true)]
async fn a_request_waits_in_the_router_until_a_slot_frees() {
    let (cluster, slots) = full_cluster().await;
    let mut running = Vec::new();
    for _ in 0..slots {
        running.push(long(&cluster).with("stream", true).send().await);
    }
    let late = cluster.chat(&[user("me too")]).with("max_tokens", 2);
    let free_one = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(cluster.router.total_queued(), 1);
        assert_eq!(cluster.views()[0].in_flight as usize, slots);
        running.pop();
    };
    let (answer, ()) = tokio::join!(late.answer(), free_one);
    assert!(answer.first_token >= Duration::from_secs(1));
    assert_eq!(answer.finish, "length");
    assert_eq!(cluster.router.total_queued(), 0);
    let decision = &cluster.get("/decisions?limit=1").await["decisions"][0];
    assert!(
        decision["queued_ms"].as_f64().unwrap() >= 999.0,
        "{decision}"
    );
}

#[tokio::test(start_paused = true)]
async fn who_cannot_wait_that_long_is_refused_at_once() {
    let (cluster, slots) = full_cluster().await;
    let mut running = Vec::new();
    for _ in 0..slots {
        running.push(long(&cluster).with("stream", true).send().await);
    }
    let impatient = cluster
        .chat(&[user("now")])
        .header("x-request-timeout-ms", "1");
    let refused = impatient.send().await;
    assert_eq!(refused.status(), StatusCode::TOO_MANY_REQUESTS);
    assert!(refused.headers().contains_key("retry-after"));
    assert_eq!(
        cluster.router.total_queued(),
        0,
        "it does not stay in the queue"
    );
}

#[tokio::test(start_paused = true)]
async fn a_client_that_leaves_the_queue_leaves_nothing_behind() {
    let (cluster, slots) = full_cluster().await;
    let mut running = Vec::new();
    for _ in 0..slots {
        running.push(long(&cluster).with("stream", true).send().await);
    }
    {
        let mut waiting = Box::pin(cluster.chat(&[user("never mind")]).send());
        assert!(futures_util::poll!(waiting.as_mut()).is_pending());
        let queued = |c: &Cluster| c.router.total_queued() == 1;
        cluster.until("it waits", queued).await;
    }
    let left = |c: &Cluster| c.router.total_queued() == 0;
    cluster.until("it has left", left).await;
    assert_eq!(cluster.views()[0].in_flight as usize, slots);
    drop(running);
    let empty = |c: &Cluster| c.views()[0].in_flight == 0;
    cluster.until("the others have left", empty).await;
}

#[tokio::test(start_paused = true)]
async fn the_more_urgent_goes_first_if_the_server_takes_its_word() {
    for (trust_priority, urgent_first) in [(true, true), (false, false)] {
        assert_eq!(asked_with_priority(trust_priority).await, urgent_first);
    }
}

/// Whether a request with a priority goes before one that came first and has none.
async fn asked_with_priority(trust_priority: bool) -> bool {
    let (cluster, slots) = cluster(Setup {
        trust_priority,
        ..Setup::default()
    })
    .await;
    let mut running = Vec::new();
    for _ in 0..slots {
        running.push(long(&cluster).with("stream", true).send().await);
    }
    let ordinary = cluster.chat(&[user("ordinary")]).with("max_tokens", 2);
    let urgent = cluster.chat(&[user("urgent")]).with("max_tokens", 2);
    let free = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        running.pop();
    };
    let (ordinary, urgent, ()) = tokio::join!(
        ordinary.answer(),
        urgent.header("x-request-priority", "5").answer(),
        free,
    );
    urgent.first_token < ordinary.first_token
}

#[tokio::test(start_paused = true)]
async fn a_header_that_is_not_a_number_is_named() {
    let (cluster, _) = full_cluster().await;
    let request = cluster
        .chat(&[user("hello")])
        .header("x-request-priority", "high");
    assert_eq!(request.send().await.status(), StatusCode::BAD_REQUEST);
}

#[tokio::test(start_paused = true)]
async fn nobody_waits_longer_than_the_server_and_the_client_allow() {
    const SERVER: Duration = Duration::from_secs(5);
    let (cluster, slots) = cluster(Setup {
        max_queue_wait: Some(SERVER),
        ..Setup::default()
    })
    .await;
    // Some 30 s of work for the engine, so that no slot frees.
    let mut running = Vec::new();
    for _ in 0..slots {
        let request = long(&cluster).with("max_tokens", 1000);
        running.push(request.with("stream", true).send().await);
    }
    for (asked, waits) in [
        (None, SERVER),
        (Some("3000"), Duration::from_secs(3)),
        (Some("900000"), SERVER),
    ] {
        let began = cluster.clock.now();
        let mut request = cluster.chat(&[user("me too")]);
        if let Some(asked) = asked {
            request = request.header("x-request-timeout-ms", asked);
        }
        let refused = request.send().await;
        assert_eq!(refused.status(), StatusCode::TOO_MANY_REQUESTS, "{asked:?}");
        assert!(refused.headers().contains_key("retry-after"));
        let waited = cluster.clock.now() - began;
        assert!(
            waited.abs_diff(waits) < Duration::from_millis(10),
            "{asked:?}: {waited:?}"
        );
        let body: serde_json::Value = serde_json::from_slice(&bytes(refused).await).unwrap();
        assert_eq!(body["error"]["code"], "queue_timeout");
        assert_eq!(cluster.router.total_queued(), 0);
    }
    let metrics = cluster.registry.render(Duration::ZERO);
    let line = "homing_router_rejections_total{reason=\"queue_timeout\"} 3";
    assert!(metrics.contains(line), "{metrics}");
}

const KEYS: &str = r#"
[[keys]]
name = "batch"
key = "sk-batch"

[[keys]]
name = "chat"
key = "sk-chat"
priority = 2
max_requests = 3

[[keys]]
name = "apart"
key = "sk-apart"
isolated = true

[[keys]]
name = "also-apart"
key = "sk-also-apart"
isolated = true
"#;

fn keyed<'a>(chat: Chat<'a>, key: &str) -> Chat<'a> {
    chat.header("authorization", &format!("Bearer sk-{key}"))
}

#[tokio::test(start_paused = true)]
async fn a_greedy_key_does_not_keep_another_waiting() {
    let (cluster, slots) = cluster(Setup {
        api_keys: Some(KEYS),
        ..Setup::default()
    })
    .await;
    let mut running = Vec::new();
    for _ in 0..slots {
        let request = keyed(long(&cluster), "batch");
        running.push(request.with("stream", true).send().await);
    }
    let ask = |key, words| keyed(cluster.chat(&[user(words)]).with("max_tokens", 2), key);
    let greedy = (0..50).map(|_| ask("batch", "more"));
    let greedy = futures_util::future::join_all(greedy.map(Chat::answer));
    let modest = async {
        // When the greedy one has long been waiting.
        tokio::time::sleep(Duration::from_millis(1)).await;
        ask("apart", "me too").answer().await
    };
    let free = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(cluster.router.total_queued(), 51);
        running.pop();
    };
    let (greedy, modest, ()) = tokio::join!(greedy, modest, free);
    let before = greedy.iter().filter(|one| one.total < modest.total).count();
    assert!(before <= 2, "{before} of 50 went before");
}

#[tokio::test(start_paused = true)]
async fn a_key_goes_as_far_as_its_rights() {
    let (cluster, slots) = cluster(Setup {
        api_keys: Some(KEYS),
        // Counts for keys that do not say how far they may go; these here do, or are refused.
        trust_priority: false,
        ..Setup::default()
    })
    .await;
    let mut running = Vec::new();
    for _ in 0..slots {
        let request = keyed(long(&cluster), "batch");
        running.push(request.with("stream", true).send().await);
    }
    let ask = |key| {
        let request = keyed(cluster.chat(&[user("urgent")]), key);
        request
            .with("max_tokens", 2)
            .header("x-request-priority", "8")
    };
    let free = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        running.pop();
    };
    let (first, second, chat, ()) = tokio::join!(
        ask("apart").answer(),
        ask("batch").answer(),
        ask("chat").answer(),
        free
    );
    assert!(chat.total < first.total && chat.total < second.total);
    drop(running);
    // No more inside than the key may have.
    let mut inside = Vec::new();
    for _ in 0..3 {
        let request = ask("chat").with("max_tokens", 500);
        inside.push(request.with("stream", true).send().await);
    }
    let refused = ask("chat").send().await;
    assert_eq!(refused.status(), StatusCode::TOO_MANY_REQUESTS);
    let body: serde_json::Value = serde_json::from_slice(&bytes(refused).await).unwrap();
    assert_eq!(body["error"]["code"], "key_limit");
    let without = cluster.chat(&[user("hello")]).send().await;
    assert_eq!(without.status(), StatusCode::UNAUTHORIZED);
    let metrics = cluster.registry.render(Duration::ZERO);
    for line in [
        "homing_frontend_key_requests_total{key=\"chat\",outcome=\"admitted\"} 4",
        "homing_frontend_key_requests_total{key=\"chat\",outcome=\"limited\"} 1",
    ] {
        assert!(metrics.contains(line), "{line} in {metrics}");
    }
    assert!(!metrics.contains("sk-"));
    drop(inside);
    let left = |c: &Cluster| c.frontend.in_flight() == 0;
    cluster.until("they have left", left).await;
    let again = ask("chat").answer().await;
    assert_eq!(again.finish, "length");
}

#[tokio::test(start_paused = true)]
async fn keys_that_ask_for_it_share_no_cache() {
    let (cluster, _) = cluster(Setup {
        api_keys: Some(KEYS),
        ..Setup::default()
    })
    .await;
    let prompt = "the same words for everyone ".repeat(50);
    let cached = async |key, salt: Option<&str>| {
        let mut request = keyed(cluster.chat(&[user(&prompt)]), key).with("max_tokens", 2);
        if let Some(salt) = salt {
            request = request.with("cache_salt", salt);
        }
        request
            .answer()
            .await
            .usage
            .prompt_tokens_details
            .unwrap()
            .cached_tokens
    };
    for (key, salt, found) in [
        ("batch", None, false),
        ("chat", None, true),
        ("apart", None, false),
        ("apart", None, true),
        ("also-apart", None, false),
        ("also-apart", None, true),
        // A request's own salt counts at the top level, within a key's.
        ("batch", Some("x"), false),
        ("chat", Some("x"), true),
        ("apart", Some("x"), false),
        ("apart", Some("x"), true),
        ("also-apart", Some("x"), false),
    ] {
        let tokens = cached(key, salt).await;
        assert_eq!(tokens > 0, found, "{key} {salt:?}: {tokens}");
    }
}
