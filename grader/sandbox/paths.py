"""Which files a confined rank may read: interpreter, packages, the system's libraries, what it imports of us."""

from __future__ import annotations

import functools
import os
import sys
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[1]
CHECKOUT = PACKAGE.parent
OURS = ("__init__.py", "records.py", "errors.py", "safe_text.py", "wire.py", "ranks", "sandbox")
PREFIX_PARTS = ("bin", "lib", "lib32", "lib64", "libexec", "include", "share", "pyvenv.cfg")
SYSTEM = (
    *("/bin", "/lib", "/lib32", "/lib64", "/nix/store", "/proc", "/dev/urandom", "/dev/random", "/dev/zero"),
    *("/etc/ld.so.cache", "/etc/localtime", "/etc/passwd", "/etc/group", "/etc/hosts", "/etc/host.conf"),
    *("/etc/nsswitch.conf", "/etc/resolv.conf", "/etc/gai.conf"),
    # gloo looks these up, and gives up when it is refused where it would have accepted that nothing is there
    *("/sys/devices", "/sys/class/net", "/sys/bus/pci/devices", "/sys/class/pci_bus"),
)
PUBLIC = (Path("/run"), Path("/tmp"))
NULL, SHARED_MEMORY = Path("/dev/null"), Path("/dev/shm")


@functools.cache
def readable() -> tuple[Path, ...]:
    """Return what every confined rank may read and execute; never a whole prefix, which may be the checkout itself."""
    prefixes = {sys.prefix, sys.base_prefix, sys.exec_prefix, sys.base_exec_prefix, "/usr", "/usr/local"}
    of_prefixes = [Path(prefix, part) for prefix in sorted(prefixes) for part in PREFIX_PARTS]
    packages = [Path(entry) for entry in sys.path if Path(entry).name in {"site-packages", "dist-packages"}]
    interpreter = Path(sys.executable).resolve().parent
    ours = [PACKAGE / part for part in OURS]
    wanted = dict.fromkeys([*of_prefixes, *packages, interpreter, *map(Path, SYSTEM), *ours])
    return tuple(path for path in wanted if os.path.lexists(path))  # false, too, for what is out of reach


@functools.cache
def hidden() -> tuple[Path, ...]:
    """Return the folders of other programs' sockets that a mount may cover: nothing that ranks read lies in them."""
    return tuple(folder for folder in PUBLIC if not any(path.is_relative_to(folder) for path in readable()))


def exposing() -> Path | None:
    """Return the readable folder in which the checkout lies, which would lay its checks open; None if there is none."""
    return next((path for path in readable() if CHECKOUT.is_relative_to(path.resolve())), None)
