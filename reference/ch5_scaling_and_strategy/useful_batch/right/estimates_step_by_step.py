"""Estimates both parts for every step first, then sums; counts micro-batches out one by one."""

from __future__ import annotations


def noise_scale(small, big, small_batch, big_batch):
    """Sum the estimates of all steps."""
    signal = variance = 0.0
    for s, b in zip(small, big, strict=True):
        variance += (s - b) * small_batch * big_batch / (big_batch - small_batch)
        signal += (big_batch * b - small_batch * s) / (big_batch - small_batch)
    if not signal > 0:
        raise ValueError("measure longer")
    return variance / signal


def steps_and_examples(min_steps, min_examples, batch):
    """By the noise scale."""
    noise = min_examples / min_steps
    return [min_steps * (1 + noise / batch), min_examples * (1 + batch / noise)]


def learning_rate(base_rate, base_batch, batch, noise, step, warmup_steps):
    """Interpolate."""
    highest = base_rate * (1 + noise / base_batch)
    own = highest / (1 + noise / batch)
    progress = 1.0 if warmup_steps == 0 else min(1.0, step / warmup_steps)
    return (1 - progress) * base_rate + progress * own


def micro_batches(global_batch, micro_batch, ranks):
    """Deal them out like cards."""
    if global_batch % micro_batch != 0:
        raise ValueError("no multiple")
    counts = [0] * ranks
    for i in range(global_batch // micro_batch):
        counts[i % ranks] += 1
    return counts
