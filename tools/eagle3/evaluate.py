"""How many drafted tokens the target accepts, when both take their best token.

A draft counts only while all before it were right, and then the tokens before it are the target's
own. So one unrolled pass over the target's answer gives the drafts of every place where a chain
could begin, and walking through them gives what an engine would do.
"""

import pathlib
import sys

import numpy
import torch

sys.path.append(str(pathlib.Path(__file__).parents[1] / "golden"))
from eagle import Head as Reference  # noqa: E402


@torch.no_grad()
def unrolled(head, target, answers, number, taps, drafts):
    """Tokens of one answer with its prompt, the target's states, the head's logits of every step."""
    tokens = torch.from_numpy(answers.padded(numpy.array([number]))).long().to(target.device)
    _, tapped = target.forward(tokens, taps)
    following = torch.cat([tokens[:, 1:], tokens[:, :1] * 0], dim=1)
    outputs = head.unroll(torch.cat(tapped, dim=-1), following, drafts)
    return tokens[0], [state[0] for state in tapped], [head.logits(output[0]) for output in outputs]


def first_rows(answers, number, drafts):
    """Where a whole chain can begin."""
    first, last = answers.prompt_lengths[number] - 1, answers.lengths[number] - drafts - 2
    return torch.arange(first, max(first, last + 1))


def right_drafts(head, target, answers, number, taps, drafts):
    """For every row where a whole chain can begin: how many of its drafts are right."""
    tokens, _, logits = unrolled(head, target, answers, number, taps, drafts)
    rows = first_rows(answers, number, drafts).to(tokens.device)
    right, counts = torch.ones_like(rows, dtype=torch.bool), torch.zeros_like(rows)
    for step, of_step in enumerate(logits):
        drafted = head.draft_ids[of_step[rows + step].argmax(dim=-1)]
        right &= drafted == tokens[rows + step + 2]
        counts += right
    return counts.tolist()


def walk(counts):
    """The chains that an engine would draft: each begins where the last one left off."""
    at, taken = 0, []
    while at < len(counts):
        taken.append(counts[at])
        at += counts[at] + 1
    return taken


def measure(head, target, groups, taps, drafts):
    chains = {}
    for group, answers in groups.items():
        chains[group] = []
        for number in range(len(answers)):
            chains[group] += walk(right_drafts(head, target, answers, number, taps, drafts))
    everything = [count for counts in chains.values() for count in counts]
    return {"all": summary(everything, drafts)} | {group: summary(counts, drafts) for group, counts in chains.items()}


def summary(counts, drafts):
    counts = numpy.array(counts)
    if len(counts) == 0:
        return {"chains": 0}
    reached = [(counts >= number).mean() for number in range(drafts + 1)]
    return {
        "chains": len(counts),
        "mean_accepted": round(float(counts.mean()), 4),
        "tokens_a_pass": round(float(counts.mean()) + 1, 4),
        "accepted_up_to_position": [round(float(share), 4) for share in reached[1:]],
        "accepted_at_position_if_reached": [
            round(float(after / before), 4) if before else 0.0 for before, after in zip(reached, reached[1:])
        ],
    }


@torch.no_grad()
def difference_from_reference(folder, config, head, target, answers, taps, drafts):
    """Largest difference of logits from the plain head of tools/golden, which goes token by token."""
    reference = Reference(folder, config, target.embeddings.float().cpu())
    largest = 0.0
    for number in range(min(3, len(answers))):
        tokens, tapped, logits = unrolled(head, target, answers, number, taps, drafts)
        for row in first_rows(answers, number, drafts).tolist()[::20]:
            hidden = reference.fuse([state[: row + 1].float().cpu() for state in tapped])
            for step in range(drafts):
                # All drafts so far were right: the embeddings are those of the answer.
                output = reference.layer(hidden, tokens[1 : row + step + 2].cpu())
                apart = reference.logits(output[-1]) - logits[step][row + step].cpu()
                largest = max(largest, apart.abs().max().item())
                hidden = torch.cat([hidden, output[-1:]])
    return largest
