"""Text to token ids and back: byte pairs as in GPT-2, every digit for itself, ChatML."""

import functools
import re

SYSTEM = "You are a helpful AI assistant named SmolLM, trained by Hugging Face"
STARTS, ENDS = "<|im_start|>", "<|im_end|>"
CONTROL = 3
PIECES = re.compile(r"'s|'t|'re|'ve|'m|'ll|'d| ?[^\W\d_]+| ?(?:[^\s\w]|_)+|\s+(?!\S)|\s+|\w")


def byte_letters():
    """GPT-2's letters for bytes: printable ones stand for themselves, the others move up."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in printable]
    letters = {byte: chr(byte) for byte in printable}
    return letters | {byte: chr(256 + number) for number, byte in enumerate(others)}


class Words:
    def __init__(self, tokens, kinds, merges):
        self.names = tokens
        self.ids = {name: number for number, name in enumerate(tokens)}
        self.ranks = {tuple(merge.split(" ")): rank for rank, merge in enumerate(merges)}
        special = [name for name, kind in zip(tokens, kinds) if kind == CONTROL]
        self.special = set(special)
        self.special_pattern = re.compile("(" + "|".join(map(re.escape, special)) + ")")
        self.letters = byte_letters()
        self.bytes = {letter: byte for byte, letter in self.letters.items()}
        self.end = self.ids[ENDS]

    @classmethod
    def of(cls, gguf):
        fields = gguf.fields
        assert fields["tokenizer.ggml.model"] == "gpt2"
        return cls(*(fields["tokenizer.ggml." + name] for name in ["tokens", "token_type", "merges"]))

    @classmethod
    def of_bytes(cls):
        """Every byte is a token: for a trial without a file."""
        names = ["<|endoftext|>", STARTS, ENDS, *byte_letters().values()]
        return cls(names, [CONTROL] * 3 + [1] * 256, [])

    def encode(self, text):
        found = []
        for part in self.special_pattern.split(text):
            if part in self.special:
                found.append(self.ids[part])
                continue
            for run in re.split(r"(\d)", part):
                for piece in PIECES.findall(run):
                    found += self.piece(piece)
        return found

    @functools.lru_cache(maxsize=100_000)
    def piece(self, piece):
        parts = [self.letters[byte] for byte in piece.encode()]
        while len(parts) > 1:
            pairs = [(self.ranks.get(pair, len(self.ranks)), at) for at, pair in enumerate(zip(parts, parts[1:]))]
            rank, at = min(pairs)
            if rank == len(self.ranks):
                break
            parts[at : at + 2] = ["".join(parts[at : at + 2])]
        return tuple(self.ids[part] for part in parts)

    def decode(self, ids):
        names = [self.names[number] for number in ids]
        raw = b"".join(
            name.encode() if name in self.special else bytes(self.bytes[letter] for letter in name)
            for name in names
        )
        return raw.decode(errors="replace")

    def chat(self, question):
        return self.encode(self.asking() + question + self.answering())

    def asking(self):
        return f"{STARTS}system\n{SYSTEM}{ENDS}\n{STARTS}user\n"

    def answering(self):
        return f"{ENDS}\n{STARTS}assistant\n"

    def following(self, question):
        """After an answer that has ended."""
        return self.encode(f"\n{STARTS}user\n{question}{self.answering()}")
