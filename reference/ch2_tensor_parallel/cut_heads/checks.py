"""Hidden checks of cut_heads, in teaching order: whose rows, few K/V heads, refusals, attention, merging, gradients."""

from __future__ import annotations

from typing import Any

import numpy as np

from grader.judging import Group, Student, assert_close, check, tensor

Array = np.ndarray[Any, Any]
HEAD_DIM = 3


def heads_of(n_heads: int, n_kv_heads: int, rank: int, world_size: int) -> tuple[list[int], list[int]]:
    """Return the query heads and the K/V heads of a rank, by the contract."""
    mine = range(rank * n_heads // world_size, (rank + 1) * n_heads // world_size)
    return list(mine), sorted({head // (n_heads // n_kv_heads) for head in mine})


def shard_of(weight: Array, n_heads: int, n_kv_heads: int, rank: int, world_size: int, turn: bool = False) -> Array:
    """Return the rows of a rank's heads; by `turn` heads are dealt out in turn instead, a mistake."""
    heads, kv = heads_of(n_heads, n_kv_heads, rank, world_size)
    if turn:
        heads = list(range(rank, n_heads, world_size))
        kv = list(range(rank, n_kv_heads, world_size)) or [rank % n_kv_heads]
    order = [*heads, *(n_heads + head for head in kv), *(n_heads + n_kv_heads + head for head in kv)]
    return weight.reshape(n_heads + 2 * n_kv_heads, HEAD_DIM, -1)[order].reshape(-1, weight.shape[1])


def draw(rng: np.random.Generator, n_heads: int, n_kv_heads: int) -> Array:
    """Draw a weight of four features."""
    return np.array(rng.normal(size=((n_heads + 2 * n_kv_heads) * HEAD_DIM, 4))).round(2)


def assert_shards(student: Student, rng: np.random.Generator, n_heads: int, n_kv_heads: int, world_size: int) -> None:
    """Compare every rank's shard with the rows of its heads."""
    weight = draw(rng, n_heads, n_kv_heads)
    shards = student.call("harness.shards", tensor(weight), n_heads, n_kv_heads, world_size).value
    for rank, shard in enumerate(shards):
        expected = shard_of(weight, n_heads, n_kv_heads, rank, world_size)
        mistakes = {
            f"a contiguous piece of the rows: number {rank} of {world_size}": np.array_split(weight, world_size)[rank],
            "heads dealt out in turn, not heads in a row": shard_of(
                weight, n_heads, n_kv_heads, rank, world_size, True
            ),
        }
        what = f"{n_heads} heads, {n_kv_heads} K/V heads: shard of rank {rank} of {world_size}"
        assert_close(shard, tensor(expected), what, mistakes=mistakes)


@check(
    hints=(
        "Write down the roles of the rows, Q, K, V and head, and draw your cut. What does rank 0 have?",
        "A rank needs the queries, keys and values of the same heads. In how many places of the weight do they lie?",
        "Separate the roles first, cut each of them by heads, and put this rank's pieces together.",
    )
)
def check_a_rank_holds_q_k_and_v_of_its_heads(student: Student, rng: np.random.Generator) -> None:
    """Each of one, two and three ranks has the rows of Q, K and V that belong to its heads."""
    for n_heads, world_size in ((2, 1), (2, 2), (6, 3)):
        assert_shards(student, rng, n_heads, n_heads, world_size)


@check(hints=("Q has more rows than K and V: reckon where each of the three begins from the rows of one head.",))
def check_grouped_queries_keep_their_keys(student: Student, rng: np.random.Generator) -> None:
    """With fewer K/V heads than query heads, each rank has those to which its queries attend."""
    for n_heads, n_kv_heads, world_size in ((8, 4, 2), (6, 3, 3), (8, 4, 4)):
        assert_shards(student, rng, n_heads, n_kv_heads, world_size)


@check(hints=("Two K/V heads for four ranks: which of them do the queries of rank 1 attend to, and who else's do?",))
def check_few_kv_heads_are_replicated(student: Student, rng: np.random.Generator) -> None:
    """With fewer K/V heads than ranks, each rank has the one to which its queries attend."""
    for n_heads, n_kv_heads, world_size in ((8, 2, 4), (8, 2, 8), (6, 1, 3), (12, 2, 6)):
        assert_shards(student, rng, n_heads, n_kv_heads, world_size)


@check(hints=("Six heads on four ranks, or three K/V heads on two: who gets what? Raise ValueError before cutting.",))
def check_what_cannot_be_cut_is_refused(student: Student) -> None:
    """Heads that do not go round over the ranks, or K/V heads that straddle them, are refused with a ValueError."""
    for n_heads, n_kv_heads, world_size in ((6, 2, 4), (6, 3, 2), (12, 4, 6), (4, 4, 8)):
        ended = student.call("harness.refusal", n_heads, n_kv_heads, world_size).value
        what = f"shard_qkv for {n_heads} heads and {n_kv_heads} K/V heads on {world_size} ranks"
        assert ended == "refused", f"{what} {ended}, expected a ValueError."


@check(hints=("attention was right in the starter: its scale is that of one head, whatever a rank holds.",))
def check_attention_side_by_side_is_whole(student: Student, rng: np.random.Generator) -> None:
    """The ranks' outputs side by side are the attention of one process, number by number."""
    for n_heads, n_kv_heads, world_size in ((6, 2, 1), (6, 3, 3), (8, 2, 4)):
        x, weight = np.array(rng.normal(size=(5, 4))), draw(rng, n_heads, n_kv_heads)
        arguments = (tensor(x), tensor(weight), n_heads, n_kv_heads, world_size)
        heads = (x @ weight.T).reshape(5, -1, HEAD_DIM)
        expected = []
        for head in range(n_heads):
            kv = n_heads + head // (n_heads // n_kv_heads)
            scores = heads[:, head] @ heads[:, kv].T / np.sqrt(HEAD_DIM) + np.triu(np.full((5, 5), -np.inf), 1)
            weights = np.exp(scores - scores.max(axis=1, keepdims=True))
            expected.append(weights / weights.sum(axis=1, keepdims=True) @ heads[:, kv + n_kv_heads])
        outputs = np.split(np.concatenate(expected, axis=1), world_size, axis=1)
        for rank, output in enumerate(student.call("harness.outputs", *arguments).value):
            assert_close(output, tensor(outputs[rank]), f"attention output of rank {rank} of {world_size}")


@check(
    hints=(
        "Put end to end, the shards read q k v, q k v. In which order do the rows of the whole weight come?",
        "Of a K/V head that lies on several ranks, one copy goes into the whole weight.",
    )
)
def check_merging_undoes_the_cut(student: Student, rng: np.random.Generator) -> None:
    """The shards of all ranks merge into the weight they were cut from, replicas counted once."""
    for n_heads, n_kv_heads, world_size in ((4, 2, 1), (4, 4, 2), (6, 3, 3), (8, 2, 4), (6, 1, 3)):
        weight = draw(rng, n_heads, n_kv_heads)
        shards = [shard_of(weight, n_heads, n_kv_heads, rank, world_size) for rank in range(world_size)]
        merged = student.call("merge_qkv", list(map(tensor, shards)), n_heads, n_kv_heads).value
        mistakes = {"the shards one after the other": np.concatenate(shards)}
        what = f"{n_heads} heads, {n_kv_heads} K/V heads: weight merged from {world_size} ranks"
        assert_close(merged, tensor(weight), what, mistakes=mistakes)


@check(
    hints=(
        "A replica met only the queries of its own rank. What is the gradient of the head of which it is a copy?",
        "Sum over the ranks that hold this head, over no others, and leave the query rows alone.",
        "Without groups of their own: put your rows at their head's place among zeros, and sum that over all ranks.",
    )
)
def check_replicas_share_one_gradient(student: Student, rng: np.random.Generator) -> None:
    """The K/V rows of a replicated head get the sum over its ranks; all other rows keep their gradient."""
    for n_heads, n_kv_heads, groups in (
        (8, 2, [(0, 1, 2, 3)] * 4),
        (6, 1, [(0, 1, 2)] * 3 + [(3, 4)] * 2),
        (4, 4, [(0, 1)] * 2),
    ):
        gradients = [draw(rng, n_heads // len(own), max(1, n_kv_heads // len(own))) for own in groups]
        per_rank = [(tensor(gradients[r]), n_heads, n_kv_heads, Group(own)) for r, own in enumerate(groups)]
        for result in student.simulated("harness.synced", per_rank):
            own, mine = groups[result.rank], gradients[result.rank]
            q_rows, replicas = n_heads // len(own) * HEAD_DIM, max(1, len(own) // n_kv_heads)
            first = own.index(result.rank) // replicas * replicas
            expected, held = mine.copy(), list(own[first : first + replicas])
            expected[q_rows:] = sum(gradients[rank][q_rows:] for rank in held)
            mean = np.concatenate([mine[:q_rows], expected[q_rows:] / replicas])
            mistakes = {"this rank's own gradient": mine, f"the mean over ranks {held}": mean}
            what = f"{n_heads} heads, {n_kv_heads} K/V heads: gradient of rank {result.rank} of {len(groups)}"
            assert_close(result.value[0], tensor(expected), what, mistakes=mistakes)
            assert_close(result.value[1], tensor(mine), f"{what} that was given, afterwards")
