"""How fast others compute the same model: the counterpart of crates/engines/llama/examples/speed.rs.

Run by `cargo xtask bench llama`: `speed.py llama.cpp|transformers MODEL.gguf THREADS` prints one
line of JSON. The steps are the same: a prompt of 512 tokens at once, then 128 steps of one token
from an empty context, for one sequence and for eight. The best of three rounds counts.
"""

import ctypes
import json
import os
import sys
import time

PROMPT, DECODED, ROUNDS = 512, 128, 3


def token(position):
    return position * 37 % 4000


def best(measure):
    return max(measure() for _ in range(ROUNDS))


def rate(tokens, run):
    began = time.perf_counter()
    run()
    return tokens / (time.perf_counter() - began)


def resident_mb():
    with open("/proc/self/status", encoding="ascii") as status:
        for line in status:
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) * 1024 / 1e6
    return 0.0


class LlamaCpp:
    """The library itself: its Python wrapper would cost time that is not llama.cpp's."""

    def __init__(self, path, threads):
        import llama_cpp

        self.library = llama_cpp
        self.name = f"llama.cpp (llama-cpp-python {llama_cpp.__version__})"
        silent = llama_cpp.llama_log_callback(lambda *_: None)
        self.silent = silent
        llama_cpp.llama_log_set(silent, ctypes.c_void_p(0))
        llama_cpp.llama_backend_init()
        options = llama_cpp.llama_model_default_params()
        self.model = llama_cpp.llama_model_load_from_file(path.encode(), options)
        options = llama_cpp.llama_context_default_params()
        options.n_ctx, options.n_batch, options.n_ubatch = 8 * 2048, PROMPT, PROMPT
        options.n_seq_max = 8
        options.n_threads = options.n_threads_batch = threads
        self.context = llama_cpp.llama_init_from_model(self.model, options)
        self.batch = llama_cpp.llama_batch_init(PROMPT, 0, 1)

    def step(self, rows):
        """Rows are (token, position, sequence, whether its logits are wanted)."""
        for index, (token_id, position, sequence, wanted) in enumerate(rows):
            self.batch.token[index] = token_id
            self.batch.pos[index] = position
            self.batch.n_seq_id[index] = 1
            self.batch.seq_id[index][0] = sequence
            self.batch.logits[index] = wanted
        self.batch.n_tokens = len(rows)
        if self.library.llama_decode(self.context, self.batch) != 0:
            raise RuntimeError("llama_decode failed")
        # What was computed is there once it can be read.
        self.library.llama_get_logits(self.context)

    def forget(self):
        memory = self.library.llama_get_memory(self.context)
        self.library.llama_memory_clear(memory, True)

    def prefill(self):
        self.forget()
        self.step([(token(i), i, 0, i == PROMPT - 1) for i in range(PROMPT)])

    def decode(self, batch):
        self.forget()
        for i in range(DECODED):
            self.step([(token(i), i, sequence, True) for sequence in range(batch)])


class Transformers:
    """Hugging Face's implementation on the same weights, made into numbers of 32 bits."""

    def __init__(self, path, threads):
        import torch
        import transformers

        transformers.logging.set_verbosity_error()
        torch.set_num_threads(threads)
        self.torch = torch
        self.name = f"transformers {transformers.__version__} (float32)"
        folder, file = os.path.split(path)
        self.model = transformers.AutoModelForCausalLM.from_pretrained(
            folder, gguf_file=file, dtype=torch.float32
        ).eval()

    def prefill(self):
        with self.torch.no_grad():
            tokens = self.torch.tensor([[token(i) for i in range(PROMPT)]])
            self.model(tokens, use_cache=True, logits_to_keep=1)

    def decode(self, batch):
        past = None
        with self.torch.no_grad():
            for i in range(DECODED):
                tokens = self.torch.full((batch, 1), token(i))
                past = self.model(tokens, past_key_values=past, use_cache=True).past_key_values


def main():
    which, path, threads = sys.argv[1], sys.argv[2], int(sys.argv[3])
    began = time.perf_counter()
    other = {"llama.cpp": LlamaCpp, "transformers": Transformers}[which](path, threads)
    loaded = time.perf_counter() - began
    print(
        json.dumps(
            {
                "what": other.name,
                "load_s": round(loaded, 2),
                "prefill": best(lambda: rate(PROMPT, other.prefill)),
                "decode_1": best(lambda: rate(DECODED, lambda: other.decode(1))),
                "decode_8": best(lambda: rate(8 * DECODED, lambda: other.decode(8))),
                "rss_mb": resident_mb(),
            }
        )
    )


main()
