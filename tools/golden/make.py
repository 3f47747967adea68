"""Writes the tiny golden models of crates/llama, and their EAGLE-3 heads.

    python tools/golden/make.py

Needs torch, transformers, safetensors. Equal versions write equal files.
"""

import torch

import models


def main():
    torch.set_num_threads(1)
    for name, config, seed, files in models.MODELS:
        _, values = models.make(name, config, seed, files)
        print(f"{name}: margin {values['smallest_margin']}, greedy {values['greedy']}")


if __name__ == "__main__":
    main()
