"""Writes the tiny golden models of crates/engines/llama, and their EAGLE-3 heads.

    python tools/golden/make.py

Needs torch, transformers, safetensors. Equal versions write equal files.
"""

import torch

import eagle
import models


def main():
    torch.set_num_threads(1)
    made = {}
    for name, config, seed, files in models.MODELS:
        made[name] = models.make(name, config, seed, files)
        values = made[name][1]
        print(f"{name}: margin {values['smallest_margin']}, greedy {values['greedy']}")
    target, values = made["llama-gqa"]
    for head in eagle.HEADS:
        drafted = eagle.make(*head, target, values["prompt"])
        print(f"{head[0]}: margin {drafted['smallest_margin']}, chain {drafted['chain']}")


if __name__ == "__main__":
    main()
