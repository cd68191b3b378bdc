"""What the pictures of chapter 1 show: plain numbers at any setting of a panel's controls.

No check imports this. `tests/test_playground_truth.py` compares it with the references at random settings.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

MOST_WORKERS = 16


def step_time(
    compute_ms: float, loader_ms: float, added_ms: float, gradient_mb: float, gb_per_s: float, overlap_percent: float
) -> dict[str, Any]:
    """Return the parts of a step on 1 to 16 workers: the same global batch, its computation shared out.

    The gradients travel round a ring; computation hides some of the communication, at most as long as it lasts.
    """
    workers = list(range(1, MOST_WORKERS + 1))
    compute = [compute_ms / k for k in workers]
    sent = [2 * (k - 1) / k * gradient_mb for k in workers]  # by each worker; MB at GB/s are ms
    network = [added_ms * (k - 1) + mb / gb_per_s for k, mb in zip(workers, sent, strict=True)]
    hidden = [min(each * overlap_percent / 100, own) for each, own in zip(network, compute, strict=True)]
    communication = [each - behind for each, behind in zip(network, hidden, strict=True)]
    step = [a + loader_ms + b for a, b in zip(compute, communication, strict=True)]
    best = [min(range(1, k + 1), key=lambda n: step[n - 1]) for k in workers]
    return {
        "workers": workers,
        "compute": compute,
        "loader": [loader_ms] * len(workers),
        "sent_mb": sent,
        "hidden": hidden,
        "communication": communication,
        "step": step,
        "speedup": [step[0] / each for each in step],
        "best": best,  # of so many offered
        "second_ms": communication[1],  # what one sees who has measured two workers
    }


# --- the ring stepper -------------------------------------------------------------------------------------------------

Message = tuple[int, int, tuple[int, ...]]  # from, to, chunks
ALGORITHMS = ("ring", "whole vectors round the ring", "recursive doubling", "halving and doubling", "tree")
SIZES = [2.0**i for i in range(10, 31)]  # bytes: 1 KiB to 1 GiB


def all_reduce(
    ranks: int, algorithm: str, vector_kb: float, alpha_us: float, gb_per_s: float, done: int
) -> dict[str, Any]:
    """Return who holds what after `done` rounds, what crosses each link in all of them, and how long they take."""
    chunks, rounds = _rounds(algorithm, ranks)
    shown = min(done, len(rounds))
    chunk_bytes = vector_kb * 1e3 / chunks
    held = _held_after(rounds[:shown], ranks, chunks, passes_on=algorithm == ALGORITHMS[1])
    links: dict[tuple[int, int], float] = {}
    for a, b, moved in (message for each in rounds for message in each):
        links[a, b] = links.get((a, b), 0.0) + len(moved) * chunk_bytes
    byte_us = 1e-3 / gb_per_s
    return {
        "chunks": chunks,
        "rounds": len(rounds),
        "round": shown,
        "held": [[len(held[rank][chunk]) for rank in range(ranks)] for chunk in range(chunks)],
        "leaving": [[a, b, list(moved)] for a, b, moved in (rounds[shown] if shown < len(rounds) else [])],
        "links": [[a, b, kb / 1e3] for (a, b), kb in sorted(links.items())],
        "sent_kb": max(
            (sum(kb for (a, _), kb in links.items() if a == rank) / 1e3 for rank in range(ranks)), default=0.0
        ),
        "time_us": _seconds(chunks, rounds, vector_kb * 1e3, alpha_us, byte_us),
        "sizes_kb": [size / 1e3 for size in SIZES],
        "curves": {
            name: [_seconds(*_rounds(name, ranks), size, alpha_us, byte_us) for size in SIZES] for name in ALGORITHMS
        },
    }


def _seconds(chunks: int, rounds: list[list[Message]], n_bytes: float, alpha: float, beta: float) -> float:
    """Return how long rounds take one after the other, each as long as its longest message."""
    return sum(alpha + max(len(moved) for _, _, moved in each) * n_bytes / chunks * beta for each in rounds)


def _held_after(rounds: list[list[Message]], ranks: int, chunks: int, *, passes_on: bool) -> list[list[set[int]]]:
    """Return of which ranks each rank's chunk is the sum; who passes on sends what came last, not its sum."""
    held = [[{rank} for _ in range(chunks)] for rank in range(ranks)]
    passing = [[{rank} for _ in range(chunks)] for rank in range(ranks)]
    for each in rounds:
        before = [[set(part) for part in row] for row in held]
        last = [[set(part) for part in row] for row in passing]
        for a, b, moved in each:
            for chunk in moved:
                sent = (last if passes_on else before)[a][chunk]
                held[b][chunk] |= sent
                passing[b][chunk] = sent
    return held


def _rounds(algorithm: str, ranks: int) -> tuple[int, list[list[Message]]]:
    """Return into how many chunks an algorithm cuts the vector, and the messages of each round."""
    if ranks == 1:
        return 1, []
    if algorithm == "ring":
        both = [
            [(r, (r + 1) % ranks, ((r + phase - i) % ranks,)) for r in range(ranks)]
            for phase in (0, 1)
            for i in range(ranks - 1)
        ]
        return ranks, both
    if algorithm == "whole vectors round the ring":
        return 1, [[(r, (r + 1) % ranks, (0,)) for r in range(ranks)] for _ in range(ranks - 1)]
    doublings = ranks.bit_length() - 1
    if algorithm == "tree":
        up = [[(r + d, r, (0,)) for r in range(0, ranks, 2 * d) if r + d < ranks] for d in _distances(ranks)]
        return 1, up + [[(b, a, moved) for a, b, moved in each] for each in reversed(up)]
    paired = 2**doublings
    chunks = 1 if algorithm == "recursive doubling" else paired
    whole = tuple(range(chunks))
    first = [(r, r - paired, whole) for r in range(paired, ranks)]
    middle = _doubling(paired) if algorithm == "recursive doubling" else _halving(paired)
    last = [(b, a, moved) for a, b, moved in first]
    return chunks, list(([first] if first else []) + middle + ([last] if last else []))


def _distances(ranks: int) -> list[int]:
    return [2**i for i in range((ranks - 1).bit_length())]


def _doubling(ranks: int) -> list[list[Message]]:
    return [[(r, r ^ d, (0,)) for r in range(ranks)] for d in _distances(ranks)]


def _halving(ranks: int) -> list[list[Message]]:
    """Exchange halves of what is still held, then the same steps backwards."""
    mine = [tuple(range(ranks)) for _ in range(ranks)]
    down: list[list[Message]] = []
    up: list[list[Message]] = []
    for d in reversed(_distances(ranks)):
        kept = [tuple(c for c in mine[r] if bool(c & d) == bool(r & d)) for r in range(ranks)]
        down.append([(r, r ^ d, tuple(c for c in mine[r] if c not in kept[r])) for r in range(ranks)])
        up.append([(r, r ^ d, kept[r]) for r in range(ranks)])
        mine = kept
    return down + up[::-1]


# --- loss weighting ---------------------------------------------------------------------------------------------------

DIRECTIONS = (5.0, 30.0, 80.0, 150.0)  # degrees: where the mean gradient of each micro-batch points


def loss_weighting(tokens_a: int, tokens_b: int, tokens_c: int, tokens_d: int) -> dict[str, Any]:
    """Return the mean of the micro-batches' mean gradients, and the mean over all tokens."""
    tokens = [tokens_a, tokens_b, tokens_c, tokens_d]
    parts = [[math.cos(math.radians(angle)), math.sin(math.radians(angle))] for angle in DIRECTIONS]
    n = max(1, sum(tokens))
    by_token = [sum(t * part[i] for t, part in zip(tokens, parts, strict=True)) / n for i in (0, 1)]
    empty = any(t == 0 for t in tokens)
    of_means = [math.nan if empty else sum(part[i] for part in parts) / 4 for i in (0, 1)]
    angles = [math.degrees(math.atan2(y, x)) for x, y in (by_token, of_means)]
    return {
        "tokens": tokens,
        "parts": parts,
        "by_token": by_token,
        "of_means": of_means,
        "apart_degrees": abs(angles[0] - angles[1]),
        "length_ratio": math.hypot(*of_means) / (math.hypot(*by_token) or math.nan),
        "weight_ratio": math.nan if empty else max(tokens) / min(tokens),
    }


# --- where the gradient's scale goes ----------------------------------------------------------------------------------

STEPS = 60
CURVATURE = (1.0, 0.4, 0.1)


BIAS, LOCAL = "bias added on every rank", "clipped on each rank"
ODD = 0.5  # how much further than the mean of all ranks each rank but one wants to go; that one wants all the opposite
Gradient = Callable[[list[float]], list[float]]


def descent(optimizer: str, scale: float, rate: float, clip_norm: float = 0.0) -> dict[str, Any]:
    """Return the loss of a small quadratic whose gradient arrives `scale` times too large, step by step."""
    right, wrong = (
        _losses(optimizer, lambda x, n=n: _clipped([n * each for each in _gradient(x)], clip_norm), rate)
        for n in (1.0, scale)
    )
    return {"steps": list(range(STEPS + 1)), "right": right, "wrong": wrong, "end_ratio": wrong[-1] / right[-1]}


def scales(
    mistake: str, ranks: int, micro_batches: int, clip_norm: float, optimizer: str, rate: float
) -> dict[str, Any]:
    """Return by what a mistake multiplies the first gradient, and both losses."""
    ones, clip_norm = [1.0] * len(CURVATURE), clip_norm if mistake == LOCAL else 0.0
    scale = {
        "none": 1.0,
        "summed over the ranks": ranks,
        "divided by the ranks twice": 1 / ranks,
        "micro-batches not divided": micro_batches,
        "both summed": ranks * micro_batches,
    }.get(mistake, 1.0)
    shown = {**descent(optimizer, scale, rate, clip_norm), "clip_norm": clip_norm, "offsets": _offsets(ranks)}
    first = [scale * each for each in _gradient(ones)]
    if mistake == BIAS:  # the last parameter is one; the output has it as often as there are ranks
        times = [1.0, 1.0, float(ranks)]
        shown["wrong"] = _losses(
            optimizer, lambda x: _gradient([a * b for a, b in zip(x, times, strict=True)]), rate, times
        )
        first = _gradient(times)
    if mistake == LOCAL:
        shown["wrong"] = _losses(optimizer, lambda x: _mean_of_clipped(x, ranks, clip_norm), rate)
        first = _mean_of_clipped(ones, ranks, clip_norm)
    right = _clipped(_gradient(ones), clip_norm)
    shown["parts"] = [a / b for a, b in zip(first, right, strict=True)]
    return {
        **shown,
        "scale": math.hypot(*first) / math.hypot(*right),
        "end_ratio": shown["wrong"][-1] / shown["right"][-1],
    }


def _gradient(x: list[float]) -> list[float]:
    return [curve * each for curve, each in zip(CURVATURE, x, strict=True)]


def _clipped(gradient: list[float], most: float) -> list[float]:
    """Return a gradient no longer than `most`; 0 stands for no limit."""
    norm = math.hypot(*gradient)
    return [most / norm * each for each in gradient] if 0 < most < norm else gradient


def _offsets(ranks: int) -> list[float]:
    """Return where the data of each rank has its minimum: the mean of all is 0."""
    return [ODD * (ranks - 1), *[-ODD] * (ranks - 1)]


def _mean_of_clipped(x: list[float], ranks: int, most: float) -> list[float]:
    parts = [_clipped(_gradient([each - offset for each in x]), most) for offset in _offsets(ranks)]
    return [sum(column) / ranks for column in zip(*parts, strict=True)]


def _losses(optimizer: str, of: Gradient, rate: float, times: Sequence[float] = (1.0, 1.0, 1.0)) -> list[float]:
    """Train with what `of` hands the optimizer; the loss sees each parameter so many `times`."""
    x, m, v = [1.0] * len(CURVATURE), [0.0] * len(CURVATURE), [0.0] * len(CURVATURE)
    losses = [_loss([a * b for a, b in zip(x, times, strict=True)])]
    for step in range(1, STEPS + 1):
        for i, gradient in enumerate(of(x)):
            if optimizer == "SGD":
                x[i] -= rate * gradient
                continue
            m[i], v[i] = 0.9 * m[i] + 0.1 * gradient, 0.999 * v[i] + 0.001 * gradient**2
            x[i] -= 0.1 * rate * (m[i] / (1 - 0.9**step)) / (math.sqrt(v[i] / (1 - 0.999**step)) + 1e-8)
        losses.append(min(_loss([a * b for a, b in zip(x, times, strict=True)]), 1e12))
    return losses


def _loss(x: list[float]) -> float:
    return sum(0.5 * curve * min(abs(each), 1e9) ** 2 for curve, each in zip(CURVATURE, x, strict=True))
