"""The target: a Llama in a few lines of torch, for whole sequences and for many answers at once."""

import torch
from torch.nn import functional

PARTS = ["attn_norm", "attn_output", "ffn_norm", "ffn_down"]


class Target:
    def __init__(self, shape, tensors, device, kind):
        self.shape, self.device, self.kind = shape, device, kind
        load = lambda name: torch.from_numpy(tensors[name].copy()).to(device, kind)
        self.embeddings = load("token_embd.weight")
        self.norm = load("output_norm.weight")
        self.output = load("output.weight") if "output.weight" in tensors else self.embeddings
        self.layers = []
        for number in range(shape.layers):
            of_layer = lambda part: load(f"blk.{number}.{part}.weight")
            layer = {part: of_layer(part) for part in PARTS}
            layer["qkv"] = torch.cat([of_layer("attn_q"), of_layer("attn_k"), of_layer("attn_v")])
            layer["gate_up"] = torch.cat([of_layer("ffn_gate"), of_layer("ffn_up")])
            self.layers.append(layer)
        self.turns = rope_turns(shape, device)

    def scale(self, values, weight):
        return functional.rms_norm(values, (self.shape.hidden,), weight, self.shape.norm_epsilon)

    def layer(self, stream, layer, turns, attend):
        batch, length, _ = stream.shape
        shape = self.shape
        qkv = functional.linear(self.scale(stream, layer["attn_norm"]), layer["qkv"])
        qkv = qkv.view(batch, length, -1, shape.head_size).transpose(1, 2)
        queries, keys, values = qkv.split([shape.heads, shape.kv_heads, shape.kv_heads], dim=1)
        mixed = attend(rotate(queries, turns), rotate(keys, turns), values)
        mixed = mixed.transpose(1, 2).reshape(batch, length, shape.hidden)
        stream = stream + functional.linear(mixed, layer["attn_output"])
        inner = functional.linear(self.scale(stream, layer["ffn_norm"]), layer["gate_up"])
        gate, up = inner.chunk(2, dim=-1)
        return stream + functional.linear(functional.silu(gate) * up, layer["ffn_down"])

    def repeated(self, heads):
        return heads.repeat_interleave(self.shape.heads // self.shape.kv_heads, dim=1)

    @torch.no_grad()
    def forward(self, tokens, taps=()):
        """Whole sequences that begin at position 0: final hidden states, and those at the taps.

        What fills short sequences up comes last, so that no real token sees it.
        """
        stream, tapped = self.embeddings[tokens], []
        turns = self.turns[: tokens.shape[1]]
        attend = lambda queries, keys, values: functional.scaled_dot_product_attention(
            queries, self.repeated(keys), self.repeated(values), is_causal=True
        )
        for number, layer in enumerate(self.layers):
            if number in taps:
                tapped.append(stream)
            stream = self.layer(stream, layer, turns, attend)
        return self.scale(stream, self.norm), tapped

    def logits(self, hidden):
        return functional.linear(hidden, self.output)


class Session:
    """Many answers that grow together, with their keys and values."""

    def __init__(self, target, prompts, new_tokens):
        """What fills short prompts up comes first, so that all answers begin at one place."""
        self.target = target
        longest = -(-max(map(len, prompts)) // 8) * 8
        rows = [[0] * (longest - len(prompt)) + prompt for prompt in prompts]
        self.tokens = torch.tensor(rows, device=target.device)
        self.fill = torch.tensor([longest - len(prompt) for prompt in prompts], device=target.device)
        shape = target.shape
        room = (len(prompts), shape.kv_heads, longest + new_tokens, shape.head_size)
        empty = lambda: torch.zeros(room, device=target.device, dtype=target.kind)
        self.cache = [(empty(), empty()) for _ in target.layers]
        self.length = longest

    @torch.no_grad()
    def prefill(self):
        """Logits after the prompts."""
        target, length = self.target, self.length
        places = torch.arange(length, device=target.device)
        real = places >= self.fill[:, None]
        causal = places[:, None] >= places
        # A filler sees itself, because a row that sees nothing has no softmax.
        mask = (causal & real[:, None, :]) | torch.eye(length, dtype=torch.bool, device=target.device)
        turns = target.turns[(places - self.fill[:, None]).clamp(min=0)][:, None]

        def attend_in(cache):
            def attend(queries, keys, values):
                cache[0][:, :, :length], cache[1][:, :, :length] = keys, values
                return functional.scaled_dot_product_attention(
                    queries, target.repeated(keys), target.repeated(values), attn_mask=mask[:, None]
                )

            return attend

        stream = target.embeddings[self.tokens]
        for layer, cache in zip(target.layers, self.cache):
            stream = target.layer(stream, layer, turns, attend_in(cache))
        return target.logits(target.scale(stream[:, -1], target.norm))

    @torch.no_grad()
    def step(self, tokens):
        """Logits after one more token of each."""
        target, at = self.target, self.length
        self.length += 1
        turns = target.turns[at - self.fill][:, None, None]
        hidden_places = torch.arange(self.length, device=target.device) < self.fill[:, None]
        bias = torch.zeros_like(hidden_places, dtype=torch.float32).masked_fill(hidden_places, -torch.inf)

        def attend_in(cache):
            def attend(queries, keys, values):
                cache[0][:, :, at : at + 1], cache[1][:, :, at : at + 1] = keys, values
                return one_query(queries, cache[0][:, :, : at + 1], cache[1][:, :, : at + 1], bias)

            return attend

        stream = target.embeddings[tokens][:, None]
        for layer, cache in zip(target.layers, self.cache):
            stream = target.layer(stream, layer, turns, attend_in(cache))
        return target.logits(target.scale(stream[:, 0], target.norm))


def one_query(queries, keys, values, bias):
    """Heads that share keys are rows of one product, so that nothing is repeated in memory."""
    batch, heads, _, size = queries.shape
    grouped = queries.view(batch, keys.shape[1], -1, size)
    scores = (grouped @ keys.transpose(2, 3)).float() * size**-0.5 + bias[:, None, None]
    return (scores.softmax(dim=-1).to(values.dtype) @ values).view(batch, heads, 1, size)


def rope_turns(shape, device):
    """Cosines and sines of every position, as pairs in the last dimension but one."""
    powers = torch.arange(0, shape.head_size, 2, dtype=torch.float64) / shape.head_size
    angles = torch.outer(torch.arange(shape.context).double(), shape.rope_theta**-powers)
    return torch.stack([angles.cos(), angles.sin()], dim=-2).float().to(device)


def rotate(heads, turns):
    low, high = heads.float().chunk(2, dim=-1)
    cosine, sine = turns[..., 0, :], turns[..., 1, :]
    return torch.cat([low * cosine - high * sine, high * cosine + low * sine], dim=-1).to(heads.dtype)


@torch.no_grad()
def generate(target, prompts, temperatures, new_tokens, end):
    """One answer for each prompt, up to and with its end. A temperature of 0 takes the best token."""
    session = Session(target, prompts, new_tokens)
    heat = torch.tensor(temperatures, device=target.device)[:, None]
    divisor, noisy = torch.where(heat > 0, heat, 1.0), heat > 0
    logits, answers = session.prefill(), []
    ended = torch.zeros(len(prompts), dtype=torch.bool, device=target.device)
    for number in range(new_tokens):
        # The best of logits with Gumbel's noise is a sample of their softmax.
        noise = -torch.empty_like(logits, dtype=torch.float32).exponential_().log()
        tokens = (logits.float() / divisor + noise * noisy).argmax(dim=-1)
        answers.append(tokens)
        ended |= tokens == end
        # Asking the device costs time, so not after every token.
        if number + 1 == new_tokens or (number % 16 == 15 and bool(ended.all())):
            break
        logits = session.step(tokens)
    return [up_to(answer, end) for answer in torch.stack(answers, dim=1).tolist()]


def up_to(answer, end):
    return answer[: answer.index(end) + 1] if end in answer else answer
