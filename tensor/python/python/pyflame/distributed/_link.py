"""Connections between the processes of a group: authenticated when they are made, and checked message by message.

What listens here must expect that anybody connects. So nothing that a peer sends is executed or unpickled; lengths are checked before
memory is allocated; a connection that does not prove within seconds that it knows the group's secret is closed; and every message
carries a code that depends on the secret, both random numbers of the connection, the direction and the message's number. Messages are
not encrypted.
"""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import os
import queue
import socket
import struct
import threading
import time
from typing import Dict, List, Optional, Set, Tuple, Union

Bytes = Union[bytes, bytearray, memoryview]

MAGIC = b"pyflame-group-2\n"
NONCE = 32
CODE = 32
# The largest part of a message; longer ones are several.
PART = 16 << 20
# A peer has this long to prove that it belongs to the group, and so many may try at a time.
HANDSHAKE_SECONDS = 10.0
STRANGERS = 64
_HELLO = struct.Struct("<II")
_LENGTH = struct.Struct("<Q")


class LinkError(RuntimeError):
    """A connection of a group is lost or not to be trusted."""


def resolved(address: str) -> str:
    """The numeric address of a host. It is looked up once, so that what is checked is what is used."""
    try:
        return str(socket.getaddrinfo(address, None, type=socket.SOCK_STREAM)[0][4][0])
    except OSError as problem:
        raise LinkError(f"the address {address} is not known: {problem}") from None


def is_loopback(address: str) -> bool:
    """Whether a numeric address is of this machine only."""
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return False


def _code(key: bytes, *parts: bytes) -> bytes:
    return hmac.new(key, b"".join(struct.pack("<Q", len(part)) + part for part in parts), hashlib.sha256).digest()


class Link:
    """A connection to one process. `peer` is its rank, for messages."""

    def __init__(self, connection: socket.socket, peer: Union[int, str], timeout: float) -> None:
        self._socket, self.peer, self._timeout = connection, peer, timeout
        self._keys: List[bytes] = []
        self._counts = [0, 0]
        self._until: Optional[float] = None
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def close(self) -> None:
        self._socket.close()

    # Bytes

    def _write(self, *parts: Bytes) -> None:
        try:
            for part in parts:
                self._socket.sendall(part)
        except OSError as problem:
            raise LinkError(f"process {self.peer} cannot be reached: {problem}; all processes of the group must run") from None

    def _read(self, count: int, into: Union[bytearray, memoryview, None] = None) -> Union[bytearray, memoryview]:
        data = bytearray(count) if into is None else into
        view, got = memoryview(data), 0
        while got < count:
            try:
                if self._until is not None:
                    # Of all bytes together: one byte now and then must not hold a connection.
                    self._socket.settimeout(max(self._until - time.monotonic(), 0.001))
                more = self._socket.recv_into(view[got:count])
            except OSError as problem:
                raise LinkError(f"process {self.peer} does not answer: {problem}") from None
            if more == 0:
                raise LinkError(f"process {self.peer} has closed its connection; it ended, or left the group")
            got += more
        return data

    # The beginning

    def _begin(self, secret: bytes, rank: int, size: int, caller: bool) -> int:
        """Both sides send a random number and who they are, and then prove that they know the secret. Returns the peer's rank."""
        self._until = time.monotonic() + HANDSHAKE_SECONDS
        self._socket.settimeout(HANDSHAKE_SECONDS)
        nonce, hello = os.urandom(NONCE), _HELLO.pack(rank, size)
        self._write(MAGIC + nonce + hello)
        first = bytes(self._read(len(MAGIC) + NONCE + _HELLO.size))
        if not first.startswith(MAGIC):
            raise LinkError(f"process {self.peer} speaks another protocol")
        other, theirs = first[len(MAGIC) : len(MAGIC) + NONCE], first[len(MAGIC) + NONCE :]
        rank_of_peer: int
        rank_of_peer, size_of_peer = _HELLO.unpack(theirs)
        # The roles are part of every code, so that a message cannot be sent back to who made it.
        all_of_it = (nonce, hello, other, theirs) if caller else (other, theirs, nonce, hello)
        roles = (b"caller", b"listener") if caller else (b"listener", b"caller")
        self._write(_code(secret, b"proof", roles[0], *all_of_it))
        if not hmac.compare_digest(bytes(self._read(CODE)), _code(secret, b"proof", roles[1], *all_of_it)):
            raise LinkError(f"process {self.peer} does not know the group's secret")
        if size_of_peer != size or rank_of_peer >= size or rank_of_peer == rank:
            raise LinkError(f"process {rank_of_peer} of {size_of_peer} does not belong to a group of {size}")
        self._keys = [_code(secret, b"messages", role, *all_of_it) for role in roles]
        self._until = None
        self._socket.settimeout(self._timeout)
        self.peer = rank_of_peer
        return rank_of_peer

    # Messages

    def _seal(self, way: int, data: memoryview) -> bytes:
        code = hashlib.blake2b(key=self._keys[way], digest_size=CODE)
        code.update(_LENGTH.pack(self._counts[way]) + _LENGTH.pack(len(data)))
        code.update(data)
        self._counts[way] += 1
        return code.digest()

    def send(self, data: Bytes) -> None:
        """Sends bytes as one message."""
        view = memoryview(data).cast("B")
        for start in range(0, max(len(view), 1), PART):
            part = view[start : start + PART]
            self._write(_LENGTH.pack(len(part)), part, self._seal(0, part))

    def receive(self, count: int) -> bytearray:
        """Returns the next message, which must have this many bytes."""
        data = bytearray(count)
        view = memoryview(data)
        for start in range(0, max(count, 1), PART):
            part = view[start : start + PART]
            (length,) = _LENGTH.unpack(self._read(_LENGTH.size))
            if length != len(part):
                raise LinkError(f"process {self.peer} sent {length} bytes instead of {len(part)}; do all processes call the same operations?")
            self._read(length, part)
            if not hmac.compare_digest(bytes(self._read(CODE)), self._seal(1, part)):
                raise LinkError(f"a message of process {self.peer} was changed on its way")
        return data


def call(address: str, port: int, secret: bytes, rank: int, size: int, peer: int, timeout: float, until: float) -> Link:
    """Connects to a process that may not listen yet; tries until a time."""
    while True:
        left = until - time.monotonic()
        if left <= 0:
            raise LinkError(f"process {peer} at {address}:{port} does not answer; is it running?")
        try:
            connection = socket.create_connection((address, port), timeout=min(left, HANDSHAKE_SECONDS))
        except OSError:
            time.sleep(min(0.05, left))
            continue
        link = Link(connection, peer, timeout)
        try:
            found = link._begin(secret, rank, size, True)
            if found != peer:
                raise LinkError(f"process {found} answers at {address}:{port}, not process {peer}")
        except LinkError:
            link.close()
            raise
        return link


def listen(address: str, port: int) -> socket.socket:
    """A socket that listens at an address; port 0 chooses a free one."""
    family = socket.getaddrinfo(address, port, type=socket.SOCK_STREAM)[0][0]
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((address, port))
        listener.listen(64)
    except OSError as problem:
        listener.close()
        raise LinkError(f"cannot listen at {address}:{port}: {problem}; choose another MASTER_PORT") from None
    return listener


def accept(
    listener: socket.socket, secret: bytes, rank: int, size: int, wanted: Set[int], timeout: float, until: float
) -> Dict[int, Link]:
    """Returns the links of the wanted ranks. Connections that fail the handshake are closed and do not count."""
    links: Dict[int, Link] = {}
    proven: queue.Queue[Tuple[int, Link]] = queue.Queue()
    strangers = threading.Semaphore(STRANGERS)

    def meet(link: Link) -> None:
        try:
            proven.put((link._begin(secret, rank, size, False), link))
        except (LinkError, OSError):
            link.close()
        finally:
            strangers.release()

    try:
        while wanted - links.keys():
            if time.monotonic() >= until:
                missing = ", ".join(str(peer) for peer in sorted(wanted - links.keys()))
                raise LinkError(f"these processes did not join the group in time: {missing}")
            listener.settimeout(0.02)
            try:
                connection, _ = listener.accept()
            except OSError:
                pass
            else:
                # Each has a thread, so that one that says nothing does not keep the others waiting.
                if strangers.acquire(blocking=False):
                    threading.Thread(target=meet, args=(Link(connection, "that connected", timeout),), daemon=True).start()
                else:
                    connection.close()
            while not proven.empty():
                peer, link = proven.get()
                if peer in wanted and peer not in links:
                    links[peer] = link
                else:
                    link.close()
    except BaseException:
        for link in links.values():
            link.close()
        raise
    return links
