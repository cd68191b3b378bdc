"""Hidden checks of optimizer_after_sharding, in teaching order: training, groups, moments, what is held, ties."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from grader.judging import Student, assert_close, assert_equal, check, tensor

Arrays = dict[str, np.ndarray[Any, Any]]
Groups = list[tuple[list[str], dict[str, float]]]

LINEAR = [f"blocks.{i}.linear.{part}" for i in range(2) for part in ("weight", "bias")]
PARTS = ["embedding.weight", *LINEAR, "head.weight"]
ADAMW = {"lr": 0.02, "weight_decay": 0.3}


def drawn(rng: np.random.Generator, tied: bool = False) -> Arrays:
    """Return values of a model with 7 tokens and 3 features, so that no number of ranks but 7 divides its rows."""
    shapes = {name: (3,) if name.endswith("bias") else (3, 3) for name in LINEAR}
    shapes |= {"embedding.weight": (7, 3)} if tied else {"embedding.weight": (7, 3), "head.weight": (7, 3)}
    return {name: rng.normal(size=shapes[name]) for name in PARTS if name in shapes}


def gradients(w: Arrays, tokens: Any) -> Arrays:
    """Return the gradients of half the mean square of a batch's logits, by numpy; others than the model's are 1."""
    xs, head = [w["embedding.weight"][tokens]], w.get("head.weight", w["embedding.weight"])
    for i in range(2):
        xs.append(np.tanh(xs[-1] @ w[f"blocks.{i}.linear.weight"].T + w[f"blocks.{i}.linear.bias"]))
    dlogits, found = xs[-1] @ head.T / len(tokens), {name: np.ones_like(value) for name, value in w.items()}
    found["embedding.weight"] = np.zeros_like(head)
    found["head.weight" if "head.weight" in w else "embedding.weight"] = dlogits.T @ xs[-1]
    dx = dlogits @ head
    for i in (1, 0):
        dz = dx * (1 - xs[i + 1] ** 2)
        found[f"blocks.{i}.linear.weight"], found[f"blocks.{i}.linear.bias"] = dz.T @ xs[i], dz.sum(axis=0)
        dx = dz @ w[f"blocks.{i}.linear.weight"]
    np.add.at(found["embedding.weight"], tokens, dx)
    return found


def adamw(values: Arrays, groups: Groups, steps: Sequence[Any]) -> Arrays:
    """Return the parameters after AdamW's steps, each with the mean gradient of its batches."""
    w, moments = dict(values), dict.fromkeys(values, (0.0, 0.0))
    options = {name: (o["lr"], o["weight_decay"]) for names, o in groups for name in names}
    for t, batches in enumerate(steps, 1):
        means = [gradients(w, batch) for batch in batches]
        for name, (lr, decay) in options.items():
            g = np.mean([each[name] for each in means], axis=0)
            m, v = 0.9 * moments[name][0] + 0.1 * g, 0.999 * moments[name][1] + 0.001 * g * g
            moments[name] = m, v
            w[name] = w[name] * (1 - lr * decay) - lr * m / (1 - 0.9**t) / (np.sqrt(v / (1 - 0.999**t)) + 1e-8)
    return w


def assert_trained(
    run: Any, rng: np.random.Generator, ranks: int, values: Arrays, groups: Groups, before: int = 0, device: str = "cpu"
) -> None:
    """Train on some ranks, each with its own batches, and compare all parameters of all ranks with one process."""
    early, own = rng.integers(7, size=(before, 4)), rng.integers(7, size=(ranks, 2, 4))
    first, rest = [[batch] for batch in early], list(own.transpose(1, 0, 2))
    start, expected = adamw(values, groups, first), adamw(values, groups, [*first, *rest])
    forgetful = adamw(start, groups, rest)
    common = ({n: tensor(v) for n, v in values.items()}, groups, [tensor(b) for b in early], device)
    for result in run("harness.trained", [([tensor(b) for b in batches],) for batches in own], common=common):
        where = f"{ranks} ranks, rank {result.rank}"
        assert_equal(sorted(result.value), sorted(values), f"{where}: the list of the model's parameters")
        for name, right in expected.items():
            known = {"its value before sharding": start[name]}
            known |= {"what moments that begin at zero would give": forgetful[name]} if before else {}
            assert_close(result.value[name], tensor(right), f"{where}: {name}", mistakes=known)


@check(
    hints=(
        "After backward, which tensors have a gradient? Are these the tensors that the optimizer steps?",
        "Compare a parameter's id() before and after fully_shard. `optimizer.param_groups` may be changed in place.",
    )
)
def check_the_model_trains(student: Student, rng: np.random.Generator) -> None:
    """On one and two ranks two AdamW steps after sharding give the weights of one process with all batches."""
    for ranks in (1, 2):
        assert_trained(student.simulated, rng, ranks, drawn(rng), [(PARTS, ADAMW)])


@check(
    hints=(
        "Weights decay, biases do not: each parameter has to return to the group that it was in.",
        "What do a parameter and its successor have in common? The name under which the model knows them.",
    )
)
def check_groups_keep_their_options(student: Student, rng: np.random.Generator) -> None:
    """Matrices with decay and biases without it, in groups of an order of their own, train on three ranks."""
    biases = {"lr": 0.05, "weight_decay": 0.0}
    groups = [(LINEAR[3::-2], biases), ([*LINEAR[2::-2], "head.weight", "embedding.weight"], ADAMW)]
    assert_trained(student.simulated, rng, 3, drawn(rng), groups)


@check(hints=("Who was in no group stays out. What is not the model's has no successor, and stays in.",))
def check_groups_keep_their_members(student: Student, rng: np.random.Generator) -> None:
    """What was in no group is not trained afterwards, and what is not the model's is trained on."""
    values = drawn(rng) | {"temperature": rng.normal(size=2)}
    groups = [([LINEAR[0], "temperature", LINEAR[3]], ADAMW)]
    assert_trained(student.simulated, rng, 2, values, groups)


@check(
    hints=(
        "An optimizer that has stepped has moments. By what does `optimizer.state` find those of a parameter?",
        "A moment is used element by element with its parameter, so it has to be cut as that is cut.",
        "distribute_tensor(whole, parameter.device_mesh, parameter.placements) cuts. The counter of steps is a number.",
    )
)
def check_moments_come_along(student: Student, rng: np.random.Generator) -> None:
    """After two steps before sharding, training goes on with the moments and counters that it had."""
    assert_trained(student.simulated, rng, 2, drawn(rng), [(PARTS, ADAMW)], before=2)


@check(
    hints=(
        "Whatever refers to an old parameter keeps all of it in memory: a group, a key of the state, a list of yours.",
        "A moment that is whole on every rank is right, and not sharded. So is a view into the whole.",
    ),
    judged_by="observation",
)
def check_nothing_whole_is_left(student: Student) -> None:
    """On four ranks the optimizer keeps a quarter of parameters and moments, and nothing from before is in memory."""
    size = 2 * 40 * 8 + 2 * (8 * 8 + 8)
    for result in student.simulated("harness.held", [(40, 8)] * 4):
        elements, ghosts, of = result.value
        who, told = f"rank {result.rank} of 4", f"{3 * size} elements of parameters and moments in all"
        assert elements == 3 * size // 4, f"{who}: the optimizer keeps {elements} of {told}, expected {3 * size // 4}."
        assert ghosts == 0, f"{who}: {ghosts} of {of} parameters and moments from before sharding are still in memory."


@check(hints=("The head is the embedding: one object in two places. How often may it stand in a group?",))
def check_a_tied_weight_stays_one(student: Student, rng: np.random.Generator) -> None:
    """A head tied to the embedding trains as one weight, also in a model that gets its memory after sharding."""
    for device in ("cpu", "meta"):
        assert_trained(student.simulated, rng, 2, drawn(rng, tied=True), [(PARTS[:-1], ADAMW)], device=device)


@check(hints=("All ranks must reach the same collectives in the same order.",), guards="gloo")
def check_real_ranks_agree(student: Student, rng: np.random.Generator) -> None:
    """Two real ranks train as one process does."""
    assert_trained(student.ranks, rng, 2, drawn(rng, tied=True), [(PARTS[:-1], ADAMW)], before=1)
