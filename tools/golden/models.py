"""Tiny random models of the families that the engine knows, in Hugging Face's folder layout.

A folder is written first and read back by transformers, so that the golden values come from
exactly what the files say. The differences between the models are those that real files show:
tied or own output layers, one file or several, float32 or bfloat16, old and new keys of RoPE.
"""

import json
import shutil

import torch
from transformers import AutoModelForCausalLM

from common import GOLDEN, GREEDY_TOKENS, PROMPT_TOKENS, SMALLEST_MARGIN
from common import Random, dump, dump_config, margin, numbers, run, save

VOCABULARY = 128
POSITIONS = [0, 1, 7, 20, 36, 37, 38, 39]

LLAMA = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "attention_bias": False,
    "mlp_bias": False,
    "hidden_act": "silu",
    "bos_token_id": 1,
    "eos_token_id": 2,
    "rms_norm_eps": 1e-5,
    "vocab_size": VOCABULARY,
    "max_position_embeddings": 256,
}

QWEN2 = {
    "architectures": ["Qwen2ForCausalLM"],
    "model_type": "qwen2",
    "hidden_act": "silu",
    "bos_token_id": 1,
    "eos_token_id": 2,
    "rms_norm_eps": 1e-6,
    "vocab_size": VOCABULARY,
    "max_position_embeddings": 256,
    "use_sliding_window": False,
    "sliding_window": 256,
    "max_window_layers": 2,
}


def shape(hidden, feed_forward, layers, heads, kv_heads):
    return {
        "hidden_size": hidden,
        "intermediate_size": feed_forward,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "num_key_value_heads": kv_heads,
    }


# Seven layers: the fewest for which the taps of EAGLE-3 (2, L/2, L - 3) are three layers.
LLAMA_GQA = LLAMA | shape(64, 80, 7, 4, 2) | {
    "rope_theta": 10000.0,
    "rope_scaling": None,
    "tie_word_embeddings": False,
    "torch_dtype": "bfloat16",
}

# Wavelengths are 6, 20, 63 and longer: one stays, one is blended, the others are stretched.
LLAMA_ROPE_SCALED = LLAMA | shape(64, 64, 2, 4, 2) | {
    "head_dim": 16,
    "rope_theta": 10000.0,
    "rope_scaling": {
        "rope_type": "llama3",
        "factor": 8.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 32,
    },
    "tie_word_embeddings": True,
    "torch_dtype": "float32",
}

# Keys as transformers 5 writes them; three heads of 24 in a stream of 48.
LLAMA_HEAD_DIM = LLAMA | shape(48, 64, 2, 3, 1) | {
    "head_dim": 24,
    "rope_parameters": {"rope_type": "default", "rope_theta": 500000.0},
    "tie_word_embeddings": False,
    "dtype": "float32",
}

QWEN2_ODD = QWEN2 | shape(48, 64, 2, 6, 2) | {
    "rope_theta": 1000000.0,
    "tie_word_embeddings": True,
    "torch_dtype": "float32",
}

# Name, config, seed, files. Seeds are those whose greedy answers have no near tie.
MODELS = [
    ("llama-gqa", LLAMA_GQA, 10, 1),
    ("llama-rope-scaled", LLAMA_ROPE_SCALED, 6, 2),
    ("llama-head-dim", LLAMA_HEAD_DIM, 10, 1),
    ("qwen2", QWEN2_ODD, 8, 1),
]


def weights(config, random):
    hidden, feed_forward = config["hidden_size"], config["intermediate_size"]
    head = config.get("head_dim", hidden // config["num_attention_heads"])
    queries, keys = config["num_attention_heads"] * head, config["num_key_value_heads"] * head
    tied = config["tie_word_embeddings"]
    # A tied table must not make every token its own best successor.
    tensors = {"model.embed_tokens.weight": random.normal(VOCABULARY, hidden) * (0.25 if tied else 1)}
    for layer in range(config["num_hidden_layers"]):
        at = f"model.layers.{layer}."
        tensors[at + "input_layernorm.weight"] = random.norm(hidden)
        tensors[at + "self_attn.q_proj.weight"] = random.matrix(queries, hidden, 1.5)
        tensors[at + "self_attn.k_proj.weight"] = random.matrix(keys, hidden, 1.5)
        tensors[at + "self_attn.v_proj.weight"] = random.matrix(keys, hidden)
        if config["model_type"] == "qwen2":
            for name, width, size in [("q", queries, 0.7), ("k", keys, 0.7), ("v", keys, 0.3)]:
                tensors[at + f"self_attn.{name}_proj.bias"] = random.normal(width) * size
        tensors[at + "self_attn.o_proj.weight"] = random.matrix(hidden, queries, 1.5)
        tensors[at + "post_attention_layernorm.weight"] = random.norm(hidden)
        tensors[at + "mlp.gate_proj.weight"] = random.matrix(feed_forward, hidden, 1.5)
        tensors[at + "mlp.up_proj.weight"] = random.matrix(feed_forward, hidden)
        tensors[at + "mlp.down_proj.weight"] = random.matrix(hidden, feed_forward, 1.5)
    tensors["model.norm.weight"] = random.norm(hidden)
    if not tied:
        tensors["lm_head.weight"] = random.matrix(VOCABULARY, hidden, 3.0)
    return tensors


def write(folder, config, tensors, files):
    kind = getattr(torch, config.get("dtype", config.get("torch_dtype")))
    tensors = {name: tensor.to(kind).contiguous() for name, tensor in tensors.items()}
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    dump_config(folder / "config.json", config)
    if files == 1:
        save(tensors, folder / "model.safetensors")
        return
    names = sorted(tensors)
    cut = len(names) // files + 1
    where = {}
    for part in range(files):
        file = f"model-{part + 1:05}-of-{files:05}.safetensors"
        of_part = names[part * cut : (part + 1) * cut]
        save({name: tensors[name] for name in of_part}, folder / file)
        where |= {name: file for name in of_part}
    size = sum(tensor.nbytes for tensor in tensors.values())
    index = {"metadata": {"total_size": size}, "weight_map": where}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index, indent=1) + "\n")


def load(folder):
    model = AutoModelForCausalLM.from_pretrained(
        folder, dtype=torch.float32, attn_implementation="eager"
    )
    return model.eval()


def check_read_back(model, config, tensors):
    """The model in memory is the one of the files, and not a default with some of its weights."""
    state = model.state_dict()
    for name, tensor in tensors.items():
        kind = getattr(torch, config.get("dtype", config.get("torch_dtype")))
        assert torch.equal(state.pop(name), tensor.to(kind).to(torch.float32)), name
    state.pop("lm_head.weight", None)
    assert not state, f"not in the files: {sorted(state)}"
    assert model.lm_head.weight.dtype == torch.float32


def greedy(model, prompt):
    tokens, margins = list(prompt), []
    for _ in range(GREEDY_TOKENS):
        logits = run(model, tokens)[0][-1]
        tokens.append(logits.argmax().item())
        margins.append(margin(logits))
    return tokens[len(prompt) :], min(margins)


def golden(model, prompt):
    logits, entries = run(model, prompt)
    continuation, smallest = greedy(model, prompt)
    return {
        "prompt": prompt,
        "greedy": continuation,
        "smallest_margin": round(smallest, 4),
        "positions": POSITIONS,
        "logits": [numbers(logits[position]) for position in POSITIONS],
        "last_position_entering_layers": [numbers(entry[-1]) for entry in entries],
    }


def make(name, config, seed, files):
    random = Random(seed)
    tensors = weights(config, random)
    write(GOLDEN / name, config, tensors, files)
    model = load(GOLDEN / name)
    check_read_back(model, config, tensors)
    values = golden(model, random.tokens(PROMPT_TOKENS, VOCABULARY))
    assert values["smallest_margin"] > SMALLEST_MARGIN, f"{name}: a near tie, take another seed"
    dump(GOLDEN / name / "golden.json", values)
    return model, values
