"""Send and receive single JSON packets over a stream socket, before and after the frames of a run."""

from __future__ import annotations

import json
import socket
import struct
from typing import Any

LENGTH = struct.Struct("<I")
MAX_BYTES = 1 << 16


def send(channel: socket.socket, packet: dict[str, Any]) -> None:
    """Send one packet."""
    data = json.dumps(packet).encode()
    channel.sendall(LENGTH.pack(len(data)) + data)


def receive(channel: socket.socket) -> dict[str, Any] | None:
    """Wait for one packet; None if the other side has closed or sends something else."""
    try:
        (length,) = LENGTH.unpack(_receive_bytes(channel, LENGTH.size))
        packet = json.loads(_receive_bytes(channel, length)) if length <= MAX_BYTES else None
    except (EOFError, ConnectionResetError, ValueError):
        return None
    return packet if isinstance(packet, dict) else None


def _receive_bytes(channel: socket.socket, count: int) -> bytes:
    data = bytearray()
    while len(data) < count:
        more = channel.recv(count - len(data))
        if not more:
            raise EOFError
        data += more
    return bytes(data)
