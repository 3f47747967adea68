"""A Llama out of a GGUF file: weights in float32 by Hugging Face's names, tokenizer, chat template.

Done by hand, so that every step that an engine has to do as well can be read here.
"""

import jinja2
import torch
from gguf import GGUFReader, dequantize
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM

CONTROL_TOKEN = 3
OUTSIDE_LAYERS = {
    "token_embd.weight": "model.embed_tokens.weight",
    "output_norm.weight": "model.norm.weight",
    "output.weight": "lm_head.weight",
}
IN_LAYERS = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}


class Gguf:
    def __init__(self, path):
        self.reader = GGUFReader(path)
        assert self.field("general.architecture") == "llama"

    def field(self, name):
        return self.reader.fields[name].contents()

    def tensors(self):
        found = {}
        for tensor in self.reader.tensors:
            values = torch.from_numpy(dequantize(tensor.data, tensor.tensor_type).copy()).float()
            if tensor.name in OUTSIDE_LAYERS:
                found[OUTSIDE_LAYERS[tensor.name]] = values
                continue
            _, layer, part, _ = tensor.name.split(".")
            if part == "attn_q":
                values = in_halves(values, self.field("llama.attention.head_count"))
            if part == "attn_k":
                values = in_halves(values, self.field("llama.attention.head_count_kv"))
            found[f"model.layers.{layer}.{IN_LAYERS[part]}.weight"] = values
        return found

    def model(self):
        tensors = self.tensors()
        tied = "lm_head.weight" not in tensors
        config = LlamaConfig(
            vocab_size=len(tensors["model.embed_tokens.weight"]),
            hidden_size=self.field("llama.embedding_length"),
            intermediate_size=self.field("llama.feed_forward_length"),
            num_hidden_layers=self.field("llama.block_count"),
            num_attention_heads=self.field("llama.attention.head_count"),
            num_key_value_heads=self.field("llama.attention.head_count_kv"),
            max_position_embeddings=self.field("llama.context_length"),
            rms_norm_eps=self.field("llama.attention.layer_norm_rms_epsilon"),
            rope_parameters={"rope_type": "default", "rope_theta": self.field("llama.rope.freq_base")},
            tie_word_embeddings=tied,
            attn_implementation="eager",
        )
        model = LlamaForCausalLM(config).eval()
        if tied:
            tensors["lm_head.weight"] = tensors["model.embed_tokens.weight"]
        model.load_state_dict(tensors, strict=True)
        return model

    def tokenizer(self):
        """SmolLM's: bytes as in GPT-2, and every digit for itself."""
        assert self.field("tokenizer.ggml.model") == "gpt2"
        assert self.field("tokenizer.ggml.pre") == "smollm"
        names = self.field("tokenizer.ggml.tokens")
        merges = [tuple(merge.split(" ")) for merge in self.field("tokenizer.ggml.merges")]
        vocabulary = {name: number for number, name in enumerate(names)}
        tokenizer = Tokenizer(models.BPE(vocabulary, merges))
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
            [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
        )
        tokenizer.decoder = decoders.ByteLevel()
        kinds = self.field("tokenizer.ggml.token_type")
        special = [name for name, kind in zip(names, kinds) if kind == CONTROL_TOKEN]
        tokenizer.add_special_tokens([AddedToken(name, special=True, normalized=False) for name in special])
        assert tokenizer.get_vocab_size() == len(names)
        return tokenizer

    def chat(self, turns):
        """The first, third and so on are the user's. Ends where the answer begins."""
        roles = ["user", "assistant"] * len(turns)
        messages = [{"role": role, "content": content} for role, content in zip(roles, turns)]
        template = jinja2.Template(self.field("tokenizer.chat_template"))
        return template.render(messages=messages, add_generation_prompt=True)


def in_halves(rows, heads):
    """GGUF keeps a head's rows as (0, half), (1, half + 1), …; Hugging Face one half after the other."""
    pairs = rows.reshape(heads, -1, 2, rows.shape[-1])
    return pairs.transpose(1, 2).reshape(rows.shape).contiguous()
