"""Hidden checks of elementwise_or_not, in teaching order: the property, LARS, Muon."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from grader.judging import Group, RankResult, Student, assert_close, assert_equal, check, tensor

Array = np.ndarray[Any, Any]
SHAPES = ((7, 4), (2, 3), (3, 5))  # one taller than wide, one with fewer rows than ranks
MIXED = [Group(members) for members in ((0, 2, 3), (1, 4), (0, 2, 3), (0, 2, 3), (1, 4))]
GROUPS = ([Group()], [Group()] * 2, [Group()] * 5, MIXED)


def shard(whole: Array, member: int, members: int) -> Array:
    """Return one of `members` pieces of ceil(rows / members) rows, zeros behind the end."""
    return np.pad(whole, ((0, -len(whole) % members), (0, 0))).reshape(members, -1, whole.shape[1])[member]


def by_numpy(rule: str, weight: Array, gradients: Sequence[Array]) -> tuple[Array, Array]:
    """Return weight and moment after steps with the harness's options; Muon's by singular values."""
    moment = np.zeros_like(weight)
    for g in gradients:
        norms = np.linalg.norm(weight), np.linalg.norm(g)
        ratio = 0.3 * norms[0] / (norms[1] + 0.1 * norms[0]) if min(norms) > 0 else 1.0
        moment = 0.8 * moment + (ratio * (g + 0.1 * weight) if rule == "lars" else g)
        u, s, v = np.linalg.svd(moment, full_matrices=False)
        s = s / (np.linalg.norm(moment) + 1e-7)
        for _ in range(5):
            s = 3.4445 * s - 4.7750 * s**3 + 2.0315 * s**5
        muon = max(1.0, len(g) / g.shape[1]) ** 0.5 * (u * s) @ v
        weight = weight - 0.5 * (moment if rule == "lars" else muon)
    return weight, moment


def assert_stepped(run: Any, rng: np.random.Generator, rule: str, groups: Sequence[Group]) -> None:
    """Step shards twice on all ranks, each group with tensors of its own, and compare with steps of whole tensors."""
    data = {group: [(rng.normal(size=s), list(rng.normal(size=(2, *s)))) for s in SHAPES] for group in set(groups)}
    for tensors in data.values():
        tensors[1][0][:] = 0  # as biases are at first
    sent = {g: [(tensor(w), [tensor(x) for x in xs]) for w, xs in tensors] for g, tensors in data.items()}
    for result in run("harness.stepped", [(rule, sent[group], group) for group in groups]):
        members = groups[result.rank].ranks or range(len(groups))
        place = members.index(result.rank), len(members)
        for i, (weight, gradients) in enumerate(data[groups[result.rank]]):
            alone = by_numpy(rule, shard(weight, *place), [shard(g, *place) for g in gradients])
            for kind, whole in enumerate(by_numpy(rule, weight, gradients)):
                what = f"{place[1]} ranks, rank {result.rank}: {('weight', 'moment')[kind]} {i} after two steps"
                known = {"what steps of this rank's shard alone would give": alone[kind]}
                assert_close(result.value[i][kind], tensor(shard(whole, *place)), what, mistakes=known)


def sent_bytes(result: RankResult) -> float:
    """Return the bytes that leave a rank: its shares for others where it deals, its part for a root, else a ring's."""
    sent = 0.0
    for call in result.calls:
        dealt, given = call.payload_bytes * (1 - 1 / len(call.group)), call.payload_bytes * (call.peer != result.rank)
        sent += {"scatter": dealt, "all_to_all": dealt, "gather": given}.get(call.op, call.ring_bytes)
    return sent


@check(
    hints=(
        "Step a weight as a whole, and its pieces one by one with new state each. What must be equal?",
        "A step may overwrite its gradient, and it rounds: clone before stepping twice, and compare with a tolerance.",
    )
)
def check_elementwise_steps_are_known(student: Student) -> None:
    """SGD, with decay or momentum, Adam, sign and clipping of elements are elementwise."""
    for name in ("sgd", "decayed_sgd", "momentum", "adam", "sign", "clamped"):
        assert_equal(student.call("harness.judged", name).value, True, f"is_elementwise({name})")


@check(
    hints=(
        "That a step runs on a shard says nothing of what it computes there. With what can its result be compared?",
        "Cut a weight, step the pieces one by one, and compare with the pieces of the weight that was stepped whole.",
        "Some couple within a row, some large gradients only, some from the second step on: vary pieces, sizes, steps.",
    )
)
def check_couplings_are_found(student: Student) -> None:
    """Steps by norms, means or factored means are not, nor those that couple rows, large gradients or later steps."""
    for name in ("lars", "centered", "factored", "normalized_rows", "clipped", "late"):
        assert_equal(student.call("harness.judged", name).value, False, f"is_elementwise({name})")


@check(
    hints=(
        "The ratio of LARS belongs to a tensor. Of which tensor are the norms that you take?",
        "Squares of norms add up over the shards in `group`, of weights and of gradients. Roots come afterwards.",
    )
)
def check_lars_uses_the_norms_of_tensors(student: Student, rng: np.random.Generator) -> None:
    """On 1 to 5 ranks, in subgroups too, shards take the step of whole tensors; one is all zeros at first."""
    for groups in GROUPS:
        assert_stepped(student.simulated, rng, "lars", groups)


@check(hints=("Add up at home for all tensors, then one collective takes all numbers together.",), judged_by="network")
def check_lars_sends_two_numbers_a_tensor(student: Student, rng: np.random.Generator) -> None:
    """In a step of LARS a rank takes part in one collective, of two numbers a tensor."""
    sent = [(tensor(rng.normal(size=(6, 2))), [tensor(rng.normal(size=(6, 2)))]) for _ in range(10)]
    for result in student.simulated("harness.stepped", [("lars", sent, Group())] * 3):
        sizes = [call.payload_bytes // 8 for call in result.calls]
        what = f"rank {result.rank}, 10 tensors: collectives of {sizes[:12]} numbers"
        assert len(sizes) == 1, f"{what}, expected one."
        assert sizes[0] <= 20, f"{what}, expected 20 at most, two a tensor."


@check(
    hints=(
        "Rows of an orthogonalized matrix depend on all other rows. Where do all of them have to come together?",
        "Gather the moment's shards on one rank of `group`, orthogonalize there, and scatter shards of the result.",
        "Rows of padding are zeros and stay zeros, but the scale counts the rows without them.",
    )
)
def check_muon_orthogonalizes_whole_matrices(student: Student, rng: np.random.Generator) -> None:
    """On 1 to 5 ranks, in subgroups too, shards take the step of whole matrices."""
    for groups in GROUPS:
        assert_stepped(student.simulated, rng, "muon", groups)


@check(hints=("Who needs all of a matrix? The others need their own rows of the result.",), judged_by="network")
def check_matrices_travel_once(student: Student) -> None:
    """All ranks together send at most twice the elements of all matrices."""
    for ranks in (4, 5):
        results = student.simulated("harness.metered", [([10] * 6, 8, Group())] * ranks)
        sent, most = round(sum(map(sent_bytes, results)) / 8), 2 * 6 * -(-10 // ranks) * ranks * 8
        assert sent <= most, f"{ranks} ranks send {sent} elements together, expected at most {most}, twice the model."


@check(
    hints=(
        "Each matrix on one rank, its owner. Deal them out, the largest first, so that all have about as much to do.",
        "Gather as many matrices as there are ranks, orthogonalize, scatter, let go, and go on.",
    ),
    judged_by="observation",
)
def check_work_and_memory_are_shared(student: Student) -> None:
    """A rank multiplies 1/N of what one process would, and one matrix more; it holds ten matrices at most."""
    rows = [8, 4] * 12
    work = [5 * (2 * n * n * 8 + n**3) for n in rows]
    for result in student.simulated("harness.metered", [(rows, 8, Group())] * 4):
        (products, peak), most = result.value, sum(work) // 4 + max(work)
        who = f"rank {result.rank} of 4"
        assert products <= most, f"{who} multiplies {products} numbers of {sum(work)} in all, expected at most {most}."
        assert peak <= 640, f"{who} holds up to {peak} elements beside its shards, expected ten matrices at most, 640."
