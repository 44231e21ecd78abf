"""What the kernel says of processes: who started whom, what they were called with, where they listen."""

from __future__ import annotations

import socket
import struct
from pathlib import Path

#: state of a listening socket in /proc/net/tcp
_LISTENS = "0A"


def family(pid: int) -> set[int]:
    """Return a process and all that it has started, and they, and so on."""
    parents = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            parents[int(folder.name)] = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue
    found, size = {pid}, 0
    while len(found) > size:
        size = len(found)
        found |= {child for child, parent in parents.items() if parent in found}
    return found


def command_line(pid: int) -> str:
    """Return the arguments of a process; empty if it has ended."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""


def listening(pids: set[int]) -> set[tuple[str, int]]:
    """Return the addresses and ports that processes listen on."""
    inodes = {
        target.removeprefix("socket:[").removesuffix("]")
        for pid in pids
        for target in _open_files(pid)
        if target.startswith("socket:[")
    }
    found = set()
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == _LISTENS and fields[9] in inodes:
                address, _, port = fields[1].partition(":")
                found.add((_address(address), int(port, 16)))
    return found


def _open_files(pid: int) -> list[str]:
    targets = []
    try:
        for link in Path(f"/proc/{pid}/fd").iterdir():
            try:
                targets.append(str(link.readlink()))
            except OSError:
                continue
    except OSError:
        pass
    return targets


def _address(text: str) -> str:
    """Return an address as the kernel writes it: words of four bytes, each in the machine's order."""
    words = [int(text[start : start + 8], 16) for start in range(0, len(text), 8)]
    packed = b"".join(struct.pack("=I", word) for word in words)
    return socket.inet_ntop(socket.AF_INET if len(packed) == 4 else socket.AF_INET6, packed)
