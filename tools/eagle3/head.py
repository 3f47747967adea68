"""The EAGLE-3 head: its layer, its unrolled steps in training, its files.

Row j of a sequence stands for position j. It gets a hidden state of position j and the embedding
of the token at j + 1, and its logits are for the token at j + 2. In step 0 the hidden state comes
from the target; in step s it is the head's own output of step s - 1 at row j - 1, as when a chain
is drafted that began s rows earlier.
"""

import json

import torch
from safetensors.torch import load_file, save_file
from torch import nn
from torch.nn import functional

from target import rope_turns, rotate


class Norm(nn.Module):
    def __init__(self, width, epsilon):
        super().__init__()
        self.weight, self.epsilon = nn.Parameter(torch.ones(width)), epsilon

    def forward(self, values):
        return functional.rms_norm(values.float(), self.weight.shape, self.weight, self.epsilon)


def linear(inputs, outputs):
    layer = nn.Linear(inputs, outputs, bias=False)
    nn.init.normal_(layer.weight, std=inputs**-0.5)
    return layer


class Attention(nn.Module):
    def __init__(self, shape):
        super().__init__()
        self.kv_heads, self.size = shape.kv_heads, shape.head_size
        self.q_proj = linear(2 * shape.hidden, shape.heads * shape.head_size)
        self.k_proj = linear(2 * shape.hidden, shape.kv_heads * shape.head_size)
        self.v_proj = linear(2 * shape.hidden, shape.kv_heads * shape.head_size)
        self.o_proj = linear(shape.heads * shape.head_size, shape.hidden)

    def forward(self, inputs, turns, memory):
        """`memory` holds keys and values of the steps so far, and gets those of this one.

        A chain that is in step s at row j began at row j - s: up to there it sees the keys of
        step 0, and then one key of each later step, on the way from there to here.
        """
        batch, length, _ = inputs.shape
        heads = lambda values: values.view(batch, length, -1, self.size).transpose(1, 2)
        queries = rotate(heads(self.q_proj(inputs)), turns)
        memory.append((rotate(heads(self.k_proj(inputs)), turns), heads(self.v_proj(inputs))))
        step, (keys, values) = len(memory) - 1, memory[0]
        # Heads that share keys are rows of one product.
        group = queries.shape[1] // self.kv_heads
        queries = queries.reshape(batch, self.kv_heads, group * length, self.size)
        visible = torch.ones(length, length, dtype=torch.bool, device=inputs.device).tril(-step)
        scores = (queries @ keys.transpose(2, 3)).float().masked_fill(~visible.repeat(group, 1), -torch.inf)
        on_the_way = [
            (shifted(later_keys, step - number).repeat(1, 1, group, 1), shifted(later_values, step - number))
            for number, (later_keys, later_values) in enumerate(memory)
            if number > 0
        ]
        beside = [(queries.float() * later_keys.float()).sum(-1, keepdim=True) for later_keys, _ in on_the_way]
        shares = (torch.cat([scores, *beside], dim=-1) * self.size**-0.5).softmax(dim=-1).to(values.dtype)
        mixed = shares[..., :length] @ values
        for number, (_, later_values) in enumerate(on_the_way):
            mixed = mixed + shares[..., length + number, None] * later_values.repeat(1, 1, group, 1)
        mixed = mixed.view(batch, -1, length, self.size).transpose(1, 2)
        return self.o_proj(mixed.reshape(batch, length, -1))


class FeedForward(nn.Module):
    def __init__(self, shape):
        super().__init__()
        self.gate_proj = linear(shape.hidden, shape.feed_forward)
        self.up_proj = linear(shape.hidden, shape.feed_forward)
        self.down_proj = linear(shape.feed_forward, shape.hidden)

    def forward(self, values):
        return self.down_proj(functional.silu(self.gate_proj(values)) * self.up_proj(values))


class Layer(nn.Module):
    def __init__(self, shape):
        super().__init__()
        norm = lambda: Norm(shape.hidden, shape.norm_epsilon)
        self.input_layernorm, self.hidden_norm, self.post_attention_layernorm = norm(), norm(), norm()
        self.self_attn, self.mlp = Attention(shape), FeedForward(shape)

    def forward(self, embedded, hidden, turns, memory):
        inputs = torch.cat([self.input_layernorm(embedded), self.hidden_norm(hidden)], dim=-1)
        hidden = hidden + self.self_attn(inputs, turns, memory).float()
        return hidden + self.mlp(self.post_attention_layernorm(hidden)).float()


class Head(nn.Module):
    """Parameters have the names of the public files."""

    def __init__(self, shape, embeddings, draft_ids):
        super().__init__()
        self.shape = shape
        self.midlayer = Layer(shape)
        self.norm = Norm(shape.hidden, shape.norm_epsilon)
        self.fc = linear(3 * shape.hidden, shape.hidden)
        self.lm_head = nn.Linear(shape.hidden, len(draft_ids), bias=False)
        self.register_buffer("embeddings", embeddings, persistent=False)
        self.register_buffer("draft_ids", draft_ids, persistent=False)
        self.register_buffer("turns", rope_turns(shape, "cpu"), persistent=False)
        # Some channels of the target are a hundred times larger than others.
        self.register_buffer("tap_size", torch.ones(3 * shape.hidden), persistent=False)

    def unroll(self, taps, following, steps):
        """Outputs of every step; `following[:, j]` is the token at j + 1."""
        embedded, turns = self.embeddings[following].float(), self.turns[: following.shape[1]]
        hidden = self.fc(taps.float() / self.tap_size).float()
        memory, outputs = [], []
        for _ in range(steps):
            output = self.midlayer(embedded, hidden, turns, memory)
            outputs.append(output)
            hidden = shifted(output[:, None], 1)[:, 0]
        return outputs

    def logits(self, output):
        return self.lm_head(self.norm(output))

    def start_from(self, target, taps):
        """Begins with the target's own output layer, and with taps of equal size."""
        with torch.no_grad():
            self.lm_head.weight.copy_(target.output[self.draft_ids])
            self.norm.weight.copy_(target.norm)
            # Position 0 is far off in many models.
            self.tap_size.copy_(taps[:, 1:].float().square().mean(dim=(0, 1)).sqrt().clamp(min=1e-4))

    def start_again(self, folder):
        """From an earlier run's files, after `start_from`."""
        stored = load_file(folder / "model.safetensors")
        assert torch.equal(target_ids(stored["d2t"]), self.draft_ids.cpu()), "another draft vocabulary"
        stored = {name: tensor for name, tensor in stored.items() if name not in {"d2t", "t2d"}}
        stored["fc.weight"] = stored["fc.weight"].float() * self.tap_size.cpu()
        self.load_state_dict(stored)

    def save(self, folder, taps):
        folder.mkdir(parents=True, exist_ok=True)
        tensors = {name: tensor.detach() for name, tensor in self.state_dict().items()}
        tensors["fc.weight"] = tensors["fc.weight"] / self.tap_size
        tensors = {name: tensor.to("cpu", torch.bfloat16).contiguous() for name, tensor in tensors.items()}
        draft_ids = self.draft_ids.cpu()
        tensors["d2t"] = draft_ids - torch.arange(len(draft_ids))
        tensors["t2d"] = torch.zeros(self.shape.vocabulary, dtype=torch.bool)
        tensors["t2d"][draft_ids] = True
        save_file(tensors, folder / "model.safetensors", {"format": "pt"})
        # Written for its owner alone otherwise.
        (folder / "model.safetensors").chmod(0o644)
        config = json.dumps(self.config(taps), indent=2)
        (folder / "config.json").write_text(config + "\n")

    def config(self, taps):
        shape = self.shape
        return {
            "architectures": ["LlamaForCausalLMEagle3"],
            "model_type": "llama",
            "hidden_act": "silu",
            "attention_bias": False,
            "hidden_size": shape.hidden,
            "target_hidden_size": shape.hidden,
            "intermediate_size": shape.feed_forward,
            "num_hidden_layers": 1,
            "num_attention_heads": shape.heads,
            "num_key_value_heads": shape.kv_heads,
            "head_dim": shape.head_size,
            "max_position_embeddings": shape.context,
            "rms_norm_eps": shape.norm_epsilon,
            "rope_theta": shape.rope_theta,
            "vocab_size": shape.vocabulary,
            "draft_vocab_size": len(self.draft_ids),
            "eagle_aux_hidden_state_layer_ids": taps,
            "tie_word_embeddings": False,
            "torch_dtype": "bfloat16",
        }


def load(folder, shape, embeddings, device):
    """As an engine would: from the files alone, in float32."""
    stored = load_file(folder / "model.safetensors")
    head = Head(shape, embeddings.cpu(), target_ids(stored.pop("d2t")))
    stored.pop("t2d")
    head.load_state_dict(stored)
    return head.to(device)


def target_ids(offsets):
    return offsets + torch.arange(len(offsets))


def shifted(rows, count):
    """Row j becomes row j + count; the first ones are empty. Rows are the last dimension but one."""
    if count == 0:
        return rows
    return functional.pad(rows, (0, 0, count, 0))[..., : rows.shape[-2], :]
