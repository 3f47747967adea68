"""EAGLE-3 heads with random weights for `llama-gqa`, and what a reference of the head computes.

The reference is plain and keeps no cache: each step recomputes the whole sequence of inputs.
"""

import shutil

import torch
from safetensors.torch import load_file
from torch.nn.functional import silu

from common import GOLDEN, PROMPT_TOKENS, SMALLEST_MARGIN
from common import Random, dump, dump_config, margin, numbers, run, save

DRAFT_VOCABULARY = 80
DRAFTED = 5
FIRST_PASS_POSITIONS = [0, 1, 17, PROMPT_TOKENS - 1]


class Head:
    """The head as its files describe it, in float32."""

    def __init__(self, folder, config, target_embeddings):
        tensors = {
            name: tensor.float() if tensor.is_floating_point() else tensor
            for name, tensor in load_file(folder / "model.safetensors").items()
        }
        self.layer_prefix = "midlayer." if "midlayer.hidden_norm.weight" in tensors else "layers.0."
        self.tensors = tensors
        self.shape = config.get("transformer_layer_config", config)
        self.embeddings = tensors.get("embed_tokens.weight", target_embeddings)
        self.norm_before_residual = config.get("norm_before_residual", False)

    def fuse(self, taps):
        """Three states of the target, low to high, become one of the head."""
        return torch.cat(taps, dim=-1) @ self.tensors["fc.weight"].T

    def layer(self, hidden, tokens):
        """`hidden[i]` belongs to position i, `tokens[i]` is the token at position i + 1."""
        embedded = self.norm("input_layernorm.weight", self.embeddings[tokens])
        normed = self.norm("hidden_norm.weight", hidden)
        residual = normed if self.norm_before_residual else hidden
        residual = residual + self.attention(torch.cat([embedded, normed], dim=-1))
        inner = self.norm("post_attention_layernorm.weight", residual)
        gate = silu(inner @ self.of_layer("mlp.gate_proj.weight").T)
        up = inner @ self.of_layer("mlp.up_proj.weight").T
        return residual + (gate * up) @ self.of_layer("mlp.down_proj.weight").T

    def logits(self, output):
        """Over the draft vocabulary."""
        return self.scale("norm.weight", output) @ self.tensors["lm_head.weight"].T

    def target_token(self, draft_token):
        return draft_token + self.tensors["d2t"][draft_token].item()

    def attention(self, inputs):
        length, size = len(inputs), self.shape["head_dim"]
        heads, kv_heads = self.shape["num_attention_heads"], self.shape["num_key_value_heads"]
        project = lambda name, count: (
            (inputs @ self.of_layer(f"self_attn.{name}_proj.weight").T)
            .view(length, count, size)
            .transpose(0, 1)
        )
        queries, keys = self.rotate(project("q", heads)), self.rotate(project("k", kv_heads))
        keys = keys.repeat_interleave(heads // kv_heads, dim=0)
        values = project("v", kv_heads).repeat_interleave(heads // kv_heads, dim=0)
        scores = queries @ keys.transpose(1, 2) / size**0.5
        future = torch.ones(length, length, dtype=torch.bool).triu(1)
        mixed = scores.masked_fill(future, -torch.inf).softmax(dim=-1) @ values
        return mixed.transpose(0, 1).reshape(length, -1) @ self.of_layer("self_attn.o_proj.weight").T

    def rotate(self, heads):
        """Components i and i + half turn together, by the position of the hidden state."""
        _, length, size = heads.shape
        powers = torch.arange(0, size, 2, dtype=torch.float64) / size
        angles = torch.outer(torch.arange(length).double(), self.theta() ** -powers)
        cosine, sine = angles.cos().float(), angles.sin().float()
        low, high = heads.chunk(2, dim=-1)
        return torch.cat([low * cosine - high * sine, high * cosine + low * sine], dim=-1)

    def theta(self):
        rope = self.shape.get("rope_parameters") or self.shape
        return rope["rope_theta"]

    def norm(self, name, values):
        return self.scale(self.layer_prefix + name, values)

    def scale(self, name, values):
        mean = values.square().mean(dim=-1, keepdim=True)
        return values * torch.rsqrt(mean + self.shape["rms_norm_eps"]) * self.tensors[name]

    def of_layer(self, name):
        return self.tensors[self.layer_prefix + name]


def shape(hidden, feed_forward, heads, kv_heads, head_dim):
    return {
        "model_type": "llama",
        "hidden_act": "silu",
        "attention_bias": False,
        "hidden_size": hidden,
        "intermediate_size": feed_forward,
        "num_hidden_layers": 1,
        "num_attention_heads": heads,
        "num_key_value_heads": kv_heads,
        "head_dim": head_dim,
        "max_position_embeddings": 256,
        "rms_norm_eps": 1e-5,
        "vocab_size": 128,
        "tie_word_embeddings": False,
    }


# As wide as the target, and with the target's embeddings. The taps are the usual ones.
SHARED = {"architectures": ["LlamaForCausalLMEagle3"]} | shape(64, 80, 4, 2, 16) | {
    "rope_theta": 10000.0,
    "draft_vocab_size": DRAFT_VOCABULARY,
    "torch_dtype": "bfloat16",
}

# Narrower than the target, so with embeddings of its own.
OWN = {"architectures": ["LlamaForCausalLMEagle3"]} | shape(48, 64, 3, 1, 16) | {
    "rope_theta": 500000.0,
    "draft_vocab_size": DRAFT_VOCABULARY,
    "target_hidden_size": 64,
    "eagle_aux_hidden_state_layer_ids": [2, 3, 4],
    "torch_dtype": "float32",
}

# The layer's shape is in a config of its own, the residual is taken after the norm, other taps.
SPECULATORS = {
    "architectures": ["Eagle3Speculator"],
    "speculators_model_type": "eagle3",
    "draft_vocab_size": DRAFT_VOCABULARY,
    "target_hidden_size": 64,
    "norm_before_residual": True,
    "eagle_aux_hidden_state_layer_ids": [1, 3, 6],
    "torch_dtype": "bfloat16",
    "transformer_layer_config": shape(32, 48, 2, 1, 16)
    | {"rope_parameters": {"rope_type": "default", "rope_theta": 10000.0}},
}

# Name, config, prefix of the layer, whether embeddings are in the file, seed.
HEADS = [
    ("eagle3-shared", SHARED, "midlayer.", False, 31),
    ("eagle3-own", OWN, "layers.0.", True, 27),
    ("eagle3-speculators", SPECULATORS, "layers.0.", True, 25),
]


def weights(config, prefix, own_embeddings, random):
    of_layer = config.get("transformer_layer_config", config)
    hidden, inner = of_layer["hidden_size"], of_layer["intermediate_size"]
    queries = of_layer["num_attention_heads"] * of_layer["head_dim"]
    keys = of_layer["num_key_value_heads"] * of_layer["head_dim"]
    kept = torch.randperm(of_layer["vocab_size"], generator=random.generator)[:DRAFT_VOCABULARY]
    kept = kept.sort().values
    known = torch.zeros(of_layer["vocab_size"], dtype=torch.bool)
    known[kept] = True
    tensors = {
        "fc.weight": random.matrix(hidden, 3 * config.get("target_hidden_size", hidden)),
        prefix + "hidden_norm.weight": random.norm(hidden),
        prefix + "input_layernorm.weight": random.norm(hidden),
        prefix + "post_attention_layernorm.weight": random.norm(hidden),
        prefix + "self_attn.q_proj.weight": random.matrix(queries, 2 * hidden, 1.5),
        prefix + "self_attn.k_proj.weight": random.matrix(keys, 2 * hidden, 1.5),
        prefix + "self_attn.v_proj.weight": random.matrix(keys, 2 * hidden, 2.0),
        prefix + "self_attn.o_proj.weight": random.matrix(hidden, queries, 2.0),
        prefix + "mlp.gate_proj.weight": random.matrix(inner, hidden, 1.5),
        prefix + "mlp.up_proj.weight": random.matrix(inner, hidden, 1.5),
        prefix + "mlp.down_proj.weight": random.matrix(hidden, inner, 1.5),
        "norm.weight": random.norm(hidden),
        "lm_head.weight": random.matrix(DRAFT_VOCABULARY, hidden, 3.0),
        "d2t": kept - torch.arange(DRAFT_VOCABULARY),
        "t2d": known,
    }
    if own_embeddings:
        tensors["embed_tokens.weight"] = random.normal(of_layer["vocab_size"], hidden)
    return tensors


def write(folder, config, tensors):
    kind = getattr(torch, config["torch_dtype"])
    stored = {
        name: tensor.to(kind).contiguous() if tensor.is_floating_point() else tensor
        for name, tensor in tensors.items()
    }
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    dump_config(folder / "config.json", config)
    save(stored, folder / "model.safetensors")


@torch.no_grad()
def golden(head, target, prompt, layers):
    logits, entries = run(target, prompt)
    next_token = logits[-1].argmax().item()
    # The token beside a hidden state is the one that follows it.
    hidden, tokens = head.fuse([entries[layer] for layer in layers]), prompt[1:] + [next_token]
    chain, steps, margins = [], [], []
    for step in range(DRAFTED):
        output = head.layer(hidden, tokens)
        if step == 0:
            first = head.logits(output)
        last = head.logits(output[-1])
        chain.append(head.target_token(last.argmax().item()))
        steps.append(numbers(last))
        margins.append(margin(last))
        # Earlier inputs stay as they are: their keys and values would be in the cache.
        hidden, tokens = torch.cat([hidden, output[-1:]]), tokens + [chain[-1]]
    return {
        "target": "llama-gqa",
        "layers_entered": layers,
        "prompt": prompt,
        "next_token": next_token,
        "chain": chain,
        "smallest_margin": round(min(margins), 4),
        "chain_logits": steps,
        "first_pass_positions": FIRST_PASS_POSITIONS,
        "first_pass_logits": [numbers(first[position]) for position in FIRST_PASS_POSITIONS],
    }


def taps(config, target):
    layers = target.config.num_hidden_layers
    return config.get("eagle_aux_hidden_state_layer_ids", [2, layers // 2, layers - 3])


def make(name, config, prefix, own_embeddings, seed, target, prompt):
    write(GOLDEN / name, config, weights(config, prefix, own_embeddings, Random(seed)))
    head = Head(GOLDEN / name, config, target.model.embed_tokens.weight)
    values = golden(head, target, prompt, taps(config, target))
    assert values["smallest_margin"] > SMALLEST_MARGIN, f"{name}: a near tie, take another seed"
    dump(GOLDEN / name / "golden.json", values)
    return values
