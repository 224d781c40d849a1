"""Groups of processes over TCP, and modules on several GPUs."""

import os
import socket
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

import pyflame as pf
import pyflame.distributed as dist
import pyflame.nn as nn
from pyflame.distributed import _link
from pyflame.nn.parallel import DataParallel

BEGIN = """
import os, sys, numpy as np, pyflame as pf, pyflame.distributed as dist, pyflame.nn as nn
from pyflame.nn.parallel import DistributedDataParallel
dist.init_process_group(timeout=30)
rank, size = dist.get_rank(), dist.get_world_size()
"""


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def start(program, rank, size, port, **more):
    environment = {**os.environ, "RANK": str(rank), "WORLD_SIZE": str(size), "MASTER_PORT": str(port), **more}
    return subprocess.Popen(
        [sys.executable, "-c", program], env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )


def run(program, size, **more):
    port = free_port()
    processes = [start(BEGIN + program, rank, size, port, **more) for rank in range(size)]
    outputs = [process.communicate(timeout=60)[0] for process in processes]
    for process, output in zip(processes, outputs):
        assert process.returncode == 0, output
    return outputs


COLLECTIVES = """
numbers = lambda rank: np.random.default_rng(rank).standard_normal(1001)
for dtype, tolerance in [(pf.float32, 1e-6), (pf.float64, 1e-14), (pf.float16, 1e-3), (pf.bfloat16, 1e-2)]:
    x = pf.tensor(numbers(rank)).to(dtype)
    all_of_them = [pf.tensor(numbers(other)).to(dtype).double().numpy() for other in range(size)]
    assert dist.all_reduce(x) is x and x.dtype is dtype
    assert np.allclose(x.double().numpy(), sum(all_of_them), rtol=tolerance, atol=4 * tolerance)
    same = dist.all_gather(x)
    assert len(same) == size and all((other == x).all().item() for other in same)
    x = pf.tensor(numbers(rank)).to(dtype)
    assert (dist.all_reduce(x, "max").double().numpy() == np.max(all_of_them, 0)).all()
assert dist.all_reduce(pf.tensor([rank + 1]), "product").item() == [1, 1, 2, 6][size]
assert dist.all_reduce(pf.tensor([1.0, 2.0 * rank]), "avg").tolist() == [1.0, size - 1.0]
assert dist.all_reduce(pf.zeros(0)).shape == (0,) and dist.all_reduce(pf.tensor(1)).item() == size
for src in range(size):
    assert dist.broadcast(pf.tensor([[rank, 7]]), src).tolist() == [[src, 7]]
assert [x.tolist() for x in dist.all_gather(pf.tensor([rank, -rank]))] == [[n, -n] for n in range(size)]
big = dist.all_reduce(pf.full((1 << 20,), 1.0 + rank))
assert (big == sum(1.0 + n for n in range(size))).all().item()
dist.barrier()
dist.destroy_process_group()
print("done")
"""


@pytest.mark.parametrize("size, secret", [(1, ""), (2, ""), (3, "a secret of the group")])
def test_sums_copies_and_collections_are_those_of_all_processes(size, secret):
    assert run(COLLECTIVES, size, PYFLAME_GROUP_SECRET=secret) == ["done\n"] * size


DDP = """
pf.manual_seed(rank)
model = nn.Sequential(nn.Linear(5, 7), nn.Tanh(), nn.Linear(7, 3))
parallel = DistributedDataParallel(model, bucket=20)
unused = [p for p in model.parameters()]
x, y = pf.tensor(np.arange(40.0).reshape(8, 5) % 7 / 7), pf.tensor(np.arange(24.0).reshape(8, 3) % 5)
x, y = x.float(), y.float()
mine = slice(rank * 4, rank * 4 + 4)
pf.nn.functional.mse_loss(parallel(x[mine]), y[mine]).backward()
parallel.average_gradients()
got = [p.grad.numpy().copy() for p in model.parameters()]
model.zero_grad()
pf.nn.functional.mse_loss(model(x), y).backward()
for a, p in zip(got, model.parameters()):
    assert np.allclose(a, p.grad.numpy(), atol=1e-6), (a, p.grad)
print(sum(float(abs(p).sum().item()) for p in model.parameters()))
"""


def test_averaged_gradients_are_those_of_the_whole_batch_and_parameters_are_equal():
    first, second = run(DDP, 2)
    assert first == second


def test_without_a_secret_only_addresses_of_this_machine_are_allowed():
    for address in ["0.0.0.0", "192.0.2.1", "::"]:
        with pytest.raises(ValueError, match="same secret"):
            dist.init_process_group(0, 2, address, free_port())
    assert not dist.is_initialized()


def test_strangers_do_not_join_and_do_not_disturb():
    port = free_port()
    program = BEGIN + "print(dist.all_reduce(pf.tensor(1)).item())"
    members = [start(program, 0, 2, port, PYFLAME_GROUP_SECRET="right")]
    for attempt in range(200):
        try:
            quiet = socket.create_connection(("127.0.0.1", port), timeout=5)
            break
        except OSError:
            time.sleep(0.05)
    noisy = socket.create_connection(("127.0.0.1", port), timeout=5)
    noisy.sendall(os.urandom(4096))
    wrong = start(program, 1, 2, port, PYFLAME_GROUP_SECRET="wrong")
    output, _ = wrong.communicate(timeout=30)
    assert wrong.returncode and "LinkError" in output, output
    members.append(start(program, 1, 2, port, PYFLAME_GROUP_SECRET="right"))
    assert [member.communicate(timeout=30)[0] for member in members] == ["2\n", "2\n"]
    quiet.close(), noisy.close()


def pair(secrets=(b"s", b"s")):
    """Both ends of a connection, and what their handshakes returned or raised."""
    ends = []
    for connection in socket.socketpair():
        end = _link.Link.__new__(_link.Link)
        end._socket, end.peer, end._timeout = connection, "?", 10
        end._keys, end._counts, end._until = None, [0, 0], None
        ends.append(end)
    results = [None, None]

    def begin(number):
        try:
            results[number] = ends[number]._begin(secrets[number], number, 2, number == 0)
        except _link.LinkError as problem:
            results[number] = problem
            ends[number].close()

    threads = [threading.Thread(target=begin, args=(number,)) for number in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return ends, results


def test_a_handshake_needs_the_secret_on_both_sides():
    assert pair()[1] == [1, 0]
    _, results = pair((b"s", b"t"))
    assert all(isinstance(result, _link.LinkError) for result in results)


def test_messages_that_were_changed_repeated_or_have_another_length_are_refused():
    (near, far), _ = pair()
    near.send(b"good")
    assert far.receive(4) == b"good"
    near._write(_link._LENGTH.pack(4), b"evil", near._seal(0, b"good"))
    with pytest.raises(_link.LinkError, match="changed"):
        far.receive(4)
    (near, far), _ = pair()
    near.send(b"once")
    assert far.receive(4) == b"once"
    near._counts[0] -= 1
    near.send(b"once")
    with pytest.raises(_link.LinkError, match="changed"):
        far.receive(4)
    (near, far), _ = pair()
    near.send(b"back")
    assert far.receive(4) == b"back"
    far._keys.reverse()
    far.send(b"back")
    with pytest.raises(_link.LinkError, match="changed"):
        near.receive(4)
    (near, far), _ = pair()
    near.send(b"long")
    with pytest.raises(_link.LinkError, match="4 bytes instead of 3"):
        far.receive(3)


def test_copies_between_gpus_are_ordered_with_the_work_on_both(gpu):
    for turn in range(5):
        x = pf.full((1000, 100), float(turn), device="rocm:0") * 2
        y = x.to("rocm:1")
        del x
        other = pf.full((1000, 100), -1.0, device="rocm:0") * 3
        z = (y + 1).to("rocm:0")
        assert str(y.device) == "rocm:1" and (y == 2.0 * turn).all().item()
        assert (z == 2.0 * turn + 1).all().item() and (other == -3).all().item()
    part = pf.arange(12, device="rocm:0").reshape(3, 4).T[1:3]
    assert part.to("rocm:1").tolist() == [[1, 5, 9], [2, 6, 10]]
    x = pf.ones(3, device="rocm:0").requires_grad_()
    (x.to("rocm:1") * 5).sum().backward()
    assert x.grad.tolist() == [5, 5, 5] and str(x.grad.device) == "rocm:0"


LOCAL = """
gpus = ["rocm:0", "rocm:1"]
tensors = [pf.tensor([1.0, 10.0 * rank + number], device=gpu) for number, gpu in enumerate(gpus)]
assert dist.all_reduce(tensors) is tensors
assert [t.tolist() for t in tensors] == [[4.0, 22.0]] * 2, tensors
assert [t.tolist() for t in dist.all_reduce(tensors, "avg")] == [[4.0, 22.0]] * 2
tensors = [pf.tensor([rank, number], device=gpu) for number, gpu in enumerate(gpus)]
assert [t.tolist() for t in dist.broadcast(tensors, 1)] == [[1, 0]] * 2, tensors
assert [str(t.device) for t in tensors] == gpus
print("done")
"""


def test_processes_with_two_gpus_each_add_them_here_first(gpu):
    assert run(LOCAL, 2) == ["done\n"] * 2


def test_a_module_on_two_gpus_has_the_results_and_gradients_of_one(gpu):
    model = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 2)).to("rocm:0")
    x, g = pf.randn(7, 6, device="rocm:0"), pf.randn(7, 2, device="rocm:0")
    alone = model(x)
    alone.backward(g)
    wanted = [parameter.grad.numpy().copy() for parameter in model.parameters()]
    model.zero_grad()
    both = DataParallel(model, [0, 1])
    out = both(x)
    assert np.array_equal(out.detach().numpy(), alone.detach().numpy())
    out.backward(g)
    for parameter, want in zip(model.parameters(), wanted):
        assert np.allclose(parameter.grad.numpy(), want, atol=1e-5)
    assert both(x[:1]).shape == (1, 2)
    with pytest.raises(ValueError, match="once"):
        DataParallel(model, [0, 0])
