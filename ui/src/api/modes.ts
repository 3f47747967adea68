// Generated from Rust by `cargo xtask codegen`: change crates/serve/router/src/mode/spec.rs.
export const MODES = [
  {
    "name": "kv",
    "label": "KV-aware",
    "reads_caches": true,
    "parameters": [],
    "terms": [
      {
        "key": "ttft_ms",
        "label": "first token",
        "about": "Expected time to this request's first token: what is pending there and what is not cached."
      },
      {
        "key": "queue_ms",
        "label": "queue",
        "about": "What this prompt and those that wait for their first token there cost each other."
      },
      {
        "key": "decode_ms",
        "label": "decodes",
        "about": "Time that this request costs the answers under way there."
      },
      {
        "key": "eviction_ms",
        "label": "eviction",
        "about": "Time to compute again what would be evicted from a full cache."
      },
      {
        "key": "wait_ms",
        "label": "wait",
        "about": "Time until a place in the batch is free."
      }
    ],
    "no_cost": null
  },
  {
    "name": "kv-blocks",
    "label": "KV blocks",
    "reads_caches": true,
    "parameters": [
      "overlap_score_weight",
      "router_temperature"
    ],
    "terms": [],
    "no_cost": null
  },
  {
    "name": "round-robin",
    "label": "Round robin",
    "reads_caches": false,
    "parameters": [],
    "terms": [],
    "no_cost": "No cost: workers take turns."
  },
  {
    "name": "random",
    "label": "Random",
    "reads_caches": false,
    "parameters": [],
    "terms": [],
    "no_cost": "No cost: a worker is drawn at random."
  },
  {
    "name": "least-loaded",
    "label": "Least loaded",
    "reads_caches": false,
    "parameters": [],
    "terms": [],
    "no_cost": "No cost: the worker with the smallest share of its slots taken."
  },
  {
    "name": "power-of-two",
    "label": "Power of two",
    "reads_caches": false,
    "parameters": [],
    "terms": [],
    "no_cost": "No cost: two workers are drawn and the less loaded one takes it."
  }
] as const;
