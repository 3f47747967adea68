"""Trains an EAGLE-3 head for SmolLM2-135M on one GPU, from nothing but the target's GGUF file.

    python tools/eagle3/train.py --gguf SmolLM2-135M-Instruct.Q4_1.gguf --output out/eagle3

See README.md beside this file.
"""

import argparse
import json
import math
import pathlib
import random
import time

import numpy
import torch

import evaluate
from answers import Answers, Source, collect, draft_vocabulary, held_out
from head import Head, load
from target import Target
from weights import Gguf, Shape, random_tensors
from words import Words

WARM_UP_SHARE = 0.03
LATER_STEP_WEIGHT = 0.9
TINY = Shape(8, 48, 64, 6, 2, 259, 512, 1e-5, 10000.0)


def options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gguf", type=pathlib.Path, nargs="+", help="the target; several files are parts of one")
    parser.add_argument("--output", type=pathlib.Path, required=True, help="folder for the head and result.json")
    parser.add_argument("--texts", type=pathlib.Path, help="folder with .md, .txt and .rst files to ask about")
    parser.add_argument("--answers", type=pathlib.Path, help="a .npz file: read if there, written if not")
    parser.add_argument("--start", type=pathlib.Path, help="go on with the head in this folder (same answers)")
    parser.add_argument("--generate-seconds", type=float, default=150)
    parser.add_argument("--train-seconds", type=float, default=330)
    parser.add_argument("--train-steps", type=int, help="stop after so many, whatever the time")
    parser.add_argument("--batch", type=int, default=2048, help="answers that grow together")
    parser.add_argument("--answer-tokens", type=int, default=256)
    parser.add_argument("--train-tokens", type=int, default=32768, help="tokens in a training step")
    parser.add_argument("--draft-vocabulary", type=int, default=16384)
    parser.add_argument("--unroll", type=int, default=6, help="steps of a chain that are trained")
    parser.add_argument("--drafts", type=int, default=5, help="length of the chains that are measured")
    parser.add_argument("--held-out", type=int, default=128, help="invented questions asked for the measurement")
    parser.add_argument("--learning-rate", type=float, default=1e-3)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--smoke", action="store_true", help="a few steps with a tiny random target, on the CPU")
    chosen = parser.parse_args()
    if not chosen.smoke and not chosen.gguf:
        parser.error("--gguf is needed, except with --smoke")
    if chosen.smoke:
        chosen.batch, chosen.answer_tokens, chosen.train_tokens, chosen.held_out = 12, 40, 1024, 6
        chosen.draft_vocabulary, chosen.train_steps, chosen.generate_seconds = 200, chosen.train_steps or 6, 5
    return chosen


def taps_of(shape):
    """Layers on entry to which the residual stream is taken."""
    return [2, shape.layers // 2, shape.layers - 3]


class Trainer:
    def __init__(self, head, target, answers, chosen):
        self.head, self.target, self.answers, self.chosen = head, target, answers, chosen
        self.taps = taps_of(target.shape)
        self.random = numpy.random.default_rng(chosen.seed)
        self.optimizer = torch.optim.AdamW(
            head.parameters(), lr=chosen.learning_rate, betas=(0.9, 0.95), weight_decay=0.01
        )
        self.steps, self.tokens, self.curve = 0, 0, []

    def run(self, save):
        began = saved = time.monotonic()
        while True:
            for group in self.answers.batches(self.chosen.train_tokens, self.random):
                elapsed = time.monotonic() - began
                share = elapsed / self.chosen.train_seconds
                if self.chosen.train_steps:
                    share = max(share, self.steps / self.chosen.train_steps)
                if share >= 1:
                    return elapsed
                figures = self.step(group, share)
                if self.steps % 100 == 1 or self.chosen.smoke:
                    self.report(figures, elapsed)
                if time.monotonic() - saved > 60:
                    save()
                    saved = time.monotonic()

    def step(self, group, share):
        warm = min(1.0, share / WARM_UP_SHARE) if not self.chosen.smoke else 1.0
        for parameters in self.optimizer.param_groups:
            parameters["lr"] = self.chosen.learning_rate * warm * (0.02 + 0.98 * math.cos(share * math.pi / 2) ** 2)
        losses, agreed = self.losses(group)
        weights = torch.tensor([LATER_STEP_WEIGHT**number for number in range(len(losses))], device=losses.device)
        self.optimizer.zero_grad(set_to_none=True)
        ((losses * weights).sum() / weights.sum()).backward()
        torch.nn.utils.clip_grad_norm_(self.head.parameters(), 1.0)
        self.optimizer.step()
        self.steps += 1
        self.tokens += int(self.answers.lengths[group].sum())
        return losses.detach(), agreed

    def losses(self, group):
        """Cross-entropy with the target's distribution, for each step of the chain."""
        tokens = torch.from_numpy(self.answers.padded(group)).long().to(self.target.device)
        sequences, rows = self.answer_rows(group)
        hidden, tapped = self.target.forward(tokens, self.taps)
        # The token at row + 2 was chosen from what the target saw up to row + 1.
        wanted, best = self.wanted(hidden[sequences, rows + 1])
        following = torch.cat([tokens[:, 1:], tokens[:, :1] * 0], dim=1)
        losses, agreed = [], []
        with torch.autocast(self.target.device.type, torch.bfloat16):
            for output in self.head.unroll(torch.cat(tapped, dim=-1), following, self.chosen.unroll):
                logits = self.head.logits(output[sequences, rows]).float()
                losses.append(-(wanted * logits.log_softmax(dim=-1)).sum(dim=-1).mean())
                agreed.append((self.head.draft_ids[logits.argmax(dim=-1)] == best).float().mean())
        return torch.stack(losses), torch.stack(agreed)

    @torch.no_grad()
    def wanted(self, hidden):
        """The target's probabilities of the draft vocabulary, and its best token.

        They are not made to sum to one: where the target wants other tokens, little is learnt.
        """
        logits = self.target.logits(hidden).float()
        whole = logits.logsumexp(dim=-1, keepdim=True)
        return (logits[:, self.head.draft_ids] - whole).exp(), logits.argmax(dim=-1)

    def answer_rows(self, group):
        """Rows whose logits are for a token of the answer after its first."""
        sequences, rows = [], []
        for number, answer in enumerate(group):
            found = numpy.arange(self.answers.prompt_lengths[answer] - 1, self.answers.lengths[answer] - 2)
            # A chain cannot have begun before the sequence.
            found = found[found >= self.chosen.unroll]
            sequences.append(numpy.full(len(found), number))
            rows.append(found)
        on_device = lambda parts: torch.from_numpy(numpy.concatenate(parts)).to(self.target.device)
        return on_device(sequences), on_device(rows)

    def report(self, figures, elapsed):
        losses, agreed = ([round(value, 4) for value in values.tolist()] for values in figures)
        self.curve.append({"step": self.steps, "seconds": round(elapsed, 1), "loss": losses, "agreed": agreed})
        print(f"  step {self.steps}, {elapsed:.0f} s: loss {losses}, agreed {agreed}", flush=True)


def target_files(chosen):
    if chosen.smoke:
        return TINY, random_tensors(TINY, chosen.seed), Words.of_bytes()
    gguf = Gguf(chosen.gguf)
    return gguf.shape(), gguf.tensors(), Words.of(gguf)


def started(target, answers, draft_ids, chosen):
    """A head to train."""
    head = Head(target.shape, target.embeddings.cpu(), draft_ids).to(target.device)
    sample = torch.from_numpy(answers.padded(numpy.arange(min(64, len(answers))))).long().to(target.device)
    head.start_from(target, torch.cat(target.forward(sample, taps_of(target.shape))[1], dim=-1))
    if chosen.start:
        head.start_again(chosen.start)
    return head


def write_held_out(path, measured):
    """Questions and best answers, as an engine's own measurement takes them."""
    cases = [
        {"kind": group, "prompt": prompt, "greedy": answer}
        for group, found in measured.items()
        for prompt, answer in found.pairs()
    ]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"cases": cases}) + "\n")


def main():
    chosen, began = options(), time.monotonic()
    torch.manual_seed(chosen.seed)
    say = lambda text: print(f"[{time.monotonic() - began:.0f} s] {text}", flush=True)
    on_gpu = torch.cuda.is_available() and not chosen.smoke
    device = torch.device("cuda" if on_gpu else "cpu")
    shape, tensors, words = target_files(chosen)
    target = Target(shape, tensors, device, torch.bfloat16)
    exact = Target(shape, tensors, device, torch.float32)
    say(f"target with {shape.layers} layers on {torch.cuda.get_device_name() if on_gpu else 'the CPU'}")

    source = Source(target, words, chosen, random.Random(chosen.seed))
    measured = held_out(source, exact, chosen.held_out)
    say(f"held out: {({group: len(found) for group, found in measured.items()})}")
    write_held_out(chosen.output / "held-out.json", measured)
    if chosen.answers and chosen.answers.exists():
        answers = Answers.load(chosen.answers)
    else:
        answers = collect(source, time.monotonic() + chosen.generate_seconds)
        if chosen.answers:
            answers.save(chosen.answers)
    draft_ids, covered = draft_vocabulary(answers, chosen.draft_vocabulary, shape.vocabulary, [words.end])
    chosen_tokens = len(answers.of_answers())
    say(f"{len(answers)} answers with {chosen_tokens} tokens; the draft vocabulary covers {covered:.4f}")
    # Answers of an earlier run could know questions that this one holds out.
    say(f"answers to questions that are held out: {answers.to_any_of(source.held_out)}")

    if on_gpu:
        # The keys and values of the answers are gone, their memory is wanted.
        torch.cuda.empty_cache()
    taps = taps_of(shape)
    head = started(target, answers, draft_ids, chosen)
    trainer = Trainer(head, target, answers, chosen)
    trained_seconds = trainer.run(lambda: head.save(chosen.output, taps))
    head.save(chosen.output, taps)
    say(f"trained {trainer.steps} steps")

    stored = load(chosen.output, shape, exact.embeddings, device)
    acceptance = evaluate.measure(stored, exact, measured, taps, chosen.drafts)
    apart = evaluate.difference_from_reference(
        chosen.output, stored.config(taps), stored, exact, next(iter(measured.values())), taps, chosen.drafts
    )
    say(f"logits differ from the reference by at most {apart:.6f}")
    assert apart < 1e-3 or not chosen.smoke
    result = {
        "drafts": chosen.drafts,
        "acceptance": acceptance,
        "largest_difference_from_the_reference": apart,
        "answers": len(answers),
        "answer_tokens": chosen_tokens,
        "draft_vocabulary": len(draft_ids),
        "draft_vocabulary_covers": round(float(covered), 5),
        "head_parameters": sum(parameter.numel() for parameter in head.parameters()),
        "trained_steps": trainer.steps,
        "trained_tokens": trainer.tokens,
        "trained_seconds": round(trained_seconds, 1),
        "whole_seconds": round(time.monotonic() - began, 1),
        "torch": torch.__version__,
        "device": torch.cuda.get_device_name() if on_gpu else "cpu",
        "options": {name: str(value) for name, value in vars(chosen).items()},
        "curve": trainer.curve,
    }
    (chosen.output / "result.json").write_text(json.dumps(result, indent=1) + "\n")
    for group, figures in acceptance.items():
        say(f"{group}: {figures}")


if __name__ == "__main__":
    main()
