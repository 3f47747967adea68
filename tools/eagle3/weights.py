"""The target's weights and words out of a GGUF file, with nothing but numpy.

Only what SmolLM2's files need: a Llama, the formats F32, F16, Q8_0, Q4_0 and Q4_1, a vocabulary
of byte pairs. The rows of queries and keys come out in Hugging Face's order.
"""

import dataclasses
import struct

import numpy

BLOCK = 32
ALIGNMENT = 32
NUMBERS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
STRING, ARRAY = 8, 9
F32, F16, Q4_0, Q4_1, Q8_0 = 0, 1, 2, 3, 8
BYTES_OF_BLOCK = {F32: 128, F16: 64, Q4_0: 18, Q4_1: 20, Q8_0: 34}


@dataclasses.dataclass
class Shape:
    layers: int
    hidden: int
    feed_forward: int
    heads: int
    kv_heads: int
    vocabulary: int
    context: int
    norm_epsilon: float
    rope_theta: float

    @property
    def head_size(self):
        return self.hidden // self.heads


class Gguf:
    """One file, or its parts in order."""

    def __init__(self, paths):
        self.bytes = b"".join(path.read_bytes() for path in paths)
        self.at = 0
        magic, version, tensors, fields = self.unpack("<4sIQQ")
        assert magic == b"GGUF" and version == 3, "not a GGUF file of version 3"
        self.fields = {self.string(): self.value(self.unpack("<I")[0]) for _ in range(fields)}
        self.entries = [self.entry() for _ in range(tensors)]
        self.data = -(-self.at // ALIGNMENT) * ALIGNMENT
        assert self.fields["general.architecture"] == "llama"

    def unpack(self, form):
        values = struct.unpack_from(form, self.bytes, self.at)
        self.at += struct.calcsize(form)
        return values

    def string(self):
        (length,) = self.unpack("<Q")
        self.at += length
        return self.bytes[self.at - length : self.at].decode()

    def value(self, kind):
        if kind == STRING:
            return self.string()
        if kind == ARRAY:
            inner, count = self.unpack("<IQ")
            return [self.value(inner) for _ in range(count)]
        return self.unpack("<" + NUMBERS[kind])[0]

    def entry(self):
        name = self.string()
        (dimensions,) = self.unpack("<I")
        # The innermost dimension comes first.
        sizes = self.unpack(f"<{dimensions}Q")[::-1]
        kind, offset = self.unpack("<IQ")
        return name, sizes, kind, offset

    def shape(self):
        of_llama = lambda name: self.fields["llama." + name]
        return Shape(
            layers=of_llama("block_count"),
            hidden=of_llama("embedding_length"),
            feed_forward=of_llama("feed_forward_length"),
            heads=of_llama("attention.head_count"),
            kv_heads=of_llama("attention.head_count_kv"),
            vocabulary=len(self.fields["tokenizer.ggml.tokens"]),
            context=of_llama("context_length"),
            norm_epsilon=of_llama("attention.layer_norm_rms_epsilon"),
            rope_theta=of_llama("rope.freq_base"),
        )

    def tensors(self):
        """By GGUF's names, in float32."""
        shape, found = self.shape(), {}
        for name, sizes, kind, offset in self.entries:
            count = int(numpy.prod(sizes))
            length = count // BLOCK * BYTES_OF_BLOCK[kind]
            raw = numpy.frombuffer(self.bytes, numpy.uint8, length, self.data + offset)
            values = dequantise(raw, kind).reshape(sizes)
            if name.endswith("attn_q.weight"):
                values = in_halves(values, shape.heads)
            if name.endswith("attn_k.weight"):
                values = in_halves(values, shape.kv_heads)
            found[name] = values
        return found


def dequantise(raw, kind):
    if kind == F32:
        return raw.view(numpy.float32)
    if kind == F16:
        return raw.view(numpy.float16).astype(numpy.float32)
    blocks = raw.reshape(-1, BYTES_OF_BLOCK[kind])
    scale = blocks[:, :2].copy().view(numpy.float16).astype(numpy.float32)
    if kind == Q8_0:
        return scale * blocks[:, 2:].view(numpy.int8).astype(numpy.float32)
    if kind == Q4_1:
        least = blocks[:, 2:4].copy().view(numpy.float16).astype(numpy.float32)
        return scale * nibbles(blocks[:, 4:]) + least
    return scale * (nibbles(blocks[:, 2:]) - 8)


def nibbles(packed):
    """The low halves of all bytes, then the high ones."""
    return numpy.concatenate([packed & 15, packed >> 4], axis=1).astype(numpy.float32)


def in_halves(rows, heads):
    """GGUF keeps a head's rows as (0, half), (1, half + 1), …; here one half comes after the other."""
    pairs = rows.reshape(heads, -1, 2, rows.shape[-1])
    return numpy.ascontiguousarray(pairs.swapaxes(1, 2)).reshape(rows.shape)


def random_tensors(shape, seed):
    """A tiny target for a trial of the program: no file, no sense, but all the parts."""
    random = numpy.random.default_rng(seed)
    matrix = lambda rows, columns: random.normal(size=(rows, columns), scale=1.5 / columns**0.5)
    kv = shape.kv_heads * shape.head_size
    sizes = {
        "attn_q": (shape.hidden, shape.hidden),
        "attn_k": (kv, shape.hidden),
        "attn_v": (kv, shape.hidden),
        "attn_output": (shape.hidden, shape.hidden),
        "ffn_gate": (shape.feed_forward, shape.hidden),
        "ffn_up": (shape.feed_forward, shape.hidden),
        "ffn_down": (shape.hidden, shape.feed_forward),
    }
    found = {
        "token_embd.weight": random.normal(size=(shape.vocabulary, shape.hidden), scale=0.3),
        "output_norm.weight": numpy.ones(shape.hidden),
    }
    for layer in range(shape.layers):
        for part, (rows, columns) in sizes.items():
            found[f"blk.{layer}.{part}.weight"] = matrix(rows, columns)
        for part in ["attn_norm", "ffn_norm"]:
            found[f"blk.{layer}.{part}.weight"] = numpy.ones(shape.hidden)
    return {name: values.astype(numpy.float32) for name, values in found.items()}
