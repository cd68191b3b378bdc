"""Carry values between processes as data: an allow-list of exact types over msgpack, never pickles.

A frame is `<u32 structure bytes><u64 payload bytes>`, the structure (msgpack), then the raw little-endian buffers of
all arrays in the order in which the structure names them. Decoding builds built-in types, numpy arrays, `Tensor`,
`Group` and `Opaque`, and raises only `WireError`. A value outside the list crosses as `Opaque`, a name without a value.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from typing import Any

import msgpack
import numpy as np

from grader.records import Group, Opaque, Tensor

PACK_BYTES = 1 << 12  # grows where needed; msgpack's own megabyte costs 30 times the packing of a short message
HEADER = struct.Struct("<IQ")
MAX_STRUCTURE_BYTES = 4 << 20
MAX_PAYLOAD_BYTES = 256 << 20
MAX_DEPTH = 32
MAX_DIMENSIONS = 16
MAX_INTEGER_BYTES = 2048

TUPLE, COMPLEX, INTEGER, ARRAY, SCALAR, TENSOR, GROUP, OPAQUE = range(1, 9)  # msgpack extension codes

NUMPY_DTYPES = frozenset(
    {"bool", "float16", "float32", "float64", "complex64", "complex128"}
    | {f"{kind}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32, 64)}
)
TENSOR_DTYPES = NUMPY_DTYPES | {"bfloat16"}

Convert = Callable[[object], object]


class WireError(Exception):
    """Say that bytes are not a frame, or that a value is too large or too deep to be sent."""


def encode(message: dict[str, Any], convert: Convert | None = None) -> bytes:
    """Encode one message as a frame.

    `convert` turns an object of a foreign type (a torch tensor, a process group) into a record or another type of the
    list; what it returns unchanged becomes `Opaque`. Raises WireError if the value is too large or nested too deeply.
    """
    buffers: list[bytes] = []
    structure = _Encoder(buffers, convert).pack(message, 0)
    payload_bytes = sum(map(len, buffers))
    if len(structure) > MAX_STRUCTURE_BYTES or payload_bytes > MAX_PAYLOAD_BYTES:
        raise WireError(
            f"the value is too large to send: {len(structure):,} bytes of structure (at most {MAX_STRUCTURE_BYTES:,}) "
            f"and {payload_bytes:,} bytes in arrays (at most {MAX_PAYLOAD_BYTES:,})"
        )
    return b"".join((HEADER.pack(len(structure), payload_bytes), structure, *buffers))


class _Encoder:
    """Turn a value into msgpack, collecting the buffers of arrays aside."""

    def __init__(self, buffers: list[bytes], convert: Convert | None) -> None:
        self.buffers, self.convert = buffers, convert

    def pack(self, value: object, depth: int) -> bytes:
        if depth > MAX_DEPTH:
            raise WireError(f"the value is nested more than {MAX_DEPTH} levels deep")
        try:
            options: dict[str, Any] = {"strict_types": True, "buf_size": PACK_BYTES}
            return bytes(msgpack.packb(value, default=lambda o: self.extend(o, depth + 1), **options))
        except (ValueError, RecursionError) as error:  # msgpack's own depth and length limits, lone surrogates
            raise WireError(f"the value cannot be sent ({error})") from None

    def extend(self, value: object, depth: int) -> object:
        """Return what msgpack shall pack in the place of a value that it does not know."""
        if self.convert is not None:
            value = self.convert(value)
        kind = type(value)
        if isinstance(value, tuple) and kind is tuple:
            return msgpack.ExtType(TUPLE, self.pack(list(value), depth))
        if isinstance(value, int) and kind is int:
            return self.integer(value)
        if isinstance(value, complex) and kind is complex:
            return msgpack.ExtType(COMPLEX, struct.pack("<dd", value.real, value.imag))
        if isinstance(value, (np.ndarray, np.generic)):
            return self.array(value, depth)
        if isinstance(value, Tensor):
            return self.tensor(value, depth)
        if isinstance(value, Group):
            return msgpack.ExtType(GROUP, self.pack(None if value.ranks is None else list(value.ranks), depth))
        if isinstance(value, Opaque):
            return msgpack.ExtType(OPAQUE, self.pack(value.type_name[:200], depth))
        if kind in (set, frozenset):
            return msgpack.ExtType(OPAQUE, self.pack(kind.__name__, depth))
        return self.foreign(value, depth)

    def foreign(self, value: object, depth: int) -> object:
        kind = type(value)
        if kind in (list, dict, str, bytes, float, bool, type(None)):  # what `convert` made of it
            return value
        return msgpack.ExtType(OPAQUE, self.pack(f"{kind.__module__}.{kind.__qualname__}"[:200], depth))

    def integer(self, value: int) -> object:
        length = value.bit_length() // 8 + 1
        if length > MAX_INTEGER_BYTES:
            raise WireError(f"an integer of {length:,} bytes is too long to send")
        return msgpack.ExtType(INTEGER, value.to_bytes(length, "little", signed=True))

    def array(self, value: np.ndarray[Any, Any] | np.generic, depth: int) -> object:
        plain = np.array(value, order="C", copy=True, subok=False)
        if plain.dtype.name not in NUMPY_DTYPES:
            return msgpack.ExtType(OPAQUE, self.pack(f"numpy array of dtype {plain.dtype}"[:200], depth))
        self.buffers.append(plain.astype(plain.dtype.newbyteorder("<"), copy=False).tobytes())
        code = ARRAY if isinstance(value, np.ndarray) else SCALAR
        return msgpack.ExtType(code, self.pack([plain.dtype.name, list(plain.shape)], depth))

    def tensor(self, value: Tensor, depth: int) -> object:
        if value.dtype not in TENSOR_DTYPES:
            return msgpack.ExtType(OPAQUE, self.pack(f"tensor of dtype {value.dtype}"[:200], depth))
        self.buffers.append(_tensor_bytes(value))
        head = [value.dtype, list(value.shape), value.requires_grad, value.subclass[:80]]
        return msgpack.ExtType(TENSOR, self.pack(head, depth))


def _tensor_bytes(value: Tensor) -> bytes:
    if value.dtype != "bfloat16":
        return np.ascontiguousarray(value.array, dtype=np.dtype(value.dtype).newbyteorder("<")).tobytes()
    return (np.ascontiguousarray(value.array, dtype="<f4").view("<u4") >> 16).astype("<u2").tobytes()


class FrameReader:
    """Cut a stream of bytes into messages; `revive` turns a decoded `Tensor` or `Group` into what the reader wants."""

    def __init__(self, revive: Convert | None = None) -> None:
        """Begin with an empty buffer."""
        self._buffer = bytearray()
        self._revive = revive

    def feed(self, data: bytes | bytearray | memoryview) -> list[dict[str, Any]]:
        """Take more bytes and return the messages that are complete; raise WireError for anything else."""
        self._buffer += data
        messages = []
        while (size := self._frame_bytes()) is not None and len(self._buffer) >= size:
            frame = bytes(self._buffer[:size])
            del self._buffer[:size]
            messages.append(decode(frame, self._revive))
        return messages

    def _frame_bytes(self) -> int | None:
        if len(self._buffer) < HEADER.size:
            return None
        structure_bytes, payload_bytes = HEADER.unpack_from(self._buffer)
        if structure_bytes > MAX_STRUCTURE_BYTES or payload_bytes > MAX_PAYLOAD_BYTES:
            raise WireError("a frame announces more bytes than may be sent")
        return int(HEADER.size + structure_bytes + payload_bytes)


def decode(frame: bytes, revive: Convert | None = None) -> dict[str, Any]:
    """Decode one whole frame into a message; raise WireError for anything that is not one."""
    try:
        structure_bytes, payload_bytes = HEADER.unpack_from(frame)
        if len(frame) != HEADER.size + structure_bytes + payload_bytes:
            raise WireError("the frame has another length than it announces")
        body = memoryview(frame)[HEADER.size :]
        decoder = _Decoder(body[structure_bytes:], revive)
        message = decoder.unpack(bytes(body[:structure_bytes]), 0)
        if decoder.offset != payload_bytes:
            raise WireError("the frame holds bytes that no array claims")
    except WireError:
        raise
    except (ValueError, TypeError, OverflowError, RecursionError, struct.error, msgpack.UnpackException) as error:
        raise WireError(f"malformed frame ({type(error).__name__})") from None
    if type(message) is not dict:
        raise WireError("a message must be a dictionary")
    return message


def refuse_depth(value: object) -> None:
    """Raise WireError if containers are nested deeper than `MAX_DEPTH`, so that whoever walks the value may recurse."""
    level, depth = [value], 0
    while level:
        level = [part for item in level if type(item) in _CONTAINERS for part in _parts(item)]
        depth += 1
        if depth > MAX_DEPTH:
            raise WireError(f"the value is nested more than {MAX_DEPTH} levels deep")


_CONTAINERS = frozenset({list, tuple, dict})


def _parts(container: Any) -> list[object]:
    return [*container, *container.values()] if type(container) is dict else list(container)


class _Decoder:
    """Build values from msgpack and take the buffers of arrays in order."""

    def __init__(self, payload: memoryview, revive: Convert | None) -> None:
        self.payload, self.offset, self.revive = payload, 0, revive

    def unpack(self, data: bytes, depth: int) -> Any:
        if depth > MAX_DEPTH:
            raise WireError("a frame is nested too deeply")
        return msgpack.unpackb(
            data,
            strict_map_key=False,
            use_list=True,
            raw=False,
            ext_hook=lambda code, d: self.extension(code, d, depth + 1),
        )

    def extension(self, code: int, data: bytes, depth: int) -> object:
        if code == INTEGER:
            if len(data) > MAX_INTEGER_BYTES:
                raise WireError("an integer is too long")
            return int.from_bytes(data, "little", signed=True)
        if code == COMPLEX:
            return complex(*struct.unpack("<dd", data))
        value = self.unpack(data, depth)
        if code == TUPLE and type(value) is list:
            return tuple(value)
        if code in (ARRAY, SCALAR) and type(value) is list and len(value) == 2:
            array = self.array(value[0], value[1], NUMPY_DTYPES)
            return array if code == ARRAY else array.reshape(-1)[0]
        if code == TENSOR and type(value) is list and len(value) == 4:
            return self.revived(self.tensor(*value))
        if code == GROUP and (value is None or type(value) is list):
            return self.revived(Group(None if value is None else tuple(map(_rank, value))))
        if code == OPAQUE and type(value) is str:
            return Opaque(value[:200])
        raise WireError("a frame holds an unknown kind of value")

    def revived(self, record: Tensor | Group) -> object:
        return record if self.revive is None else self.revive(record)

    def array(self, dtype: object, shape: object, allowed: frozenset[str]) -> np.ndarray[Any, Any]:
        if type(dtype) is not str or dtype not in allowed:
            raise WireError("a frame holds an array of unknown dtype")
        if type(shape) is not list or len(shape) > MAX_DIMENSIONS:
            raise WireError("a frame holds an array of impossible shape")
        stored = np.dtype("uint16" if dtype == "bfloat16" else "uint8" if dtype == "bool" else dtype).newbyteorder("<")
        size = math.prod(map(_length, shape)) * stored.itemsize
        if self.offset + size > len(self.payload):
            raise WireError("a frame holds an array that is longer than its bytes")
        flat = np.frombuffer(self.payload[self.offset : self.offset + size], dtype=stored)
        self.offset += size
        if dtype == "bool":
            return np.asarray(flat != 0).reshape(shape)
        if dtype == "bfloat16":
            return (flat.astype("<u4") << 16).view("<f4").reshape(shape)
        return flat.reshape(shape).astype(dtype, copy=True)

    def tensor(self, dtype: object, shape: object, requires_grad: object, subclass: object) -> Tensor:
        array = self.array(dtype, shape, TENSOR_DTYPES)
        if type(dtype) is not str or type(requires_grad) is not bool or type(subclass) is not str:
            raise WireError("a frame holds a malformed tensor")
        return Tensor(array, dtype, requires_grad, subclass[:80])


def _length(value: object) -> int:
    if type(value) is not int or not 0 <= value <= MAX_PAYLOAD_BYTES:
        raise WireError("a frame holds an array of impossible shape")
    return value


def _rank(value: object) -> int:
    if type(value) is not int or not 0 <= value < 1 << 16:
        raise WireError("a frame holds an impossible rank")
    return value
