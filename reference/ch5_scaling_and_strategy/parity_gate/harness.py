"""Train a tiny language model in many ways, some legitimate and some not, and put each beside one process.

Everything is float32 numpy. A run has several ranks; `VARIANTS` says how each differs from the plain run: in the shares
of the batch, in how sums are formed, or by a mistake that one of this course's exercises is about.
"""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
Tensors = dict[str, Array]
STEPS, SAMPLES, WORDS, HIDDEN, WIDE = 3, 24, 12, 8, 16
LEARNING_RATE, EPSILON = 1e-2, 1e-4


def start(rng: np.random.Generator) -> Tensors:
    """Return initial parameters, in the order in which the model uses them."""
    shapes = {"embedding": (WORDS, HIDDEN), "norm": (HIDDEN,), "up": (HIDDEN, WIDE), "up_bias": (WIDE,)}
    shapes |= {"down": (WIDE, HIDDEN), "down_bias": (HIDDEN,), "faint": (HIDDEN, HIDDEN)}
    drawn = {name: rng.normal(scale=0.4, size=shape).astype(np.float32) for name, shape in shapes.items()}
    return drawn | {"norm": drawn["norm"] + 1, "shift": np.full(1, 2.0, np.float32)}


def gradients(
    p: Tensors,
    words: Array,
    labels: Array,
    *,
    shards: int = 1,
    biases: int = 1,
    partial: bool = False,
    ends: bool = True,
) -> tuple[float, Tensors]:
    """Return the sum of the samples' losses and of their gradients.

    `shards` splits the wide layer as tensor parallelism does. Mistakes: `biases` adds the second bias so often,
    `partial` hands back the first shard's part of an input gradient, `ends` False forgets the tied logits' gradient.
    """
    n, faint = len(words), np.float32(1e-4)
    x = p["embedding"][words]
    rms = np.sqrt((x * x).mean(axis=1, keepdims=True) + np.float32(1e-5))
    xn = x / rms
    u = xn * p["norm"]
    cuts = np.array_split(np.arange(WIDE), shards)
    active = [np.maximum(u @ p["up"][:, c] + p["up_bias"][c], 0) for c in cuts]
    y = x + sum(a @ p["down"][c] for a, c in zip(active, cuts, strict=True)) + biases * p["down_bias"]
    z = y + faint * (u @ p["faint"])
    logits = z @ p["embedding"].T + p["shift"]
    e = np.exp(logits - logits.max(axis=1, keepdims=True))
    q = e / e.sum(axis=1, keepdims=True)
    loss = float(-np.log(q[np.arange(n), labels]).sum())
    dl = q.copy()
    dl[np.arange(n), labels] -= 1
    dz = dl @ p["embedding"]
    g: Tensors = {
        "shift": dl.sum(keepdims=True).reshape(1),
        "faint": faint * (u.T @ dz),
        "down_bias": dz.sum(axis=0) * biases,
    }
    das = [(dz @ p["down"][c].T) * (a > 0) for a, c in zip(active, cuts, strict=True)]
    g["down"] = np.concatenate([a.T @ dz for a in active])
    g["up"] = np.concatenate([u.T @ da for da in das], axis=1)
    g["up_bias"] = np.concatenate([da.sum(axis=0) for da in das])
    backs = [da @ p["up"][:, c].T for da, c in zip(das, cuts, strict=True)]
    du = sum(backs[:1] if partial else backs) + faint * (dz @ p["faint"].T)
    g["norm"] = (du * xn).sum(axis=0)
    dxn = du * p["norm"]
    dx = dz + (dxn - xn * (dxn * xn).mean(axis=1, keepdims=True)) / rms
    g["embedding"] = dl.T @ z if ends else np.zeros_like(p["embedding"])
    np.add.at(g["embedding"], words, dx)
    return loss, {name: g[name].astype(np.float32) for name in p}


def added(sums: list[Tensors]) -> Tensors:
    """Add gradients up, one after the other."""
    total = {name: value.copy() for name, value in sums[0].items()}
    for part in sums[1:]:
        for name, value in part.items():
            total[name] += value
    return total


def bfloat16(value: Array) -> Array:
    """Round to bfloat16."""
    bits = value.astype(np.float32).view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) & np.uint32(0xFFFF0000)).astype(np.uint32).view(np.float32)


class Run:
    """A training run: `ranks` replicas that share each step's samples out, `micro` micro-batches on each."""

    def __init__(self, seed: int, ranks: int = 1, micro: int = 1, shares: list[int] | None = None, **how: Any) -> None:
        """Start all ranks from the same parameters; `how` goes to `gradients`."""
        rng = np.random.default_rng(seed)
        first = start(rng)
        self.words, self.labels = rng.integers(WORDS, size=(2, STEPS, SAMPLES))
        self.parameters = [{name: value.copy() for name, value in first.items()} for _ in range(ranks)]
        self.moments = [{name: (np.zeros_like(v), np.zeros_like(v)) for name, v in first.items()} for _ in range(ranks)]
        self.shares = np.cumsum(shares or [SAMPLES // ranks] * ranks)[:-1]
        self.ranks, self.micro, self.how, self.step = ranks, micro, how, 0

    def parts(self) -> list[list[Array]]:
        """Return, rank by rank, each micro-batch's samples."""
        return [np.array_split(mine, self.micro) for mine in np.split(np.arange(SAMPLES), self.shares)]

    def sums(self, rank: int, samples: Array) -> Tensors:
        """Return the sum of the gradients of some samples with a rank's parameters."""
        words, labels = self.words[self.step][samples], self.labels[self.step][samples]
        return gradients(self.parameters[rank], words, labels, **self.how)[1]

    def logged(self) -> float:
        """Return the mean loss of all samples, each on its own rank."""
        at = [(rank, np.concatenate(mine)) for rank, mine in enumerate(self.parts())]
        words, labels = self.words[self.step], self.labels[self.step]
        return sum(gradients(self.parameters[r], words[i], labels[i], **self.how)[0] for r, i in at) / SAMPLES

    def local(self) -> list[Tensors]:
        """Return each rank's sum of gradients over its samples."""
        return [added([self.sums(rank, samples) for samples in mine]) for rank, mine in enumerate(self.parts())]

    def synchronized(self) -> list[Tensors]:
        """Return the mean over all samples, on every rank."""
        total = added(self.local())
        return [{name: value / np.float32(SAMPLES) for name, value in total.items()} for _ in range(self.ranks)]

    def update(self, rank: int, name: str, gradient: Array) -> None:
        """Take a step of Adam."""
        first, second = self.moments[rank][name]
        first += np.float32(0.1) * (gradient - first)
        second += np.float32(0.001) * (gradient * gradient - second)
        t = self.step + 1
        root = np.sqrt(second / np.float32(1 - 0.999**t)) + np.float32(EPSILON)
        self.parameters[rank][name] -= np.float32(LEARNING_RATE) * (first / np.float32(1 - 0.9**t)) / root


Synchronize = Callable[[Run], list[Tensors]]


def scaled(factor: float) -> Synchronize:
    """Multiply the right gradients."""
    return lambda run: [{name: v * np.float32(factor) for name, v in g.items()} for g in run.synchronized()]


def only_from(rank: int, wrong: Callable[[Run, Tensors, Tensors], Tensors]) -> Synchronize:
    """Replace gradients from a rank on: `wrong` gets the run, the right ones and the rank's own sum."""

    def synchronize(run: Run) -> list[Tensors]:
        local = run.local()
        total = added(local)
        right = {name: value / np.float32(SAMPLES) for name, value in total.items()}
        return [wrong(run, right, own) if r >= rank else right for r, own in enumerate(local)]

    return synchronize


def own(run: Run, right: Tensors, mine: Tensors, *names: str) -> Tensors:
    """Return the right gradients, but the rank's own mean for some names."""
    return right | {name: mine[name] * np.float32(run.ranks / SAMPLES) for name in names}


def mean_of_means(run: Run) -> list[Tensors]:
    """Give each rank one vote, whatever its share."""
    counts = [sum(map(len, mine)) for mine in run.parts()]
    means = [
        {name: v / np.float32(c * run.ranks) for name, v in g.items()} for g, c in zip(run.local(), counts, strict=True)
    ]
    return [added(means)] * run.ranks


def without_some(run: Run) -> list[Tensors]:
    """Divide the first half of each rank's samples by their own number: the rest was dropped."""
    sums = [run.sums(rank, np.concatenate(mine)[: SAMPLES // (2 * run.ranks)]) for rank, mine in enumerate(run.parts())]
    return [{name: v / np.float32(SAMPLES // 2) for name, v in added(sums).items()}] * run.ranks


def padded(run: Run) -> list[Tensors]:
    """Repeat the first sample so that all ranks have equally many, and count it twice."""
    total = added([*run.local(), run.sums(0, np.array([0]))])
    return [{name: value / np.float32(SAMPLES + 1) for name, value in total.items()}] * run.ranks


def in_bfloat16(run: Run) -> list[Tensors]:
    """Round to bfloat16 before each addition and after it."""
    total = {name: bfloat16(value) for name, value in run.local()[0].items()}
    for part in run.local()[1:]:
        total = {name: bfloat16(value + bfloat16(part[name])) for name, value in total.items()}
    return [{name: value / np.float32(SAMPLES) for name, value in total.items()}] * run.ranks


def clipped(whole: bool) -> Synchronize:
    """Clip by the norm of all gradients, or by that of the rank's share of the tensors."""

    def synchronize(run: Run) -> list[Tensors]:
        right = run.synchronized()[0]
        squares = {name: float((value.astype(np.float64) ** 2).sum()) for name, value in right.items()}
        names = list(squares)
        held = [
            names if whole else [n for i, n in enumerate(names) if i % run.ranks == i_rank]
            for i_rank in range(run.ranks)
        ]
        scales = {n: 0.05 / np.sqrt(sum(squares[m] for m in mine)) for mine in held for n in mine}
        return [{name: value * np.float32(min(1.0, scales[name])) for name, value in right.items()}] * run.ranks

    return synchronize


def last_window(run: Run) -> list[Tensors]:
    """Divide the last, shorter accumulation window like a full one."""
    return scaled(0.5 if run.step == STEPS - 1 else 1.0)(run)


def overflowing(run: Run) -> list[Tensors]:
    """Return NaN where an infinite sum was scaled by zero."""
    right = run.synchronized()
    if run.step == 1:
        right[-1]["up"] = np.full_like(right[-1]["up"], np.nan)
    return right


def added_in_float64(run: Run) -> list[Tensors]:
    """Add in double precision, the last rank first, and round once."""
    wide = [{name: value.astype(np.float64) for name, value in part.items()} for part in run.local()[::-1]]
    return [{name: (value / SAMPLES).astype(np.float32) for name, value in added(wide).items()}] * run.ranks


def divided_first(run: Run) -> list[Tensors]:
    """Divide each rank's sum before adding, in pairs."""
    parts = [{name: value / np.float32(SAMPLES) for name, value in part.items()} for part in run.local()]
    while len(parts) > 1:
        parts = [added(parts[i : i + 2]) for i in range(0, len(parts), 2)]
    return [parts[0]] * run.ranks


Variant = tuple[dict[str, Any], Synchronize]
PLAIN: Synchronize = Run.synchronized
VARIANTS: dict[str, Variant] = {
    # legitimate: the same sums in another order
    "two ranks": ({"ranks": 2}, PLAIN),
    "uneven shares, weighted by their samples": ({"ranks": 5, "shares": [7, 5, 5, 4, 3]}, PLAIN),
    "four micro-batches on three ranks": ({"ranks": 3, "micro": 4}, PLAIN),
    "a wide layer on two tensor-parallel shards": ({"shards": 2}, PLAIN),
    "a wide layer on four shards, two ranks": ({"shards": 4, "ranks": 2}, PLAIN),
    "sums in float64, last rank first": ({"ranks": 4}, added_in_float64),
    "divided before the sum, added in pairs": ({"ranks": 8}, divided_first),
    "clipped by the norm of all shards": ({"ranks": 3}, clipped(True)),
    "two stages, each with its own tensors": ({"ranks": 2}, PLAIN),
    # mistakes
    "mean_gradients: the sum over the ranks": ({"ranks": 4}, scaled(4.0)),
    "divide_loss_once: micro-batches not divided": ({"ranks": 2, "micro": 3}, scaled(3.0)),
    "reduce_scatter_scale: divided twice": ({"ranks": 4}, scaled(0.25)),
    "token_weighted_loss: a mean of means": ({"ranks": 2, "shares": [16, 8]}, mean_of_means),
    "uneven_ranks: padding counted": ({"ranks": 5, "shares": [5, 5, 5, 5, 4]}, padded),
    "accumulate_once: half of the batch dropped": ({"ranks": 2}, without_some),
    "reduce_scatter_scale: reduced in bfloat16": ({"ranks": 8}, in_bfloat16),
    "buckets_in_flight: one bucket not waited for": (
        {"ranks": 3}, only_from(2, lambda run, right, mine: own(run, right, mine, "down", "down_bias"))),
    "sequence_parallel_norms: a norm's gradient not reduced": (
        {"ranks": 2}, only_from(0, lambda run, right, mine: own(run, right, mine, "norm"))),
    "sequence_parallel_norms: not reduced on rank 1": (
        {"ranks": 2}, only_from(1, lambda run, right, mine: own(run, right, mine, "norm"))),
    "buckets_in_flight: a faint tensor not reduced": (
        {"ranks": 2}, only_from(0, lambda run, right, mine: own(run, right, mine, "faint"))),
    "shared_start: rank 1 starts elsewhere": ({"ranks": 2}, PLAIN),
    "bias_once: a bias on both shards": ({"ranks": 2, "shards": 2, "biases": 2}, PLAIN),
    "conjugate_operators: a partial input gradient": ({"ranks": 2, "shards": 2, "partial": True}, PLAIN),
    "tied_ends: the logits' gradient lost": ({"ranks": 2, "ends": False}, PLAIN),
    "one_global_norm: clipped by a shard's norm": ({"ranks": 3}, clipped(False)),
    "accumulate_once: the last window divided by all": ({"ranks": 2}, last_window),
    "sharded_optimizer: a stale shard on rank 1": ({"ranks": 2}, PLAIN),
    "shards_with_a_tail: the tail never updated": ({"ranks": 2}, PLAIN),
    "a NaN on the last rank": ({"ranks": 2}, overflowing),
}  # fmt: skip
STAGES = ({"embedding", "norm", "up", "up_bias"}, {"embedding", "down", "down_bias", "faint", "shift"})


def trace(name: str | None, seed: int, **other: Any) -> dict[str, Any]:
    """Return what was recorded of a variant, or of one process."""
    how, synchronize = VARIANTS[name] if name else ({}, PLAIN)
    run, words = Run(seed, **(how | other)), name or ""
    recorded: dict[str, Any] = {"losses": [], "gradients": [], "parameters": []}
    if words.startswith("shared_start"):
        run.parameters[1]["up"] += np.float32(0.05)
    for run.step in range(STEPS):
        recorded["losses"].append(run.logged())
        found = synchronize(run)
        for rank, own_gradients in enumerate(found):
            for tensor, gradient in own_gradients.items():
                before = run.parameters[rank][tensor].copy()
                run.update(rank, tensor, gradient)
                if words.startswith("shards_with_a_tail") and tensor == "down":
                    run.parameters[rank][tensor][-2:] = before[-2:]
                if words.startswith("sharded_optimizer") and rank == 1 and tensor == "up_bias":
                    run.parameters[rank][tensor][:] = before
        copies = [{tensor: value.copy() for tensor, value in held.items()} for held in run.parameters]
        recorded["gradients"].append([dict(own_gradients) for own_gradients in found])
        recorded["parameters"].append(copies)
    if words.startswith("two stages"):
        for kind in ("gradients", "parameters"):
            pairs = [zip(ranks, STAGES, strict=True) for ranks in recorded[kind]]
            recorded[kind] = [[{n: held[n] for n in held if n in stage} for held, stage in pair] for pair in pairs]
    return recorded


def reference_of(name: str, seed: int) -> dict[str, Any]:
    """Return what one process does for a variant: where that clips, it clips by the norm of all gradients."""
    if "clipped" in name:
        return trace("clipped by the norm of all shards", seed, ranks=1)
    return trace(None, seed)


def judged(submission: ModuleType, names: list[str], seed: int, loss_scale: float = 1.0) -> list[Any]:
    """Return what the gate says of each variant; gradients carry a loss scale, the same in both runs."""
    verdicts = []
    for name in names:
        pair = reference_of(name, seed), trace(name, seed)
        for recorded in pair:
            for held in (tensors for ranks in recorded["gradients"] for tensors in ranks):
                held.update({tensor: value * np.float32(loss_scale) for tensor, value in held.items()})
        verdicts.append(submission.parity(*pair))
    return verdicts


def flagged(submission: ModuleType, ranks_shown: float) -> int:
    """Return how many of the mistakes the gate flags if it is shown so many of the ranks at most."""
    mistakes, count = [name for name in VARIANTS if ": " in name or "NaN" in name], 0
    for name in mistakes:
        shown = trace(name, 0)
        for kind in ("gradients", "parameters"):
            shown[kind] = [ranks[: int(ranks_shown)] for ranks in shown[kind]]
        count += submission.parity(reference_of(name, 0), shown) is not None
    return count


def edited(submission: ModuleType, edits: list[list[Any]], seed: int) -> Any:
    """Return what the gate says of a run of three equal ranks and three steps that has been edited.

    An edit is a kind, a step, a rank (-1 for all), a name, and what happens to the tensor: "add" to its last element,
    "NaN" in its first, "drop" it, "fill" it or "zero" it, in the reference too, keep "one" of it; "cut" ends the trace.
    """
    rng = np.random.default_rng(seed)
    drawn = [
        {n: rng.normal(size=s).astype(np.float32) for n, s in (("a", (2, 3)), ("z", (4,)))} for _ in range(2 * STEPS)
    ]
    one = {
        "losses": [1.0] * STEPS,
        "gradients": [[t] for t in drawn[:STEPS]],
        "parameters": [[t] for t in drawn[STEPS:]],
    }
    three: dict[str, Any] = {"losses": [1.0] * STEPS}
    for kind in ("gradients", "parameters"):
        three[kind] = [[{n: v.copy() for n, v in held.items()} for held in ranks * 3] for ranks in one[kind]]
    for kind, step, rank, name, change in edits:
        if change == "cut":
            three[kind] = three[kind][:step]
            continue
        expected = one[kind][step][0]
        for held in three[kind][step][slice(rank, rank + 1) if rank >= 0 else slice(None)]:
            edit(held, expected, name, change)
    try:
        return submission.parity(one, three)
    except ValueError:
        return "refused"


def edit(held: Tensors, expected: Tensors, name: str, change: str) -> None:
    """Change one tensor of one rank."""
    if change == "add":
        held[name].flat[-1] += 0.5
    elif change == "NaN":
        held[name].flat[0] = np.nan
    elif change == "drop":
        del held[name]
    elif change == "one":
        held[name] = held[name].ravel()[:1].copy()
    else:
        expected[name][:] = held[name][:] = 2 if change == "fill" else 0
