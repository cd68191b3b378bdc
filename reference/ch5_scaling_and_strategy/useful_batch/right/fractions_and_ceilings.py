"""Computes with fractions until the end, and gives each rank the ceiling of its share of what is left."""

from __future__ import annotations

from fractions import Fraction


def noise_scale(small, big, small_batch, big_batch):
    """Averages as fractions."""
    s, b = (sum(map(Fraction, column)) / len(column) for column in (small, big))
    denominator = Fraction(1, small_batch) - Fraction(1, big_batch)
    trace = (s - b) / denominator
    signal = b - trace / big_batch
    if signal <= 0:
        raise ValueError("no signal")
    return float(trace / signal)


def steps_and_examples(min_steps, min_examples, batch):
    """Add the samples of both ends."""
    examples = Fraction(min_examples) + Fraction(batch) * Fraction(min_steps)
    return float(examples / Fraction(batch)), float(examples)


def learning_rate(base_rate, base_batch, batch, noise, step, warmup_steps):
    """Ramp by hand."""
    own = base_rate * batch * (base_batch + noise) / (base_batch * (batch + noise))
    if step < warmup_steps:
        done, left = step / warmup_steps, (warmup_steps - step) / warmup_steps
        return own * done + base_rate * left
    return own


def micro_batches(global_batch, micro_batch, ranks):
    """Take ceilings."""
    left, rest = divmod(global_batch, micro_batch)
    if rest:
        raise ValueError("choose another size")
    counts = []
    for ranks_left in range(ranks, 0, -1):
        counts.append(-(-left // ranks_left))
        left -= counts[-1]
    return counts
