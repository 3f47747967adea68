//! Who joins and leaves, told as text: registrations in, steps out.

use expect_test::{Expect, expect};

use super::*;

/// An endpoint of worker `id`.
fn endpoint(id: u64, endpoint: &str) -> (String, Vec<u8>) {
    let value = format!(
        r#"{{"type":"Endpoint","component":"backend","endpoint":"{endpoint}","namespace":"dynamo","instance_id":{id},"transport":{{"tcp":"10.0.0.2:99/{id:x}/{endpoint}"}},"device_type":"cuda","request_plane_codec":"msgpack"}}"#
    );
    (
        format!("v1/instances/dynamo/backend/{endpoint}/{id:x}"),
        value.into_bytes(),
    )
}

/// The card of worker `id`, with some of its text replaced.
fn model(id: u64, replace: &[(&str, &str)]) -> (String, Vec<u8>) {
    let mut value = format!(
        r#"{{"type":"Model","namespace":"dynamo","component":"backend","endpoint":"generate","instance_id":{id},"card_json":{{"display_name":"m","slug":"m","source_path":"/models/m","tokenizer":{{"hf_tokenizer_json":{{"path":"/models/m/tokenizer.json","checksum":"blake3:00","size":9}}}},"architectural_max_context_length":4096,"context_length":0,"kv_cache_block_size":16,"migration_limit":0,"model_type":"Chat | Completions","model_input":"Tokens","worker_type":"aggregated","needs":[],"runtime_config":{{"context_length":0,"total_kv_blocks":256,"max_num_seqs":64,"max_num_batched_tokens":8192,"tool_call_parser":null,"data_parallel_start_rank":0,"data_parallel_size":1,"enable_local_indexer":true,"runtime_data":{{}},"enable_eagle":false}},"media_decoder":null}}}}"#
    );
    for (from, to) in replace {
        assert!(value.contains(from), "{from}");
        value = value.replace(from, to);
    }
    (
        format!("v1/mdc/dynamo/backend/generate/{id:x}"),
        value.into_bytes(),
    )
}

fn put((key, value): (String, Vec<u8>)) -> Update {
    Update::Put(key, value)
}

fn worker(id: u64) -> Vec<(String, Vec<u8>)> {
    vec![
        endpoint(id, "generate"),
        endpoint(id, &format!("worker_kv_query_source_{id:x}")),
        model(id, &[]),
    ]
}

#[track_caller]
fn check(directory: &mut Directory, update: Update, expected: Expect) {
    let words = directory.apply(update).into_iter().map(|step| match step {
        Step::Joined(description) => format!(
            "+{} {} {}",
            description.card.id, description.serving.target, description.card.name
        ),
        Step::Left(id) => format!("-{id}"),
        Step::Refused(id, reason) => format!("!{id} {reason}"),
        Step::Unreadable(key, error) => format!("?{key} {error}"),
    });
    let words: Vec<String> = words.collect();
    expected.assert_eq(&words.join("\n"));
}

#[test]
fn a_worker_joins_once_all_is_there_in_any_order() {
    let orders = [[0, 1, 2], [2, 1, 0], [1, 2, 0], [0, 2, 1]];
    for order in orders {
        let mut directory = Directory::new(Scope::default());
        let parts = worker(10);
        check(&mut directory, put(parts[order[0]].clone()), expect![""]);
        check(&mut directory, put(parts[order[1]].clone()), expect![""]);
        let last = put(parts[order[2]].clone());
        check(
            &mut directory,
            last.clone(),
            expect!["+10 10.0.0.2:99/a/generate backend-a"],
        );
        check(&mut directory, last, expect![""]);
    }
}

#[test]
fn a_worker_leaves_with_any_of_its_parts() {
    for part in 0..3 {
        let mut directory = Directory::new(Scope::default());
        directory.apply(Update::Snapshot([worker(10), worker(11)].concat()));
        let gone = worker(10)[part].0.clone();
        check(&mut directory, Update::Deleted(gone), expect!["-10"]);
    }
}

#[test]
fn a_snapshot_tells_who_left_and_who_came_meanwhile() {
    let mut directory = Directory::new(Scope::default());
    directory.apply(Update::Snapshot([worker(1), worker(2)].concat()));
    check(
        &mut directory,
        Update::Snapshot([worker(2), worker(3)].concat()),
        expect![[r#"
            -1
            +3 10.0.0.2:99/3/generate backend-3"#]],
    );
}

#[test]
fn a_worker_that_changes_leaves_and_joins_anew() {
    let mut directory = Directory::new(Scope::default());
    directory.apply(Update::Snapshot(worker(1)));
    check(
        &mut directory,
        put(model(
            1,
            &[(r#""max_num_seqs":64"#, r#""max_num_seqs":32"#)],
        )),
        expect![[r#"
            -1
            +1 10.0.0.2:99/1/generate backend-1"#]],
    );
}

#[test]
fn workers_that_cannot_serve_us_are_refused_with_a_reason() {
    let refusals = [
        (
            r#""worker_type":"aggregated""#,
            r#""worker_type":"prefill""#,
        ),
        (r#""model_input":"Tokens""#, r#""model_input":"Text""#),
        ("Chat | Completions", "Embedding"),
        (r#""data_parallel_size":1"#, r#""data_parallel_size":4"#),
        (r#""kv_cache_block_size":16"#, r#""kv_cache_block_size":0"#),
        (r#""needs":[]"#, r#""needs":["prefill"]"#),
    ];
    let mut reasons = Vec::new();
    for replace in refusals {
        let mut directory = Directory::new(Scope::default());
        let mut parts = worker(1);
        parts[2] = model(1, &[replace]);
        for step in directory.apply(Update::Snapshot(parts.clone())) {
            let Step::Refused(_, reason) = step else {
                panic!("{step:?}");
            };
            reasons.push(reason.to_string());
        }
        assert_eq!(
            directory.apply(Update::Snapshot(parts)),
            [],
            "it is said once"
        );
    }
    expect![[r#"
        it is a `prefill` worker; only `aggregated` ones are served
        it takes `Text`, not tokens
        it serves `Embedding`, not text
        it has 4 data-parallel ranks; register each rank as a worker of its own
        it does not report how many tokens a block has
        it needs other workers to serve a request"#]]
    .assert_eq(&reasons.join("\n"));
}

#[test]
fn one_unreadable_value_does_not_hide_the_others() {
    let mut directory = Directory::new(Scope::default());
    let mut parts = worker(1);
    parts.push(("v1/mdc/x".to_owned(), b"{".to_vec()));
    check(
        &mut directory,
        Update::Snapshot(parts),
        expect![[r#"
            ?v1/mdc/x registration cannot be read: EOF while parsing an object at line 1 column 1
            +1 10.0.0.2:99/1/generate backend-1"#]],
    );
}

#[test]
fn other_namespaces_are_not_ours() {
    let mut directory = Directory::new(Scope {
        namespace: Some("elsewhere".to_owned()),
        nats: false,
    });
    check(&mut directory, Update::Snapshot(worker(1)), expect![""]);
}

#[test]
fn versions_before_sources_are_asked_by_rank_or_worker() {
    for name in ["worker_kv_indexer_query_dp0", "worker_kv_indexer_query"] {
        let mut directory = Directory::new(Scope::default());
        let parts = [endpoint(1, "generate"), endpoint(1, name), model(1, &[])];
        directory.apply(Update::Snapshot(parts.to_vec()));
        let recovery = directory.members().next().unwrap().recovery.clone();
        let target = recovery.unwrap().target.to_string();
        assert_eq!(target, format!("10.0.0.2:99/1/{name}"));
    }
}

#[test]
fn what_a_worker_waits_for_is_known() {
    let mut directory = Directory::new(Scope::default());
    let waits = |directory: &Directory| {
        let missing = directory.incomplete().values().map(ToString::to_string);
        missing.collect::<Vec<_>>().join(", ")
    };
    directory.apply(put(model(1, &[])));
    assert_eq!(waits(&directory), "the endpoint `dynamo/backend/generate`");
    directory.apply(put(endpoint(1, "generate")));
    assert_eq!(waits(&directory), "an endpoint that dumps its cache");
    directory.apply(put(endpoint(1, "worker_kv_query_source_1")));
    assert_eq!(waits(&directory), "");
}

#[test]
fn a_card_says_what_the_worker_is() {
    let mut directory = Directory::new(Scope::default());
    let mut parts = worker(1);
    parts[2] = model(1, &[(r#""enable_eagle":false"#, r#""enable_eagle":true"#)]);
    directory.apply(Update::Snapshot(parts));
    let description = directory.members().next().unwrap();
    let card = &description.card;
    assert_eq!(
        (card.blocks.size, card.total_blocks, card.slots),
        (16, 256, 64)
    );
    assert_eq!(
        (card.max_step_tokens, card.max_context_tokens),
        (8192, 4096)
    );
    assert_eq!(
        (card.blocks.hashing.lookahead, card.speculation.as_str()),
        (1, "eagle3")
    );
    assert_eq!((card.simulated, card.gpu.kind.as_str()), (false, ""));
    assert_eq!(description.files.folder, Some("/models/m".into()));
}

#[test]
fn a_worker_is_called_like_its_pod_if_it_is_alone_there() {
    let mut directory = Directory::new(Scope::default());
    let of = |pod: &str, pairs| PodRegistrations {
        pod: pod.to_owned(),
        pairs,
    };
    check(
        &mut directory,
        Update::Pods(vec![
            of("llama-0-x7", worker(1)),
            of("llama-1-p2", worker(2)),
            of("llama-1-p2", worker(3)),
        ]),
        expect![[r"
            +1 10.0.0.2:99/1/generate llama-0-x7
            +2 10.0.0.2:99/2/generate backend-2
            +3 10.0.0.2:99/3/generate backend-3"]],
    );
}

#[test]
fn the_folder_is_where_the_tokenizer_is_unless_it_is_on_a_hub() {
    let folder = |source: &str, tokenizer: &str| {
        let card = serde_json::from_value(serde_json::json!({"display_name": "m",
            "source_path": source, "tokenizer": {"hf_tokenizer_json": {"path": tokenizer}}}));
        ModelFiles::of(&card.unwrap()).folder
    };
    assert_eq!(folder("/a", "/b/tokenizer.json"), Some("/a".into()));
    assert_eq!(folder("org/m", "/b/tokenizer.json"), Some("/b".into()));
    assert_eq!(folder("org/m", "hf://m/tokenizer.json"), None);
}

#[test]
fn channels_belong_to_workers_as_far_as_that_is_told() {
    let channel = |publisher: u64, port: u16| {
        let value = format!(
            r#"{{"type":"EventChannel","namespace":"dynamo","component":"backend","topic":"kv-events","instance_id":{publisher},"transport":{{"kind":"Zmq","config":{{"endpoint":"tcp://h:{port}"}}}}}}"#
        );
        (format!("v1/event_channels/{publisher}"), value.into_bytes())
    };
    let source =
        r#"{"type":"EventSource","publisher_id":70,"metadata":{"worker":{"worker_id":1}}}"#;
    let source = ("v1/event_sources/70".to_owned(), source.as_bytes().to_vec());
    let mut directory = Directory::new(Scope::default());
    let channels = [channel(70, 1), channel(2, 2), channel(71, 3), source];
    let all = [worker(1), worker(2), channels.to_vec()].concat();
    directory.apply(Update::Snapshot(all));
    let expected = [
        ("tcp://h:1", &[1][..]),
        ("tcp://h:2", &[2]),
        ("tcp://h:3", &[]),
    ];
    let expected = expected.map(|(address, workers)| {
        let workers = workers.iter().copied().map(WorkerId);
        (ChannelAddress::Zmq(address.to_owned()), workers.collect())
    });
    assert_eq!(directory.channels(), expected.into());
}

/// What worker `id` registers of its publisher, whose events go over NATS.
fn publisher(id: u64) -> Vec<(String, Vec<u8>)> {
    let channel = format!(
        r#"{{"type":"EventChannel","scope":{{"kind":"endpoint","endpoint":{{"namespace":"dynamo","component":"backend","name":"generate"}}}},"topic":"kv-events","instance_id":7{id},"transport":{{"kind":"Nats","config":{{"subject_prefix":"namespace.dynamo.component.backend.endpoint.generate"}}}}}}"#
    );
    let source = format!(
        r#"{{"type":"EventSource","publisher_id":7{id},"metadata":{{"worker":{{"worker_id":{id}}}}}}}"#
    );
    vec![
        (format!("v1/event_channels/7{id}"), channel.into_bytes()),
        (format!("v1/event_sources/7{id}"), source.into_bytes()),
    ]
}

fn with_nats() -> Directory {
    Directory::new(Scope {
        namespace: None,
        nats: true,
    })
}

#[test]
fn workers_that_publish_over_nats_share_a_subject() {
    let mut directory = with_nats();
    let subject = "namespace.dynamo.component.backend.endpoint.generate.kv-events";
    let address = ChannelAddress::Nats(subject.to_owned());
    directory.apply(Update::Snapshot([worker(1), publisher(1)].concat()));
    let workers = BTreeSet::from([WorkerId(1)]);
    assert_eq!(directory.channels(), [(address.clone(), workers)].into());
    let both = [worker(1), publisher(1), worker(2), publisher(2)].concat();
    directory.apply(Update::Snapshot(both));
    let workers = BTreeSet::from([WorkerId(1), WorkerId(2)]);
    assert_eq!(directory.channels(), [(address, workers)].into());
    directory.apply(Update::Snapshot(Vec::new()));
    assert_eq!(directory.channels(), Channels::new());
}

#[test]
fn without_nats_a_worker_that_needs_it_is_refused_with_what_to_set() {
    let mut directory = Directory::new(Scope::default());
    check(
        &mut directory,
        Update::Snapshot([worker(1), publisher(1), worker(2)].concat()),
        expect![[r#"
            !1 it publishes its cache events over NATS: set --nats on this frontend
            +2 10.0.0.2:99/2/generate backend-2"#]],
    );
    assert_eq!(directory.channels(), Channels::new());
    // Its publisher may be the last that is registered.
    let mut directory = Directory::new(Scope::default());
    directory.apply(Update::Snapshot(worker(1)));
    let [channel, source] = <[_; 2]>::try_from(publisher(1)).unwrap();
    check(
        &mut directory,
        put(channel),
        expect![[r#"
            -1
            !1 it publishes its cache events over NATS: set --nats on this frontend"#]],
    );
    check(&mut directory, put(source), expect![""]);
    let mut directory = Directory::new(Scope::default());
    check(
        &mut directory,
        Update::Snapshot(over_nats(worker(1))),
        expect!["!1 it takes requests over NATS: set --nats on this frontend"],
    );
}

#[test]
fn a_publisher_that_nobody_names_publishes_for_its_component() {
    let subject = "namespace.dynamo.component.backend.kv-events";
    let channel = |prefix: &str| {
        let value = format!(
            r#"{{"type":"EventChannel","namespace":"dynamo","component":"backend","topic":"kv-events","instance_id":70,"transport":{{"kind":"Nats","config":{{"subject_prefix":"{prefix}"}}}}}}"#
        );
        vec![(format!("v1/event_channels/{prefix}"), value.into_bytes())]
    };
    let own = channel("namespace.dynamo.component.backend");
    let other = channel("namespace.dynamo.component.backend2");
    let mut directory = with_nats();
    directory.apply(Update::Snapshot(
        [worker(1), worker(2), own.clone(), other.clone()].concat(),
    ));
    let channels = directory.channels();
    let workers = BTreeSet::from([WorkerId(1), WorkerId(2)]);
    assert_eq!(channels.len(), 2);
    assert_eq!(channels[&ChannelAddress::Nats(subject.to_owned())], workers);
    let mut directory = Directory::new(Scope::default());
    check(
        &mut directory,
        Update::Snapshot([worker(1), other].concat()),
        expect!["+1 10.0.0.2:99/1/generate backend-1"],
    );
    check(
        &mut directory,
        Update::Snapshot([worker(1), own].concat()),
        expect![[r#"
            -1
            !1 it publishes its cache events over NATS: set --nats on this frontend"#]],
    );
}

/// The same worker, which takes its requests over NATS.
fn over_nats(parts: Vec<(String, Vec<u8>)>) -> Vec<(String, Vec<u8>)> {
    let parts = parts.into_iter().map(|(key, value)| {
        let value = String::from_utf8(value).expect("text");
        let value = value.replace(
            r#"{"tcp":"10.0.0.2:99/1/"#,
            r#"{"nats_tcp":"dynamo_backend."#,
        );
        (key, value.into_bytes())
    });
    parts.collect()
}

#[test]
fn with_nats_a_worker_that_needs_it_joins() {
    let mut directory = with_nats();
    check(
        &mut directory,
        Update::Snapshot([over_nats(worker(1)), publisher(1)].concat()),
        expect!["+1 dynamo_backend.generate on NATS backend-1"],
    );
    let recovery = directory.members().next().unwrap().recovery.clone();
    let target = recovery.unwrap().target.to_string();
    assert_eq!(target, "dynamo_backend.worker_kv_query_source_1 on NATS");
}
