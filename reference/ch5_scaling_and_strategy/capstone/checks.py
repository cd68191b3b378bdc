"""Hidden checks of the capstone, in teaching order: grid, start, one step, clip, held-out text, real ranks."""

from __future__ import annotations

from typing import Any

import numpy as np

from grader.judging import RankResult, Student, assert_close, assert_equal, check, tensor

Array = np.ndarray[Any, Any]
Weights = dict[str, Array]
COLUMNS, WIDTH, HEADS, TOKENS, RATE, NO_CLIP = 12, 8, 4, 5, 0.5, 1e9
PARTS = {"gradients": "gradient of", "pieces": "its piece of"}
BY_INPUTS, BY_OUTPUTS = {"out", "down"}, {"up", "head"}


def weights(rng: np.random.Generator) -> Weights:
    """Draw a model with one layer, in float64."""
    shapes = {"embedding": (COLUMNS, WIDTH), "place": (TOKENS, WIDTH), "norm1_0": (WIDTH,)}
    shapes |= {"qkv_0": (3 * WIDTH, WIDTH), "out_0": (WIDTH, WIDTH), "norm2_0": (WIDTH,)}
    shapes |= {"up_0": (16, WIDTH), "down_0": (WIDTH, 16), "norm": (WIDTH,), "head": (COLUMNS, WIDTH)}
    return {name: rng.normal(size=shape) / 2 for name, shape in shapes.items()}


def batches(rng: np.random.Generator, count: int, sequences: int = 2) -> list[tuple[Array, Array]]:
    """Draw `count` batches of (inputs, labels) [sequences, tokens]."""
    tokens = rng.integers(COLUMNS, size=(count, 2, sequences, TOKENS))
    return [(inputs, labels) for inputs, labels in tokens]


def loss_and_gradients(whole: Weights, inputs: Array, labels: Array) -> tuple[float, Weights]:
    """Return what torch says in one process, of tokens whose label is not -100."""
    import torch
    from torch.nn import functional

    w = {name: torch.tensor(value, requires_grad=True) for name, value in whole.items()}
    x = w["embedding"][torch.from_numpy(inputs)] + w["place"]
    qkv = functional.layer_norm(x, [WIDTH], w["norm1_0"]) @ w["qkv_0"].T
    q, k, v = (part.unflatten(2, (HEADS, -1)).transpose(1, 2) for part in qkv.chunk(3, dim=2))
    scores = (q @ k.mT / (WIDTH / HEADS) ** 0.5).masked_fill(torch.ones(TOKENS, TOKENS).triu(1) > 0, -torch.inf)
    x = x + (scores.softmax(dim=3) @ v).transpose(1, 2).flatten(2) @ w["out_0"].T
    x = x + functional.gelu(functional.layer_norm(x, [WIDTH], w["norm2_0"]) @ w["up_0"].T) @ w["down_0"].T
    logits = functional.layer_norm(x, [WIDTH], w["norm"]) @ w["head"].T
    loss = functional.cross_entropy(logits.flatten(0, 1), torch.from_numpy(labels).flatten())
    gradients = torch.autograd.grad(loss, list(w.values()))
    return loss.item(), {name: gradient.numpy() for name, gradient in zip(w, gradients, strict=True)}


def piece(name: str, value: Array, rank: int, size: int) -> Array:
    """Return what the member `rank` of a tensor group of `size` holds of a weight or its gradient."""
    kind = name.partition("_")[0]
    if kind == "qkv":
        heads = value.reshape(3, HEADS, -1, WIDTH)
        return np.split(heads, size, axis=1)[rank].reshape(-1, WIDTH)
    if kind in BY_INPUTS | BY_OUTPUTS:
        return np.split(value, size, axis=int(kind in BY_INPUTS))[rank]
    return value


def assert_pieces(result: RankResult, part: str, whole: Weights, tensor_size: int, where: str) -> None:
    """Compare this rank's pieces, or their gradients, with those of one process."""
    for name, value in whole.items():
        mine = piece(name, value, result.rank % tensor_size, tensor_size)
        assert_close(result.value[part][name], tensor(mine), f"{where}: {PARTS[part]} {name}", rtol=1e-9, atol=1e-11)


def take_steps(
    student: Student,
    whole: Weights,
    rounds: list[list[tuple[Array, Array]]],
    tensor_size: int,
    max_norm: float = NO_CLIP,
    verb: str = "simulated",
) -> list[RankResult]:
    """Take one step for each round, which holds one batch a replica, on all ranks."""
    own = [
        [(tensor(x), tensor(y)) for x, y in (batch[replica] for batch in rounds)] for replica in range(len(rounds[0]))
    ]
    per_rank = [(own[rank // tensor_size],) for rank in range(len(own) * tensor_size)]
    common = ({name: tensor(value) for name, value in whole.items()}, HEADS, tensor_size, RATE, max_norm)
    return getattr(student, verb)("harness.steps", per_rank, common=common)


def merged(batch: list[tuple[Array, Array]]) -> tuple[Array, Array]:
    """Return the batches of all replicas as one."""
    return np.concatenate([inputs for inputs, _ in batch]), np.concatenate([labels for _, labels in batch])


@check(
    hints=(
        "The example says how many data ranks and tensor ranks there are. Multiply.",
        "Number the ranks row by row in a grid that is `tensor_size` wide. Who holds the same pieces as rank 0?",
    )
)
def check_every_rank_has_its_two_groups(student: Student) -> None:
    """The tensor group is a row of the grid of ranks, and the data group a column."""
    for world_size, tensor_size in ((4, 2), (6, 3), (6, 2), (3, 1), (2, 2)):
        for result in student.simulated("harness.groups", [(tensor_size,)] * world_size):
            replica, place = divmod(result.rank, tensor_size)
            row = list(range(replica * tensor_size, (replica + 1) * tensor_size))
            where = f"rank {result.rank} of {world_size}, {tensor_size} tensor ranks:"
            assert_equal(str(sorted(result.value["tensor"])), str(row), f"{where} the tensor group")
            column = list(range(place, world_size, tensor_size))
            assert_equal(str(sorted(result.value["data"])), str(column), f"{where} the data group")


@check(hints=("setup copies from a group's first member to the others. Which ranks shall hold the same pieces?",))
def check_replicas_start_as_the_first_one(student: Student, rng: np.random.Generator) -> None:
    """Every rank starts with its own pieces of the first replica's weights."""
    for world_size, size in ((4, 2), (3, 1)):
        models = [weights(rng) for _ in range(world_size // size)]
        per_rank = [({n: tensor(v) for n, v in models[r // size].items()}, HEADS, 7, size) for r in range(world_size)]
        for result in student.simulated("harness.started", per_rank):
            where = f"rank {result.rank} of {world_size}, {size} tensor ranks"
            assert_pieces(result, "pieces", models[0], size, where)


@check(hints=("The ranks of a tensor group compute one batch together. What must their dice have in common?",))
def check_a_replica_draws_one_batch(student: Student, rng: np.random.Generator) -> None:
    """The ranks of a replica draw the same batch, and each replica draws another."""
    whole = {name: tensor(value) for name, value in weights(rng).items()}
    results = student.simulated("harness.started", [(whole, HEADS, 7, 2)] * 4)
    draws = [result.value["draws"].array.tolist() for result in results]
    for first, second in ((0, 1), (2, 3)):
        assert draws[first] == draws[second], f"Ranks {first} and {second} draw different batches for one replica."
    assert draws[0] != draws[2], "Ranks 0 and 2 are two replicas and draw the same batch, which then counts twice."


@check(
    hints=(
        "Which ranks' gradients belong to the same numbers? An average over any others mixes pieces.",
        "Each of the parts in `train_step` asks for a group. Does it get the one that it means?",
    )
)
def check_a_step_has_the_gradients_of_one_process(student: Student, rng: np.random.Generator) -> None:
    """One step on the grid has the loss and the gradients of one process with all batches."""
    for replicas, size in ((1, 4), (2, 2), (3, 1)):
        whole, batch = weights(rng), batches(rng, replicas)
        loss, gradients = loss_and_gradients(whole, *merged(batch))
        for result in take_steps(student, whole, [batch], size):
            where = f"rank {result.rank}, {replicas} data x {size} tensor ranks"
            assert_pieces(result, "gradients", gradients, size, where)
            assert_close(result.value["losses"], [loss], f"{where}: loss of the step", rtol=1e-9)


@check(
    hints=(
        "The norm is that of the whole gradient. Who holds parts of it, who holds copies, and when is it complete?",
        "Each replica has the whole gradient once its gradients are averaged: one tensor group, nobody else.",
    )
)
def check_the_clip_counts_every_number_once(student: Student, rng: np.random.Generator) -> None:
    """A step moves no weight further than the clipped gradient of one process."""
    whole, batch = weights(rng), batches(rng, 2)
    _, gradients = loss_and_gradients(whole, *merged(batch))
    norm = np.sqrt(sum((gradient**2).sum() for gradient in gradients.values()))
    moved = {name: whole[name] - RATE * gradient * 0.1 / norm for name, gradient in gradients.items()}
    for result in take_steps(student, whole, [batch], 2, max_norm=0.1):
        assert_pieces(result, "pieces", moved, 2, f"rank {result.rank}, 2 data x 2 tensor ranks, clipped to 0.1")


@check(
    hints=("Replicas have different numbers of tokens. Whose count divides the sum, and who would be counted twice?",)
)
def check_held_out_text_is_weighed_by_token(student: Student, rng: np.random.Generator) -> None:
    """The held-out loss is the mean over all tokens, however unevenly they lie."""
    whole, batch = weights(rng), batches(rng, 2)
    batch[0][1][0, 1:] = batch[1][1][1] = -100
    loss, _ = loss_and_gradients(whole, *merged(batch))
    per_rank = [((tensor(batch[r // 2][0]), tensor(batch[r // 2][1])),) for r in range(4)]
    common = ({name: tensor(value) for name, value in whole.items()}, HEADS, 2)
    for result in student.simulated("harness.unseen", per_rank, common=common):
        assert_close(result.value, loss, f"rank {result.rank}, 2 data x 2 tensor ranks: held-out loss", rtol=1e-9)


@check(hints=("The first step was right. What does the second begin with that it should not?",))
def check_four_real_ranks_stay_with_one_process(student: Student, rng: np.random.Generator) -> None:
    """On four ranks of gloo, three steps of SGD end where those of one process do."""
    whole, rounds = weights(rng), [batches(rng, 2) for _ in range(3)]
    alone, losses = dict(whole), []
    for batch in rounds:
        loss, gradients = loss_and_gradients(alone, *merged(batch))
        losses.append(loss)
        alone = {name: value - RATE * gradients[name] for name, value in alone.items()}
    for result in take_steps(student, whole, rounds, 2, verb="ranks"):
        where = f"rank {result.rank}, 2 data x 2 tensor ranks, after 3 steps"
        assert_close(result.value["losses"], losses, f"{where}: losses", rtol=1e-9)
        assert_pieces(result, "pieces", alone, 2, where)
