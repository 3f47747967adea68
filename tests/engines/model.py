"""Makes a folder that vLLM can load of the SmolLM2 that `homing model pull` fetches, and an adapter for it."""

import json
import os
import sys

import torch
from safetensors.torch import save_file
from transformers import PreTrainedTokenizerFast

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../../tools/golden"))
from gguf_model import Gguf  # noqa: E402


def make_model(gguf, folder):
    file = Gguf(gguf)
    model = file.model().to(torch.bfloat16)
    begin, end = (file.field(f"tokenizer.ggml.{name}_token_id") for name in ("bos", "eos"))
    for config in (model.config, model.generation_config):
        config.bos_token_id, config.eos_token_id = begin, end
    model.save_pretrained(folder)
    names = file.field("tokenizer.ggml.tokens")
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=file.tokenizer(), bos_token=names[begin], eos_token=names[end], pad_token=names[end]
    )
    tokenizer.chat_template = file.field("tokenizer.chat_template")
    tokenizer.save_pretrained(folder)


def make_adapter(model, folder, rank=8):
    """An adapter of random weights: it changes what the model says, and that is all it must do."""
    with open(os.path.join(model, "config.json")) as file:
        config = json.load(file)
    hidden = config["hidden_size"]
    values = hidden // config["num_attention_heads"] * config["num_key_value_heads"]
    random = torch.Generator().manual_seed(0)
    tensors = {}
    for layer in range(config["num_hidden_layers"]):
        for name, size in (("q_proj", hidden), ("v_proj", values)):
            path = f"base_model.model.model.layers.{layer}.self_attn.{name}"
            tensors[f"{path}.lora_A.weight"] = torch.randn(rank, hidden, generator=random) * 0.2
            tensors[f"{path}.lora_B.weight"] = torch.randn(size, rank, generator=random) * 0.2
    os.makedirs(folder, exist_ok=True)
    save_file(tensors, os.path.join(folder, "adapter_model.safetensors"))
    about = {
        "peft_type": "LORA",
        "task_type": "CAUSAL_LM",
        "r": rank,
        "lora_alpha": 2 * rank,
        "target_modules": ["q_proj", "v_proj"],
        "bias": "none",
    }
    with open(os.path.join(folder, "adapter_config.json"), "w") as file:
        json.dump(about, file)


if __name__ == "__main__":
    gguf, folder, adapter = sys.argv[1:]
    make_model(gguf, folder)
    make_adapter(folder, adapter)
