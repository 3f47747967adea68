"""The target's own answers: what the head learns from, and what it is measured on."""

import time

import numpy
import torch

import prompts
from target import generate

LONGEST_PROMPT = 256
LONGEST_QUESTION = 64
SHORTEST_ANSWER = 8
SAMPLED = 0.8


class Answers:
    """Sequences of a prompt and its answer, one after the other in one array."""

    def __init__(self, tokens, lengths, prompt_lengths):
        self.tokens, self.lengths, self.prompt_lengths = tokens, lengths, prompt_lengths
        self.starts = numpy.concatenate([[0], numpy.cumsum(lengths)[:-1]])

    @classmethod
    def of(cls, pairs):
        pairs = [(prompt, answer) for prompt, answer in pairs if len(answer) >= SHORTEST_ANSWER]
        whole = [prompt + answer for prompt, answer in pairs]
        return cls(
            numpy.array([token for tokens in whole for token in tokens], dtype=numpy.int32),
            numpy.array([len(tokens) for tokens in whole], dtype=numpy.int64),
            numpy.array([len(prompt) for prompt, _ in pairs], dtype=numpy.int64),
        )

    def save(self, path):
        numpy.savez(path, tokens=self.tokens, lengths=self.lengths, prompt_lengths=self.prompt_lengths)

    @classmethod
    def load(cls, path):
        stored = numpy.load(path)
        return cls(stored["tokens"], stored["lengths"], stored["prompt_lengths"])

    def __len__(self):
        return len(self.lengths)

    def to_any_of(self, prompts):
        """How many have one of these prompts."""
        ends = self.starts + self.prompt_lengths
        return sum(tuple(self.tokens[start:end].tolist()) in prompts for start, end in zip(self.starts, ends))

    def pairs(self):
        """Each prompt and its answer."""
        for start, length, prompt in zip(self.starts, self.lengths, self.prompt_lengths):
            tokens = self.tokens[start : start + length].tolist()
            yield tokens[:prompt], tokens[prompt:]

    def of_answers(self):
        """All tokens that the target chose."""
        places = numpy.arange(len(self.tokens)) - numpy.repeat(self.starts, self.lengths)
        return self.tokens[places >= numpy.repeat(self.prompt_lengths, self.lengths)]

    def padded(self, chosen):
        """The chosen ones as a matrix; what fills it up comes last."""
        longest = -(-self.lengths[chosen].max() // 8) * 8
        places = self.starts[chosen][:, None] + numpy.arange(longest)
        real = numpy.arange(longest) < self.lengths[chosen][:, None]
        return numpy.where(real, self.tokens[places.clip(max=len(self.tokens) - 1)], 0)

    def batches(self, tokens, random):
        """Each sequence once, in groups of like length with at most so many tokens."""
        order = random.permutation(len(self))
        # Sorted in windows only, so that groups differ from one pass to the next.
        windows = numpy.array_split(order, max(1, len(order) // 4096))
        groups = []
        for window in windows:
            group = []
            for number in window[numpy.argsort(self.lengths[window], kind="stable")]:
                if group and (len(group) + 1) * self.lengths[number] > tokens:
                    groups.append(numpy.array(group))
                    group = []
                group.append(number)
            groups.append(numpy.array(group))
        random.shuffle(groups)
        return groups


class Source:
    """Prompts without end: templates, texts of a folder, questions that the target invents."""

    def __init__(self, target, words, options, random):
        self.target, self.words, self.options, self.random = target, words, options, random
        asked, begun = prompts.questions(random), prompts.openings()
        if options.texts:
            of_folder = prompts.of_folder(options.texts, random)
            asked, begun = asked + of_folder[0], begun + of_folder[1]
        self.written = [("chat", text) for text in asked] + [("text", text) for text in begun]
        random.shuffle(self.written)
        self.used = 0
        self.held_out = {tuple(prompt) for _, prompt in self.held_out_questions()}

    def held_out_questions(self):
        for group, text in prompts.HELD_OUT.items():
            for question in prompts.phrases(text):
                yield group, self.words.chat(question)

    def next_written(self, count):
        found = []
        while len(found) < count:
            kind, text = self.written[self.used % len(self.written)]
            self.used += 1
            prompt = self.words.chat(text) if kind == "chat" else self.words.encode(text)
            if len(prompt) <= LONGEST_PROMPT:
                found.append(prompt)
        return found

    def next_invented(self, count):
        """The target plays the user: it goes on after the mark where a user speaks."""
        begin, end = self.words.encode(self.words.asking()), self.words.encode(self.words.answering())
        asked = generate(self.target, [begin] * count, [1.0] * count, LONGEST_QUESTION, self.words.end)
        whole = {tuple(begin + question[:-1] + end) for question in asked if question[-1] == self.words.end}
        found = sorted(whole - self.held_out)
        self.random.shuffle(found)
        return [list(prompt) for prompt in found]

    def followed(self, pairs):
        """Some finished answers get another question."""
        ended = [pair for pair in pairs if pair[1][-1] == self.words.end and len(pair[0] + pair[1]) < LONGEST_PROMPT - 40]
        chosen = self.random.sample(ended, len(ended) // 4)
        follow = prompts.phrases(prompts.FOLLOWING)
        return [prompt + answer + self.words.following(self.random.choice(follow)) for prompt, answer in chosen]


def collect(source, deadline):
    """Answers until the time is up: half of them the best ones, half of them sampled."""
    pairs, following, tokens, before = [], [], 0, set()
    options, random = source.options, source.random
    began = time.monotonic()
    while True:
        asked = following + source.next_invented(options.batch) + source.next_written(options.batch)
        # Prompts of like length go together, so that little is filled up.
        asked.sort(key=len)
        following = []
        for at in range(0, len(asked), options.batch):
            group = asked[at : at + options.batch]
            # The best answer to a question that comes again would be the same one.
            heat = [SAMPLED if tuple(prompt) in before else random.choice([0.0, SAMPLED]) for prompt in group]
            before.update(map(tuple, group))
            answers = generate(source.target, group, heat, options.answer_tokens, source.words.end)
            found = list(zip(group, answers))
            following += source.followed(found)
            pairs += found
            tokens += sum(map(len, answers))
            if time.monotonic() > deadline and pairs:
                return Answers.of(pairs)
        print(f"  {len(pairs)} answers, {tokens} tokens in {time.monotonic() - began:.0f} s", flush=True)
        if options.smoke:
            return Answers.of(pairs)


def held_out(source, target, count):
    """Best answers to questions that are not trained on, by group."""
    invented = source.next_invented(count)[: count // 2]
    source.held_out |= {tuple(prompt) for prompt in invented}
    asked = list(source.held_out_questions()) + [("invented", prompt) for prompt in invented]
    found = {}
    answers = generate(target, [prompt for _, prompt in asked], [0.0] * len(asked), source.options.answer_tokens, source.words.end)
    for (group, prompt), answer in zip(asked, answers):
        found.setdefault(group, []).append((prompt, answer))
    return {group: Answers.of(pairs) for group, pairs in found.items()}


def draft_vocabulary(answers, size, whole, kept):
    """The ids that the target chooses most often, in order; `kept` are in it whatever they count."""
    counts = numpy.bincount(answers.of_answers(), minlength=whole).astype(numpy.float64)
    covered = counts.copy()
    counts[kept] = numpy.inf
    chosen = numpy.sort(numpy.argsort(-counts, kind="stable")[:size])
    return torch.from_numpy(chosen), covered[chosen].sum() / covered.sum()
