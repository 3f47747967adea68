"""Greedy answers of SmolLM2-135M-Instruct in float32, from the weights of a GGUF file.

    python tools/golden/smollm2.py SmolLM2-135M-Instruct.Q4_1.gguf

The weights are those of the file, dequantised, so that another engine with the same file has to
find the same tokens. The margins show where rounding may decide otherwise.
"""

import argparse
import hashlib
import pathlib

import torch

from common import GOLDEN, dump, margin
from gguf_model import Gguf
from prompts import CHATS, TEXTS

ANSWER_TOKENS = 64


@torch.no_grad()
def greedy(model, prompt):
    """The end of the answer is a token like others: every answer has the same length."""
    output = model(torch.tensor([prompt]), use_cache=True)
    tokens, margins = [], []
    for _ in range(ANSWER_TOKENS):
        logits = output.logits[0, -1]
        tokens.append(logits.argmax().item())
        margins.append(round(margin(logits), 4))
        output = model(torch.tensor([tokens[-1:]]), past_key_values=output.past_key_values, use_cache=True)
    return tokens, margins


def main():
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("gguf", type=pathlib.Path)
    arguments.add_argument("--output", type=pathlib.Path, default=GOLDEN / "smollm2.json")
    options = arguments.parse_args()
    gguf = Gguf(options.gguf)
    model, tokenizer = gguf.model(), gguf.tokenizer()
    cases = []
    texts = [gguf.chat(turns) for turns in CHATS] + TEXTS
    for number, text in enumerate(texts):
        prompt = tokenizer.encode(text, add_special_tokens=False).ids
        assert tokenizer.decode(prompt, skip_special_tokens=False) == text
        tokens, margins = greedy(model, prompt)
        cases.append({"text": text, "prompt": prompt, "greedy": tokens, "margins": margins})
        answer = tokenizer.decode(tokens, skip_special_tokens=False)
        print(f"{number}: {len(prompt)} tokens, smallest margin {min(margins)}: {answer!r}", flush=True)
    digest = hashlib.sha256(options.gguf.read_bytes()).hexdigest()
    dump(options.output, {"file": options.gguf.name, "sha256": digest, "cases": cases})


if __name__ == "__main__":
    main()
