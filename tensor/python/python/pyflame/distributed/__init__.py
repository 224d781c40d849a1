"""Groups of processes that compute together: sums, copies and collections of tensors over TCP.

    import pyflame.distributed as dist
    dist.init_process_group(rank=0, world_size=2)      # in the other process: rank=1
    dist.all_reduce(tensor)                            # the sum over both
    dist.destroy_process_group()

Without a secret, processes listen at and connect to addresses of this machine only. With one (`secret=` or the variable
`PYFLAME_GROUP_SECRET`), they prove to each other that they know it, and messages cannot be changed. They are not encrypted.
"""

from __future__ import annotations

import os
import struct
import threading
import time
from typing import Any, Dict, List, Optional, Sequence, Union, overload

from .. import _pyflame as _pf
from .._pyflame import Tensor
from . import local
from ._link import Bytes, Link, LinkError, accept, call, is_loopback, listen, resolved

__all__ = [
    "LinkError",
    "all_gather",
    "all_reduce",
    "barrier",
    "broadcast",
    "destroy_process_group",
    "get_rank",
    "get_world_size",
    "init_process_group",
    "is_initialized",
    "local",
]

_ADDRESS = struct.Struct("<H")
_group: Optional[_Group] = None


class _Group:
    """A ring: every process sends to the next and receives from the one before."""

    def __init__(self, rank: int, size: int, following: Link, before: Link) -> None:
        self.rank, self.size, self.following, self.before = rank, size, following, before

    def exchange(self, data: Bytes, count: int) -> bytearray:
        """Sends a message to the next process while it receives one from the one before."""
        failed: List[BaseException] = []

        def send() -> None:
            try:
                self.following.send(data)
            except BaseException as problem:
                failed.append(problem)

        # Both directions at once: two large messages would fill the buffers of both connections.
        sender = threading.Thread(target=send, daemon=True)
        sender.start()
        received = self.before.receive(count)
        sender.join()
        if failed:
            raise failed[0]
        return received

    def close(self) -> None:
        for link in {self.following, self.before}:
            link.close()


class _Alone(_Group):
    """A group of one process, which has no connections."""

    def __init__(self) -> None:
        self.rank, self.size = 0, 1

    def close(self) -> None:
        pass


def _whole(name: str, given: Union[int, str, None], variable: str) -> int:
    text = os.environ.get(variable) if given is None else given
    if text is None:
        raise ValueError(f"init_process_group: pass {name}, or set {variable}")
    try:
        return int(text)
    except (TypeError, ValueError):
        raise ValueError(f"init_process_group: {name} must be a whole number, not {text!r}") from None


def init_process_group(
    rank: Optional[int] = None,
    world_size: Optional[int] = None,
    master_addr: Optional[str] = None,
    master_port: Optional[int] = None,
    secret: Union[str, bytes, None] = None,
    timeout: float = 300.0,
) -> None:
    """Joins the group of `world_size` processes as number `rank`. The address is that of process 0.

    The variables RANK, WORLD_SIZE, MASTER_ADDR (default 127.0.0.1), MASTER_PORT (default 29500) and PYFLAME_GROUP_SECRET replace
    arguments that are not given. `timeout` is how long an operation waits for another process, in seconds.
    """
    global _group
    if _group is not None:
        raise RuntimeError("init_process_group: this process is in a group already; call destroy_process_group first")
    rank, size = _whole("rank", rank, "RANK"), _whole("world_size", world_size, "WORLD_SIZE")
    if not 0 <= rank < size:
        raise ValueError(f"init_process_group: the rank must be from 0 to below the world size {size}, not {rank}")
    address = resolved(master_addr or os.environ.get("MASTER_ADDR") or "127.0.0.1")
    port = _whole("master_port", 29500 if master_port is None and "MASTER_PORT" not in os.environ else master_port, "MASTER_PORT")
    if not 0 < port < 65536:
        raise ValueError(f"init_process_group: the port must be from 1 to 65535, not {port}")
    secret = os.environ.get("PYFLAME_GROUP_SECRET") if secret is None else secret
    if not secret and not is_loopback(address):
        raise ValueError(
            f"init_process_group: {address} is not an address of this machine only, so anybody who reaches it could join; "
            "give all processes the same secret (secret= or PYFLAME_GROUP_SECRET)"
        )
    key = secret.encode() if isinstance(secret, str) else bytes(secret or b"")
    _group = _join(rank, size, address, port, key, float(timeout))


def _join(rank: int, size: int, address: str, port: int, key: bytes, timeout: float) -> _Group:
    if size == 1:
        return _Alone()
    until = time.monotonic() + timeout
    following, before = (rank + 1) % size, (rank - 1) % size
    links: Dict[int, Link] = {}
    listener = None
    try:
        # Process 0 collects where the others listen, and tells each where its next one does.
        if rank == 0:
            listener = listen(address, port)
            links = accept(listener, key, 0, size, set(range(1, size)), timeout, until)
            places = {peer: bytes(link.receive(64)) for peer, link in links.items()}
            for peer, link in links.items():
                link.send(places.get((peer + 1) % size, bytes(64)))
            if size == 2:
                return _Group(0, 2, links[1], links[1])
            for peer in list(links):
                if peer not in (following, before):
                    links.pop(peer).close()
            return _Group(0, size, links[1], links[size - 1])
        links[0] = call(address, port, key, rank, size, 0, timeout, until)
        if size == 2:
            links[0].send(bytes(64))
            links[0].receive(64)
            return _Group(1, 2, links[0], links[0])
        host = links[0]._socket.getsockname()[0]
        listener = listen(host, 0)
        place = _ADDRESS.pack(listener.getsockname()[1]) + host.encode().ljust(62, b"\0")
        links[0].send(place)
        place = bytes(links[0].receive(64))
        # Process n calls n + 1; the first and the last have a connection to process 0 already.
        if following != 0:
            (port,), host = _ADDRESS.unpack_from(place), place[2:].rstrip(b"\0").decode("ascii", "replace")
            if not host or (not key and not is_loopback(host)):
                raise LinkError(f"process 0 sent the address {host}, which is not of this machine only")
            links[following] = call(host, port, key, rank, size, following, timeout, until)
        if before != 0:
            links.update(accept(listener, key, rank, size, {before}, timeout, until))
        group = _Group(rank, size, links[following], links[before])
        if 0 not in (following, before):
            links[0].close()
        return group
    except BaseException:
        for link in links.values():
            link.close()
        raise
    finally:
        if listener is not None:
            listener.close()


def destroy_process_group() -> None:
    """Leaves the group."""
    global _group
    group, _group = _group, None
    if group is not None:
        group.close()


def is_initialized() -> bool:
    """Whether this process is in a group."""
    return _group is not None


def _joined(operation: str) -> _Group:
    if _group is None:
        raise RuntimeError(f"{operation}: this process belongs to no process group; call init_process_group first")
    return _group


def get_rank() -> int:
    """The number of this process in its group."""
    return _joined("get_rank").rank


def get_world_size() -> int:
    """The number of processes of the group."""
    return _joined("get_world_size").size


def barrier() -> None:
    """Waits until all processes have called it."""
    group = _joined("barrier")
    # A message that has gone around twice has seen that all arrived, and has told all.
    for _ in range(2 * (group.size - 1)):
        group.exchange(b"b", 1)


@overload
def broadcast(tensor: Tensor, src: int = 0) -> Tensor: ...
@overload
def broadcast(tensor: Sequence[Tensor], src: int = 0) -> Sequence[Tensor]: ...
def broadcast(tensor: Any, src: int = 0) -> Any:
    """Replaces the elements of a tensor by those of process `src`.

    A list of tensors, one for each GPU that this process uses, gets the elements of the first one of process `src`.
    """
    group = _joined("broadcast")
    if not 0 <= src < group.size:
        raise ValueError(f"broadcast: src must be a rank from 0 to below {group.size}, not {src}")
    if isinstance(tensor, (list, tuple)):
        return _spread(broadcast(tensor[0], src), tensor)
    if group.size == 1:
        return tensor
    if group.rank == src:
        data: Bytes = _to_bytes(tensor)
    else:
        data = group.before.receive(tensor.nelement() * tensor.dtype.itemsize)
    if (group.rank + 1) % group.size != src:
        group.following.send(data)
    if group.rank != src:
        _assign(tensor, _from_bytes(data, tensor.dtype, tensor.shape))
    return tensor


def all_gather(tensor: Tensor) -> List[Tensor]:
    """Returns the tensors of all processes, in the order of their ranks. They have one shape and type."""
    group = _joined("all_gather")
    count = tensor.nelement() * tensor.dtype.itemsize
    data: Bytes = _to_bytes(tensor)
    parts = [data] * group.size
    for turn in range(1, group.size):
        data = group.exchange(data, count)
        parts[(group.rank - turn) % group.size] = data
    return [
        tensor.detach() if rank == group.rank else _from_bytes(part, tensor.dtype, tensor.shape).to(tensor.device)
        for rank, part in enumerate(parts)
    ]


@overload
def all_reduce(tensor: Tensor, op: str = "sum") -> Tensor: ...
@overload
def all_reduce(tensor: Sequence[Tensor], op: str = "sum") -> Sequence[Tensor]: ...
def all_reduce(tensor: Any, op: str = "sum") -> Any:
    """Replaces the elements of a tensor by the sum over all processes (or 'avg', 'max', 'min', 'product').

    Every process gets the same bits. Half types are added in float32. A list of tensors, one for each GPU that this process uses,
    counts as that many tensors: they are added here first, so that only one goes through the network.
    """
    group = _joined("all_reduce")
    if isinstance(tensor, (list, tuple)):
        # The mean of the processes' means, because all have as many GPUs.
        local.all_reduce(tensor, op)
        return tensor if group.size == 1 else _spread(all_reduce(tensor[0], op), tensor)
    dtype = tensor.dtype
    wide = local.checked(op, dtype)
    if group.size == 1:
        return tensor
    flat = tensor.detach().cpu().to(wide).reshape(-1)
    length = flat.nelement()
    bounds = [length * part // group.size for part in range(group.size + 1)]
    parts = [flat[start:end] for start, end in zip(bounds, bounds[1:])]
    # Each part goes around and collects a summand at every process; then the sums go around.
    for turn in range(group.size - 1):
        give, take = (group.rank - turn) % group.size, (group.rank - turn - 1) % group.size
        received = _received(group, parts[give], parts[take])
        parts[take] = local.combined(op, received, parts[take])
    for turn in range(group.size - 1):
        give, take = (group.rank + 1 - turn) % group.size, (group.rank - turn) % group.size
        parts[take] = _received(group, parts[give], parts[take])
    whole = _pf.cat(parts)
    if op == "avg":
        whole = whole / group.size
    return _assign(tensor, whole.to(dtype).reshape(tensor.shape))


def _received(group: _Group, given: Tensor, like: Tensor) -> Tensor:
    data = group.exchange(_to_bytes(given), like.nelement() * like.dtype.itemsize)
    return _from_bytes(data, like.dtype, like.shape)


def _spread(first: Tensor, tensors: Sequence[Tensor]) -> Sequence[Tensor]:
    """Replaces the elements of tensors on different GPUs by those of the first."""
    with _pf.no_grad():
        for tensor, copy in zip(tensors, local.broadcast(first, [tensor.device for tensor in tensors])):
            if tensor is not first:
                tensor.copy_(copy)
    return tensors


def _to_bytes(tensor: Tensor) -> bytes:
    return tensor.detach().to_parts()[2]


def _from_bytes(data: Bytes, dtype: _pf.dtype, shape: Sequence[int]) -> Tensor:
    return _pf.from_parts(dtype, list(shape), bytes(data), "cpu")


def _assign(tensor: Tensor, value: Tensor) -> Tensor:
    with _pf.no_grad():
        tensor.copy_(value.to(tensor.device))
    return tensor
