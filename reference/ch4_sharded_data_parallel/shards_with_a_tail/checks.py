"""Hidden checks of shards_with_a_tail, in teaching order: lengths, values, memory, the way back, then pieces."""

from __future__ import annotations

from typing import Any

import numpy as np

from grader.judging import Group, Student, assert_close, assert_equal, check, tensor

SHAPES: dict[str, list[int]] = {"embedding": [7, 3], "scale": [], "empty": [0, 4], "bias": [5], "head": [3, 2, 2]}
WORLD_SIZES = (1, 2, 3, 4, 5, 8)
FEW: dict[str, list[int]] = {"weight": [2], "scale": []}  # fewer elements than most numbers of ranks
Arrays = dict[str, np.ndarray[Any, Any]]


def drawn(rng: np.random.Generator, shapes: dict[str, list[int]]) -> Arrays:
    """Return random values of these shapes, none of them zero."""
    return {name: np.asarray(rng.uniform(1, 2, size=shape)) for name, shape in shapes.items()}


def rows(arrays: Arrays, world_size: int) -> np.ndarray[Any, Any]:
    """Return the shards as the contract has them, one a row, by numpy."""
    flat = np.concatenate([array.reshape(-1) for array in arrays.values()])
    return np.pad(flat, (0, -flat.size % world_size)).reshape(world_size, -1)


def tensors(arrays: Arrays, dtype: str = "float64") -> dict[str, Any]:
    """Return the arrays as tensors."""
    return {name: tensor(array, dtype) for name, array in arrays.items()}


@check(
    hints=(
        "Print how long the four shards of 10 elements are, and of 5. A collective needs them equal.",
        "Round up: -(-total // world_size) elements a rank. What do the last ranks fill theirs with?",
    )
)
def check_all_shards_have_one_length(student: Student, rng: np.random.Generator) -> None:
    """Every rank's shard has the same length, the total divided by the ranks and rounded up."""
    for shapes in (SHAPES, FEW):
        arrays = drawn(rng, shapes)
        for world_size in WORLD_SIZES:
            expected, total = rows(arrays, world_size), sum(array.size for array in arrays.values())
            for rank in range(world_size):
                actual = student.call("shard", tensors(arrays), rank, world_size).value
                what = f"{total} elements on {world_size} ranks, rank {rank}: shape of the shard"
                assert_equal(list(getattr(actual, "shape", [])), [expected.shape[1]], what)


@check(
    hints=(
        "Which elements does rank r begin with, and what stands behind the last element of the model?",
        "new_empty leaves whatever memory held. The padding is zeros, so that sums and norms do not see it.",
    )
)
def check_each_shard_holds_its_elements_and_zeros(student: Student, rng: np.random.Generator) -> None:
    """Rank r holds the elements from r times the length on, in their order and dtype, and zeros behind the end."""
    for shapes in (SHAPES, FEW):
        arrays = drawn(rng, shapes)
        for world_size in WORLD_SIZES:
            for rank, expected in enumerate(rows(arrays, world_size)):
                dtype = "float32" if world_size == 1 else "float64"
                actual = student.call("shard", tensors(arrays, dtype), rank, world_size).value
                assert_close(actual, tensor(expected, dtype), f"rank {rank} of {world_size}: shard")


@check(
    hints=(
        "A slice of a tensor is a view. What does a rank keep in memory as long as it holds a view of all elements?",
        "Give the shard memory of its own: clone the slice, or copy it into a new tensor.",
    ),
    judged_by="observation",
)
def check_a_shard_keeps_only_itself_alive(student: Student, rng: np.random.Generator) -> None:
    """A shard keeps as many elements in memory as it is long, and no more."""
    for shapes in (SHAPES, {"weight": [8, 5]}):  # 39 elements, and 40, which need no padding on 2, 4 and 5 ranks
        arrays = drawn(rng, shapes)
        for world_size in WORLD_SIZES[1:]:
            for rank in (0, world_size - 1):
                length, kept = student.call("harness.shard_and_memory", tensors(arrays), rank, world_size).value
                what = f"{sum(array.size for array in arrays.values())} elements, rank {rank} of {world_size}"
                assert_equal(kept, length, f"{what}: elements that a shard of {length} keeps in memory")


@check(
    hints=("A tensor without dimensions has one element, an empty one none. Shapes come back too: [] is not [1].",),
)
def check_the_model_comes_back(student: Student, rng: np.random.Generator) -> None:
    """Gathered from 1 to 8 ranks, all tensors have their names, order, shapes, dtype and values."""
    for world_size, dtype in zip(WORLD_SIZES, ("float64", "float32") * 3, strict=True):
        arrays = drawn(rng, FEW if world_size == 5 else SHAPES)
        shapes = {name: list(array.shape) for name, array in arrays.items()}
        per_rank = [(tensor(row, dtype),) for row in rows(arrays, world_size)]
        for result in student.simulated("harness.gathered", per_rank, common=(shapes, Group())):
            names, whole, _ = result.value
            assert_equal(names, list(shapes), f"{world_size} ranks, rank {result.rank}: names")
            for name, actual in zip(names, whole, strict=True):
                assert_close(actual, tensor(arrays[name], dtype), f"{world_size} ranks, rank {result.rank}: {name}")


@check(
    hints=("Gather once into one vector, and make every tensor a view of it. cat, clone and contiguous copy.",),
    judged_by="observation",
)
def check_the_gathered_model_lies_in_one_vector(student: Student, rng: np.random.Generator) -> None:
    """The whole tensors are views of one vector: together they keep the padded total in memory, once."""
    expected = rows(drawn(rng, SHAPES), 4)
    for result in student.simulated("harness.gathered", [(tensor(row),) for row in expected], common=(SHAPES, Group())):
        what = f"rank {result.rank} of 4: elements that the gathered tensors keep in memory"
        assert_equal(result.value[2], expected.size, what)


@check(
    hints=("Each rank has a shard, all need all of them. Which collective moves N - 1 shards from each rank?",),
    judged_by="network",
)
def check_gathering_moves_each_shard_once(student: Student, rng: np.random.Generator) -> None:
    """In a ring a rank sends N - 1 shards to gather the model, in the group that it is given."""
    row, members = rows(drawn(rng, SHAPES), 3), (0, 2, 4)
    group, alone = Group(members), Group((1, 3))
    per_rank = [(tensor(row[rank // 2]), *((SHAPES, group) if rank in members else (FEW, alone))) for rank in range(5)]
    for result in student.simulated("harness.gathered", per_rank):
        size = 3 if result.rank in members else 2
        moved, most = sum(call.ring_bytes for call in result.calls), (size - 1) * row.shape[1] * 8
        who = f"rank {result.rank} in a group of {size}"
        assert moved <= most, f"{who} sends {moved} bytes to gather the model, expected at most {most}."


@check(
    hints=(
        "Which elements of the flat vector does this shard hold, and which of them belong to this tensor?",
        "An overlap runs from the later of two begins to the earlier of two ends. Padding lies behind the last end.",
    )
)
def check_pieces_hold_each_element_once(student: Student, rng: np.random.Generator) -> None:
    """The pieces of all ranks hold each element of each tensor exactly once, where they say, and no padding."""
    for world_size in WORLD_SIZES:
        arrays = drawn(rng, FEW if world_size == 4 else SHAPES)
        shapes = {name: list(array.shape) for name, array in arrays.items()}
        places = np.concatenate([np.arange(array.size) for array in arrays.values()])
        owners = np.concatenate([[name] * array.size for name, array in arrays.items()])
        for rank, row in enumerate(rows(arrays, world_size)):
            found = student.call("pieces", tensor(row), shapes, rank, world_size).value
            own = slice(rank * row.size, (rank + 1) * row.size)
            expected = {
                name: (int(places[own][owners[own] == name][0]), tensor(row[: owners[own].size][owners[own] == name]))
                for name in dict.fromkeys(owners[own].tolist())
            }
            assert_close(found, expected, f"rank {rank} of {world_size}: pieces")
