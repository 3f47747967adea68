"""What the makers of golden values share: random weights, runs of a model, compact files."""

import json
import pathlib

import torch
from safetensors.torch import save_file

GOLDEN = pathlib.Path(__file__).parents[2] / "crates/engines/llama/tests/golden"
PROMPT_TOKENS = 40
GREEDY_TOKENS = 24
# A smaller gap between the best two logits could be bridged by another order of additions.
SMALLEST_MARGIN = 0.02


class Random:
    """Weights with a spread: flat logits and flat attention would hide mistakes."""

    def __init__(self, seed):
        self.generator = torch.Generator().manual_seed(seed)

    def normal(self, *shape):
        return torch.randn(shape, generator=self.generator)

    def matrix(self, rows, columns, gain=1.0):
        """Keeps the size of what goes through, times `gain`."""
        return self.normal(rows, columns) * gain / columns**0.5

    def norm(self, width):
        return 1.0 + 0.25 * self.normal(width)

    def tokens(self, count, vocabulary):
        return torch.randint(vocabulary, (count,), generator=self.generator).tolist()


@torch.no_grad()
def run(model, tokens):
    """Logits of every position, and the residual stream on entry to every layer."""
    output = model(torch.tensor([tokens]), output_hidden_states=True, use_cache=False)
    # The last one has gone through the final norm, and is no entry to a layer.
    entries = [hidden[0] for hidden in output.hidden_states[:-1]]
    return output.logits[0], entries


def margin(logits):
    best = torch.topk(logits, 2).values
    return (best[0] - best[1]).item()


def numbers(values):
    return [round(value, 5) for value in values.tolist()]


def dump(path, value):
    """One line for each key or case, and no spaces that nobody reads."""
    lines = [f"{json.dumps(key)}:{compact(value[key])}" for key in value]
    path.write_text("{\n" + ",\n".join(lines) + "\n}\n")


def compact(value):
    if isinstance(value, list) and isinstance(value[0], dict):
        return "[\n" + ",\n".join(map(compact, value)) + "\n]"
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def dump_config(path, config):
    path.write_text(json.dumps(config, indent=2) + "\n")


def save(tensors, path):
    save_file(tensors, path, {"format": "pt"})
    # Written for its owner alone otherwise.
    path.chmod(0o644)
