"""The wire carries data exactly, refuses everything else, and raises only WireError."""

from __future__ import annotations

import math
import os
import random

import numpy as np
import pytest

from grader import wire
from grader.judging import tensor
from grader.records import Group, Opaque, Tensor

VALUES = [
    None,
    True,
    -1,
    2**63,
    -(10**40),
    0.1,
    -0.0,
    math.inf,
    1 + 2j,
    "é\u2028\x00",
    b"\x00\xff",
    [1, [2, (3,)]],
    (),
    {"a": 1, 2: {"b": (None,)}, (1, 2): 3.5},
    Group(),
    Group((0, 2)),
]


def through(value: object) -> object:
    """Send a value through the wire and back."""
    return wire.decode(wire.encode({"value": value}))["value"]


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_plain_values_come_back_equal_and_of_the_same_type(value: object) -> None:
    """Exact types: a tuple stays a tuple, -0.0 keeps its sign, a big integer all its digits."""
    back = through(value)
    assert back == value
    assert type(back) is type(value)
    assert repr(back) == repr(value)


def test_nan_stays_nan() -> None:
    """NaN equals nothing, so it needs a test of its own."""
    assert math.isnan(through(math.nan))  # type: ignore[arg-type]  # a float comes back


@pytest.mark.parametrize("dtype", sorted(wire.NUMPY_DTYPES))
@pytest.mark.parametrize("shape", [(), (0, 3), (2, 3)])
def test_arrays_keep_dtype_shape_and_bits(dtype: str, shape: tuple[int, ...]) -> None:
    """Scalars of numpy stay scalars, arrays stay arrays, also empty and 0-d ones."""
    array = np.asarray(np.arange(math.prod(shape)).reshape(shape) % 2).astype(dtype)
    back = through(array)
    assert isinstance(back, np.ndarray)
    assert (back.dtype.name, back.shape) == (dtype, shape)
    assert back.tobytes() == array.tobytes()
    assert back.flags.writeable
    scalar = through(np.ones((), dtype)[()])
    assert isinstance(scalar, np.generic)
    assert scalar.dtype.name == dtype


def test_a_bfloat16_tensor_keeps_its_sixteen_bits() -> None:
    """bfloat16 is widened to float32 on this side; the round trip loses nothing."""
    sent = tensor([1.0, 1 / 3, -2e30], "bfloat16", requires_grad=True)
    back = through(sent)
    assert isinstance(back, Tensor)
    assert (back.dtype, back.requires_grad) == ("bfloat16", True)
    assert back.array.tolist() == sent.array.tolist()


@pytest.mark.parametrize("value", [object(), {1, 2}, lambda: 0, np.array(["a"]), np.array([None]), type, (3).__add__])
def test_anything_else_crosses_as_a_name_only(value: object) -> None:
    """No object, function, set, type or object array is ever rebuilt on this side."""
    assert isinstance(through([value])[0], Opaque)  # type: ignore[index]  # a list comes back


def test_a_subclass_loses_its_behaviour() -> None:
    """A float or int subclass with comparisons of its own is not taken for a number."""

    class Lying(float):
        def __eq__(self, other: object) -> bool:
            return True

        __hash__ = float.__hash__

    assert isinstance(through(Lying(1.0)), Opaque)


@pytest.mark.parametrize("depth", [40, 600, 100_000])
def test_deep_nesting_is_an_error_not_a_crash(depth: int) -> None:
    """A list in a list in a list ... is refused on the sending side."""
    value: list[object] = []
    for _ in range(depth):
        value = [value]
    with pytest.raises(wire.WireError):
        wire.refuse_depth(value)
    try:
        wire.decode(wire.encode({"value": value}))
    except wire.WireError:
        assert depth > 40


def test_a_value_that_contains_itself_is_an_error() -> None:
    """A cycle has no end to be sent."""
    value: list[object] = []
    value.append(value)
    with pytest.raises(wire.WireError):
        wire.encode({"value": value})


def test_frames_may_arrive_in_pieces_of_any_size() -> None:
    """Three messages cut into sevens come back whole and in order."""
    stream = b"".join(wire.encode({"n": n, "array": np.arange(n)}) for n in range(3))
    reader = wire.FrameReader()
    messages = [m for i in range(0, len(stream), 7) for m in reader.feed(stream[i : i + 7])]
    assert [m["n"] for m in messages] == [0, 1, 2]


def test_a_giant_length_is_refused_before_anything_is_read() -> None:
    """The reader must not wait for, or allocate, what a frame merely announces."""
    with pytest.raises(wire.WireError):
        wire.FrameReader().feed(wire.HEADER.pack(1 << 31, 0))
    with pytest.raises(wire.WireError):
        wire.FrameReader().feed(wire.HEADER.pack(1, 1 << 62))


def mutate(frame: bytes, rng: random.Random) -> bytes:
    """Return a frame with a few bytes changed, dropped, doubled or added."""
    data = bytearray(frame)
    for _ in range(rng.randint(1, 4)):
        place = rng.randrange(len(data))
        match rng.randrange(4):
            case 0:
                data[place] = rng.randrange(256)
            case 1:
                del data[place : place + rng.randint(1, 3)]
            case 2:
                data[place:place] = data[place : place + rng.randint(1, 8)]
            case _:
                data[place] ^= 1 << rng.randrange(8)
        if not data:
            return b"\0"
    return bytes(data)


def test_ten_thousand_mutated_frames_raise_only_the_one_error() -> None:
    """What a hostile rank can write is either a message or a WireError."""
    rng = random.Random(20261201)
    frames = [wire.encode({"is": "returned", "value": value}) for value in VALUES]
    frames.append(wire.encode({"value": [np.arange(6.0), tensor([1.0, 2.0], "bfloat16"), np.float32(1)]}))
    decoded = 0
    for _ in range(int(os.environ.get("RANKLINGS_FUZZ_FRAMES", "10000"))):  # bench tries a million
        try:
            decoded += type(wire.decode(mutate(rng.choice(frames), rng))) is dict
        except wire.WireError:
            continue
    assert decoded > 100, "some mutated frames must still decode, or the fuzz only tests the length check"
