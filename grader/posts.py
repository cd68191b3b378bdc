"""What a rank says when it begins an operation: read it, describe it, compare it with its counterpart's.

A post comes from an untrusted rank: nothing of it is believed before `read_post` has looked at it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypedDict, cast

from grader.errors import StudentFailure

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

SENDS: Final = frozenset({"send", "isend"})
RECEIVES: Final = frozenset({"recv", "irecv"})
MESSAGES: Final = SENDS | RECEIVES
COLLECTIVES: Final = frozenset(
    {"all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce", "gather", "scatter", "all_to_all", "barrier"}
)
ROOTED: Final = frozenset({"broadcast", "reduce", "gather", "scatter"})
SHAPELESS: Final = frozenset({"all_to_all", "barrier"})  # each rank may bring another shape, or none


class Post(TypedDict):
    """Describe one operation as one rank began it; ranks are global, `n` counts a rank's operations from 0."""

    rank: int
    n: int
    op: str
    group: list[int]
    group_name: str
    peer: int | None  # the other end of a message, the root of a rooted collective
    tag: int
    reduce: str
    shape: list[int]
    dtype: str
    payload_bytes: int
    line: int
    is_async: bool
    data: list[object] | None  # what this rank contributes: one buffer, or one for each member


def _is_count(value: object) -> bool:
    return type(value) is int and 0 <= value < 1 << 62


def _is_word(value: object) -> bool:
    return isinstance(value, str) and len(value) <= 200 and value.isprintable()


def _is_counts(value: object) -> bool:
    return isinstance(value, list | tuple) and len(value) <= 64 and all(map(_is_count, value))


def _is_data(value: object) -> bool:
    return value is None or isinstance(value, list)


_FIELDS: Final[Mapping[str, tuple[object, Callable[[object], bool]]]] = {
    "n": (None, _is_count),
    "op": (None, lambda value: isinstance(value, str) and value in COLLECTIVES | MESSAGES),
    "group": (None, _is_counts),
    "group_name": ("", _is_word),
    "peer": (None, lambda value: value is None or _is_count(value)),
    "tag": (0, lambda value: type(value) is int and abs(value) < 1 << 62),
    "reduce": ("", _is_word),
    "shape": ([], _is_counts),
    "dtype": ("", _is_word),
    "payload_bytes": (0, _is_count),
    "line": (0, _is_count),
    "is_async": (False, lambda value: isinstance(value, bool)),
    "data": (None, _is_data),
}


def broken(rank: int, fact: str) -> StudentFailure:
    """Build the failure of a rank that does not keep to the protocol."""
    words = f"rank {rank} {fact}. Communicate through torch.distributed only, with its usual arguments."
    return StudentFailure(words, kind="broken", rank=rank)


def read_post(rank: int, message: Mapping[str, object]) -> Post:
    """Return the message as a Post, or raise StudentFailure if a field is not what it should be."""
    values = {name: message.get(name, default) for name, (default, _) in _FIELDS.items()}
    for name, (_, is_valid) in _FIELDS.items():
        if not is_valid(values[name]):
            raise broken(rank, f"began an operation whose {name} makes no sense")
    post = cast("Post", {"rank": rank, **values})
    if rank not in post["group"] or len(set(post["group"])) < len(post["group"]):
        raise broken(rank, "began an operation of a group to which it does not belong")
    return post


def describe(post: Mapping[str, object]) -> str:
    """Name an operation in a few words: all_reduce (sum of float32 [2], line 12)."""
    tensor = f"{post['dtype']} {list(cast('list[int]', post['shape']))}" if post["dtype"] else ""
    reduced = f"{post['reduce']} of {tensor}" if post["reduce"] else tensor
    ends = "" if post["peer"] is None else f" {'from' if _flows_in(str(post['op'])) else 'to'} rank {post['peer']}"
    line = f"line {post['line']}" if post["line"] else ""
    inside = ", ".join(part for part in (f"{reduced}{ends}".strip(), line) if part)
    return f"{post['op']} ({inside})" if inside else str(post["op"])


def _flows_in(op: str) -> bool:
    return op in RECEIVES or op in {"broadcast", "scatter"}


def mismatch(a: Mapping[str, object], b: Mapping[str, object]) -> str | None:
    """Return the sentence that says how two posts which should be one operation differ, or None."""
    if a["op"] in MESSAGES:
        compared = ["dtype", "payload_bytes"]
        rule = "A message and the tensor that receives it must have the same size and dtype."
    else:
        compared = ["op", "reduce", "peer", "dtype"] + ["shape"] * (a["op"] not in SHAPELESS)
        rule = "All ranks of a group must make the same calls in the same order, with the same shape and dtype."
    if all(a[name] == b[name] for name in compared):
        return None
    a, b = sorted((a, b), key=lambda post: cast("int", post["rank"]))
    return f"rank {a['rank']} called {describe(a)} where rank {b['rank']} called {describe(b)}. {rule}"


def ring_traffic(op: str, members: int, payload_bytes: int) -> tuple[int, int]:
    """Return how many messages, one after another, and how many bytes the busiest rank sends in a ring.

    p ranks, n the payload of the rank that contributes most; n/p is rounded up. One rank alone sends nothing.

        all_reduce      2(p-1) messages   2(p-1) * n/p bytes     reduce-scatter, then all-gather
        reduce_scatter   p-1               (p-1) * n/p           n: the whole input of a rank
        all_gather       p-1               (p-1) * n             n: the part of one rank
        broadcast        p-1               n                     passed on in small pieces, as a pipeline
        reduce           p-1               n                     the same, backwards
        scatter          p-1               (p-1) * n/p           n: what the root holds
        gather           p-1               (p-1) * n             n: the part of one rank
        all_to_all       p-1               (p-1) * n/p           n: the whole input of a rank
        barrier         2(p-1)             0
    """
    steps, part_bytes = members - 1, -(-payload_bytes // members)
    total_bytes = {
        "all_reduce": 2 * steps * part_bytes,
        "reduce_scatter": steps * part_bytes,
        "all_gather": steps * payload_bytes,
        "broadcast": payload_bytes if steps else 0,
        "reduce": payload_bytes if steps else 0,
        "scatter": steps * part_bytes,
        "gather": steps * payload_bytes,
        "all_to_all": steps * part_bytes,
        "barrier": 0,
    }[op]
    return (2 * steps if op in {"all_reduce", "barrier"} else steps), total_bytes
