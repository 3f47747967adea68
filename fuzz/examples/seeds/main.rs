//! Writes `seeds/`: a message of each shape for every target, to begin from.
//!
//! `cargo run --example seeds` in this folder. What it writes is committed, because inputs that
//! once failed lie beside it; it overwrites only files of its own names.

mod gateway;
mod texts;

use std::time::Duration;
use std::{fs, io};

use contract::{
    BlockHash, FeedMessage, FrontendId, FrontendLoad, KvBatch, KvEvent, LocalHash, StoredBlock,
    WorkerId, WorkerStatus,
};
use dynamo::wire::two_part;
use prost::Message as _;
use remote::wire::{self, encode_envelope};
use serde_json::{Value, json};

fn main() -> io::Result<()> {
    streams()?;
    texts::bodies()?;
    texts::model_answers()?;
    texts::tokenized()?;
    envelopes()?;
    requests()?;
    engines()?;
    dynamo()?;
    peers()?;
    gateway::streams()?;
    models()?;
    router()
}

/// One seed: the bytes that the target takes off first, and the rest.
fn write(target: &str, name: &str, first: &[u8], rest: &[u8]) -> io::Result<()> {
    let folder = format!("{}/seeds/{target}", env!("CARGO_MANIFEST_DIR"));
    fs::create_dir_all(&folder)?;
    fs::write(format!("{folder}/{name}"), [first, rest].concat())
}

fn streams() -> io::Result<()> {
    let chat = concat!(
        r#"data: {"choices":[{"index":0,"delta":{"role":"assistant","content":"Hé"},"finish_reason":null}],"usage":null}"#,
        "\n\n",
        r#"data: {"choices":[{"index":0,"delta":{"content":"llo"},"finish_reason":"stop"}],"nvext":{"worker_id":{"decode_worker_id":1},"timing":{"ttft_ms":2}}}"#,
        "\n\n",
        r#"data: {"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":2,"total_tokens":5,"prompt_tokens_details":{"cached_tokens":1}}}"#,
        "\n\ndata: [DONE]\n\n",
    );
    write("sse", "chat", &[2, 7, 30], chat.as_bytes())?;
    let odd = b"\xef\xbb\xbf: remark\r\nevent: x\rdata\ndata: two\r\ndata:lines\n\r\nid: 7\ndata: \xff\n\n";
    write("sse", "odd", &[3, 1, 12, 9], odd)?;
    let error = b"data: {\"error\":{\"message\":\"no\",\"type\":\"x\",\"code\":503}}\n\n";
    write("sse", "error", &[0], error)?;
    let ids = concat!(
        r#"{"choices":[{"text":"He","token_ids":[5,6],"logprobs":{"token_logprobs":[-0.5,null],"top_logprobs":[{"token_id:5":-0.5,"token_id:9":-2.0},null]}}]}"#,
        "\n",
        r#"{"choices":[{"text":"","token_ids":[7,2],"finish_reason":"stop","stop_reason":2}],"usage":{"prompt_tokens_details":{"cached_tokens":4}}}"#,
        "\n[DONE]\n",
    );
    write("engine_answer", "ids", &[2 | 5 << 2], ids.as_bytes())?;
    let text = concat!(
        r#"{"choices":[{"text":"Two wo"}]}"#,
        "\n",
        r#"{"choices":[{"text":"rds, né","finish_reason":"length","matched_stop":null}]}"#,
        "\n[DONE]\n",
    );
    write("engine_answer", "text", &[1], text.as_bytes())?;
    let errors = "{\"error\":\"no\"}\n{\"object\":\"error\",\"message\":\"no\"}\n{\"error\":{\"message\":\"no\"}}\n";
    write("engine_answer", "errors", &[0], errors.as_bytes())
}

fn envelopes() -> io::Result<()> {
    let block = |number| StoredBlock {
        hash: BlockHash(number),
        local: LocalHash(number + 1),
    };
    let events = vec![
        KvEvent::Stored {
            parent: Some(BlockHash(9)),
            blocks: vec![block(1), block(2)],
        },
        KvEvent::Removed {
            blocks: vec![BlockHash(1)],
        },
        KvEvent::Cleared,
    ];
    let batch = KvBatch {
        worker: WorkerId(7),
        epoch: 3,
        sequence: 5,
        events,
    };
    let status = WorkerStatus {
        running: 2,
        utilization: 0.5,
        ..WorkerStatus::default()
    };
    let load = FrontendLoad {
        in_flight: 3,
        lease: Some(1),
        ..FrontendLoad::default()
    };
    let messages = [
        ("kv", FeedMessage::Kv(batch)),
        ("status", FeedMessage::Status(status)),
        ("loads", FeedMessage::Loads(vec![(FrontendId(4), load)])),
    ];
    for (name, message) in messages {
        let bytes = encode_envelope(WorkerId(7), &message, Duration::from_secs(1));
        write("event_envelope", name, b"", &bytes.expect("it travels"))?;
    }
    Ok(())
}

fn requests() -> io::Result<()> {
    let request = wire::GenerateRequest {
        id: "r".to_owned(),
        frontend: 9,
        prompt: vec![1, 2, 3],
        answered: vec![8],
        hash_seed: 1337,
        max_tokens: 5,
        min_tokens: 1,
        ignore_eos: true,
        eos_tokens: vec![2],
        temperature: 0.5,
        top_p: 0.9,
        top_k: Some(3),
        seed: Some(7),
        logprobs: Some(4),
        min_p: 0.1,
        presence_penalty: 0.5,
        frequency_penalty: -0.5,
        repetition_penalty: Some(1.1),
        nonce: 11,
        biased_tokens: vec![3],
        biases: vec![-2.5],
        grammar: Some(wire::generate_request::Grammar::Regex("a+".to_owned())),
    };
    write("grpc", "request", &[0], &request.encode_to_vec())?;
    let chunk = wire::Chunk {
        tokens: vec![1, 300],
        logprobs: vec![wire::TokenLogprob {
            logprob: -0.5,
            top_tokens: vec![1, 2],
            top_logprobs: vec![-0.5, -1.0],
        }],
        started: Some(wire::Started {
            cached_tokens: 2,
            queue_wait_nanos: 3,
            prefill_nanos: 4,
        }),
        finish: wire::FinishReason::Stop.into(),
        speculation: Some(wire::RequestSpeculation {
            drafts: 2,
            drafted_tokens: 6,
            accepted_tokens: 3,
        }),
    };
    write("grpc", "chunk", &[1], &chunk.encode_to_vec())?;
    let load = wire::Load {
        in_flight: 1,
        pending_prefill_tokens: 2,
        pending_requests: 3,
        active_blocks: 4,
        waiting: 5,
        lease: Some(6),
    };
    write("grpc", "load", &[2], &load.encode_to_vec())?;
    let status = wire::Status {
        running: 1,
        utilization: 0.25,
        accepted_tokens: 7,
        position_drafted_tokens: vec![9, 8],
        position_accepted_tokens: vec![7, 3],
        ..wire::Status::default()
    };
    write("grpc", "status", &[3], &status.encode_to_vec())
}

/// The batches of vLLM and SGLang are those that the unit tests read.
fn engines() -> io::Result<()> {
    let fixtures: [(&str, &[u8]); 5] = [
        (
            "vllm",
            include_bytes!("../../../crates/reach/adapters/fixtures/vllm.msgpack"),
        ),
        (
            "vllm-array",
            include_bytes!("../../../crates/reach/adapters/fixtures/vllm-array.msgpack"),
        ),
        (
            "vllm-bytes",
            include_bytes!("../../../crates/reach/adapters/fixtures/vllm-bytes.msgpack"),
        ),
        (
            "sglang",
            include_bytes!("../../../crates/reach/adapters/fixtures/sglang.msgpack"),
        ),
        (
            "sglang-pairs",
            include_bytes!("../../../crates/reach/adapters/fixtures/sglang-pairs.msgpack"),
        ),
    ];
    for (name, bytes) in fixtures {
        let ahead = if name == "sglang-pairs" { 4 } else { 0 };
        write("vllm_events", name, &[ahead], bytes)?;
        write(
            "vllm_events",
            &format!("{name}-missed"),
            &[0x28 | ahead],
            bytes,
        )?;
    }
    let token = |id: u32| json!({"type": "unique_token", "token_id": id, "token_extra_id": 0});
    let stored = |parent: Value, hash: Value, first: u32| {
        let tokens: Vec<Value> = (first..first + 2).map(token).collect();
        json!({"type": "stored", "parent_hash": parent, "blocks": [{"type": "stored_block",
            "block_hash": hash, "cache_level": 0, "priority": 35, "tokens": tokens}]})
    };
    let changes = [
        json!({"type": "created", "num_blocks_per_cache_level": [9, 0]}),
        stored(Value::Null, json!(11), 1),
        stored(json!(11), json!(-12), 3),
        stored(json!(-12), json!("name"), 5),
        json!({"type": "updated", "block_hash": 11, "cache_level": {"new_value": 1, "old_value": 0}}),
        json!({"type": "updated", "block_hash": 11, "cache_level": {"new_value": 0, "old_value": 1}}),
        json!({"type": "removed", "block_hashes": [11, "name"]}),
    ];
    let events = changes.into_iter().enumerate();
    let events = events.map(|(id, data)| json!({"event_id": id, "window_size": 64, "data": data}));
    let events = Value::Array(events.collect()).to_string();
    write("trtllm_events", "all", &[1], events.as_bytes())?;
    write("trtllm_events", "missed", &[0x21], events.as_bytes())
}

fn msgpack(value: &Value) -> Vec<u8> {
    rmp_serde::to_vec_named(value).expect("JSON is MessagePack")
}

fn dynamo() -> io::Result<()> {
    let change = |data: Value| {
        json!({"worker_id": 1, "storage_tier": "device", "residency_domain": "worker",
            "event": {"event_id": 3, "data": data, "dp_rank": 0}})
    };
    let events = json!([
        change(
            json!({"stored": {"parent_hash": 4, "start_position": null, "blocks":
            [{"block_hash": 5, "tokens_hash": 6, "mm_extra_info": null}]}})
        ),
        change(json!({"removed": {"block_hashes": [5, 4]}})),
        change(json!("cleared")),
    ]);
    for (name, payload) in [("events", &events), ("event", &events[0])] {
        let payload = json!({"publisher_id": 2, "sequence": 2, "topic": "kv-events",
            "payload": msgpack(payload)});
        let envelope = msgpack(&payload);
        let over_nats = format!("{name}-over-nats");
        write("dynamo_events", &over_nats, &[7 << 1], &envelope)?;
        let mut frame = vec![1];
        frame.extend((envelope.len() as u32).to_be_bytes());
        frame.extend(envelope);
        write("dynamo_events", name, &[0], &frame)?;
    }
    let greeting = br#"{"subject":"s1","stream_type":"response"}"#;
    let prologue = br#"{"error":null}"#;
    let frames = [
        two_part::encode(greeting, b""),
        two_part::encode(prologue, b""),
        two_part::encode(b"", b"body"),
        two_part::encode(br#""sentinel""#, b""),
    ];
    write("dynamo_events", "frames", &[1 << 1], &frames.concat())?;
    write("dynamo_events", "greeting", &[2 << 1], greeting)?;
    let output = json!({"data": {"data": {"token_ids": [1, 2], "log_probs": [-0.5, -1.0],
        "top_logprobs": [[{"token_id": 1, "logprob": -0.5}], []], "finish_reason": "eos",
        "completion_usage": {"prompt_tokens_details": {"cached_tokens": 3}}}, "event": null},
        "complete_final": false});
    let fault = json!({"data": {"event": "error", "comment": ["x"],
        "error": {"error_type": {"Backend": "x"}, "message": "no"}}});
    let dump = json!({"data": {"TreeDump": {"events": events, "last_event_id": 1}}});
    for (kind, name, value) in [
        (3, "output", output),
        (3, "fault", fault),
        (4, "dump", dump),
    ] {
        write(
            "dynamo_events",
            &format!("{name}-json"),
            &[kind << 1],
            value.to_string().as_bytes(),
        )?;
        write(
            "dynamo_events",
            &format!("{name}-msgpack"),
            &[kind << 1 | 1],
            &msgpack(&value),
        )?;
    }
    let refusal = b"\0\0\0\x09Server overloaded: full";
    write("dynamo_events", "refusal", &[5 << 1], refusal)?;
    let endpoint = json!({"type": "Endpoint", "namespace": "n", "component": "c",
        "endpoint": "generate", "instance_id": 1, "transport": {"tcp": "10.0.0.1:9/1b/generate"}});
    write(
        "dynamo_events",
        "endpoint",
        &[6 << 1],
        endpoint.to_string().as_bytes(),
    )
}

/// Tensors of the smallest model: their names in GGUF, rows and columns.
const TENSORS: [(&str, u64, u64); 11] = [
    ("token_embd", 4, 2),
    ("output_norm", 1, 2),
    ("blk.0.attn_norm", 1, 2),
    ("blk.0.attn_q", 2, 2),
    ("blk.0.attn_k", 2, 2),
    ("blk.0.attn_v", 2, 2),
    ("blk.0.attn_output", 2, 2),
    ("blk.0.ffn_norm", 1, 2),
    ("blk.0.ffn_gate", 2, 2),
    ("blk.0.ffn_up", 2, 2),
    ("blk.0.ffn_down", 2, 2),
];

fn models() -> io::Result<()> {
    let text = |text: &str| [&(text.len() as u64).to_le_bytes(), text.as_bytes()].concat();
    let array = |kind: u32, values: &[Vec<u8>]| {
        let count = (values.len() as u64).to_le_bytes();
        [&kind.to_le_bytes()[..], &count, &values.concat()].concat()
    };
    let mut values = vec![
        ("general.architecture", 8, text("llama")),
        ("tokenizer.ggml.model", 8, text("gpt2")),
        ("tokenizer.ggml.pre", 8, text("llama-bpe")),
        (
            "tokenizer.ggml.tokens",
            9,
            array(8, &["<e>", "a", "b", "ab"].map(text)),
        ),
        (
            "tokenizer.ggml.token_type",
            9,
            array(5, &[3_u32, 1, 1, 1].map(|kind| kind.to_le_bytes().to_vec())),
        ),
        ("tokenizer.ggml.merges", 9, array(8, &[text("a b")])),
        (
            "llama.attention.layer_norm_rms_epsilon",
            6,
            1e-5_f32.to_le_bytes().to_vec(),
        ),
    ];
    for (key, number) in [
        ("llama.block_count", 1_u32),
        ("llama.context_length", 8),
        ("llama.embedding_length", 2),
        ("llama.feed_forward_length", 2),
        ("llama.attention.head_count", 1),
        ("tokenizer.ggml.bos_token_id", 0),
        ("general.alignment", 8),
    ] {
        values.push((key, 4, number.to_le_bytes().to_vec()));
    }
    let mut file = [&b"GGUF"[..], &3_u32.to_le_bytes()].concat();
    file.extend((TENSORS.len() as u64).to_le_bytes());
    file.extend((values.len() as u64).to_le_bytes());
    for (key, kind, value) in values {
        file.extend([text(key), u32::to_le_bytes(kind).to_vec(), value].concat());
    }
    let mut offset = 0_u64;
    for (name, rows, columns) in TENSORS {
        file.extend(text(&format!("{name}.weight")));
        file.extend(2_u32.to_le_bytes());
        file.extend([columns, rows].map(u64::to_le_bytes).concat());
        file.extend(0_u32.to_le_bytes());
        file.extend(offset.to_le_bytes());
        offset += rows * columns * 4;
    }
    file.resize(file.len().next_multiple_of(8) + offset as usize, 0);
    write("gguf", "llama", b"", &file)?;
    let header = json!({"d2t": {"dtype": "I64", "shape": [1], "data_offsets": [0, 8]},
        "w": {"dtype": "BF16", "shape": [2, 3], "data_offsets": [8, 20]}});
    let file = [text(&header.to_string()), vec![7; 20]].concat();
    write("safetensors", "two", &[0], &file)?;
    let config = json!({"architectures": ["LlamaForCausalLM"], "model_type": "llama",
        "hidden_size": 8, "intermediate_size": 8, "num_hidden_layers": 1, "vocab_size": 4,
        "num_attention_heads": 2, "max_position_embeddings": 8, "rms_norm_eps": 1e-5,
        "rope_parameters": {"rope_type": "llama3", "rope_theta": 5e5, "factor": 8.0,
        "low_freq_factor": 1.0, "high_freq_factor": 4.0,
        "original_max_position_embeddings": 8192}});
    write("safetensors", "config", &[1], config.to_string().as_bytes())
}

/// The bytes are decisions, see the target.
fn router() -> io::Result<()> {
    // Worker 0 stores four blocks, requests follow them, some end and worker 1 leaves.
    let story = [
        &[0, 1, 0, 1, 0, 4 | 4 << 3, 1, 0][..],
        &[8, 4, 1, 1, 3, 9, 4, 1, 0, 3, 8, 12, 5, 5, 3],
        &[10, 0, 0, 32, 15, 20, 10, 0, 2, 5, 11, 0],
        &[7, 0, 1, 15, 200, 12, 0],
    ];
    write("router_feed", "story", b"", &story.concat())?;
    // A gap, a snapshot, a head beyond it, another life.
    let gaps = [
        &[
            0,
            1,
            0,
            1,
            0,
            4 | 2 << 3,
            1,
            0,
            0,
            1,
            0,
            1,
            5,
            1 | 1 << 3,
            1,
            0,
        ][..],
        &[3, 0, 1, 5, 2, 1, 0, 1, 1, 2, 0, 1, 9, 3, 0, 1, 9, 1, 4, 0],
        &[0, 1, 0, 2, 0, 4 | 1 << 3, 6, 9, 3, 0, 2, 1, 1, 6, 9],
    ];
    write("router_feed", "gaps", b"", &gaps.concat())?;
    // Leases and loads of others, workers that join and drain, a full house and its queue.
    let crowd = [
        &[4, 0, 2, 1, 8, 1, 1, 0, 5, 0, 1, 1, 6, 1, 2, 3][..],
        &[
            7, 3, 2, 0, 50, 14, 0, 8, 1, 1, 0, 0, 8, 1, 1, 0, 0, 8, 1, 1, 0, 0,
        ],
        &[8, 1, 1, 16, 0, 8, 1, 1, 0, 0, 8, 1, 1, 0, 0, 8, 1, 1, 0, 0],
        &[7, 2, 0, 13, 0, 11, 0, 11, 0, 7, 1, 1],
    ];
    write("router_feed", "crowd", b"", &crowd.concat())
}

/// A whole stream of a publisher's and one of a listener's.
fn peers() -> io::Result<()> {
    use zmtp::codec::{Kind, encode, encode_message, greeting, ready};
    for (name, kind, parts) in [
        (
            "publisher",
            Kind::Pub,
            &[&b"kv"[..], &[0; 8], &[7; 260]][..],
        ),
        ("listener", Kind::Sub, &[&b"\x01kv"[..]][..]),
    ] {
        let mut frames = bytes::BytesMut::new();
        encode(&ready(kind), &mut frames);
        let parts: Vec<_> = parts
            .iter()
            .map(|part| bytes::Bytes::from(part.to_vec()))
            .collect();
        encode_message(&parts, &mut frames);
        write("zmtp", name, &[5], &frames)?;
    }
    write("zmtp", "greeting", &[64], &greeting())
}
