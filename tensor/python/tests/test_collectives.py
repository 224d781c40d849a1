"""Sums, copies and collections between the GPUs of a process: by copies and additions, and by RCCL."""

import ctypes
import os
import shutil
import subprocess
import sys

import numpy as np
import pytest

import pyflame as pf
import pyflame.nn as nn
from pyflame.distributed import local

GPUS = ["rocm:0", "rocm:1"]

# The program of both paths. It is run with two GPUs.
COLLECTIVES = """
import numpy as np, pyflame as pf, pyflame.nn as nn
from pyflame.distributed import local
GPUS = ["rocm:0", "rocm:1"]
def values(number, count=5):
    return np.random.default_rng(number).standard_normal(count)
for dtype, tolerance in [(pf.float32, 1e-6), (pf.float64, 1e-14), (pf.float16, 2e-3), (pf.bfloat16, 2e-2)]:
    for count in [5, 1 << 17]:
        given = [pf.tensor(values(n, count), device=gpu).to(dtype) for n, gpu in enumerate(GPUS)]
        known = [tensor.double().numpy().copy() for tensor in given]
        results = local.all_reduce(given)
        assert all(a is b for a, b in zip(results, given))
        assert [str(tensor.device) for tensor in given] == GPUS and given[0].dtype is dtype
        assert (given[0].cpu() == given[1].cpu()).all().item()
        assert np.allclose(given[0].double().numpy(), known[0] + known[1], rtol=tolerance, atol=tolerance)
for op, wanted in [("sum", [5, 7]), ("product", [4, 10]), ("max", [4, 5]), ("min", [1, 2])]:
    given = [pf.tensor([1, 2], device="rocm:0"), pf.tensor([4, 5], device="rocm:1")]
    assert [tensor.tolist() for tensor in local.all_reduce(given, op)] == [wanted, wanted], op
means = local.all_reduce([pf.ones(2, 2, device="rocm:0"), pf.ones(4, 2, device="rocm:1")[1:3] * 4], "avg")
assert [mean.tolist() for mean in means] == [[[2.5, 2.5]] * 2] * 2
for root in GPUS:
    x = pf.arange(6, device=root).reshape(2, 3).T
    copies = local.broadcast(x, GPUS)
    assert [str(copy.device) for copy in copies] == GPUS
    assert [copy.tolist() for copy in copies] == [x.tolist()] * 2
    for copy in copies:
        copy.add_(1)
    assert x.tolist() == [[0, 3], [1, 4], [2, 5]]
everything = local.all_gather([pf.tensor([True, False], device="rocm:0"), pf.tensor([False, False], device="rocm:1")])
assert [[part.tolist() for part in there] for there in everything] == [[[True, False], [False, False]]] * 2
assert [str(part.device) for there in everything for part in there] == ["rocm:0"] * 2 + ["rocm:1"] * 2
model = nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 2)).to("rocm:0").eval()
model[3].bias.requires_grad_(False)
x, g = pf.randn(7, 6, device="rocm:0"), pf.randn(7, 2, device="rocm:0")
alone = model(x)
alone.backward(g)
wanted = [p.grad.numpy().copy() for p in model.parameters() if p.requires_grad]
model.zero_grad()
both = nn.DataParallel(model, [0, 1])
out = both(x)
assert np.array_equal(out.detach().numpy(), alone.detach().numpy())
out.backward(g)
got = [p.grad.numpy() for p in model.parameters() if p.requires_grad]
assert len(got) == 5 and all(np.allclose(a, b, atol=1e-5) for a, b in zip(got, wanted))
with pf.no_grad():
    assert np.array_equal(both(x).numpy(), alone.detach().numpy())
print("done")
"""

# Implements the functions that pyflame calls, with the signatures of rccl.h, in host memory. It checks that they are called as RCCL
# wants: the calls of all communicators in one group, each with memory and a stream of its own device.
STAND_IN = r"""
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
typedef struct { int type, device; void *device_pointer, *host_pointer; int managed; unsigned flags; } attributes;
extern int hipSetDevice(int);
extern int hipStreamSynchronize(void *);
extern int hipMemcpy(void *, const void *, size_t, int);
extern int hipPointerGetAttributes(attributes *, const void *);
typedef struct { int device, rank, size; } communicator;
typedef struct { int kind; const void *from; void *to; size_t count; int type, extra; communicator *comm; void *stream; } call;
static call calls[16];
static int depth, waiting, refuses;
int standin_groups;
static const size_t sizes[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2};
const char *ncclGetErrorString(int status) { return status == 4 ? "invalid argument" : "internal error"; }
int ncclCommInitAll(communicator **comms, int size, const int *devices) {
  refuses = getenv("STANDIN_REFUSES") ? *getenv("STANDIN_REFUSES") : 0;
  if (refuses == 'i') return 3;
  for (int n = 0; n < size; n++) {
    comms[n] = malloc(sizeof(communicator));
    *comms[n] = (communicator){devices[n], n, size};
  }
  return 0;
}
int ncclCommDestroy(communicator *comm) { free(comm); return 0; }
int ncclGroupStart(void) { return depth++ ? 5 : 0; }
static int put(call it) {
  if (!depth || waiting == 16 || it.type > 9) return 4;
  attributes of;
  if (hipPointerGetAttributes(&of, it.to) || of.device != it.comm->device) return 4;
  if (!it.stream) return 4;
  calls[waiting++] = it;
  return 0;
}
int ncclAllReduce(const void *from, void *to, size_t count, int type, int op, communicator *comm, void *stream) {
  return put((call){0, from, to, count, type, op, comm, stream});
}
int ncclBroadcast(const void *from, void *to, size_t count, int type, int root, communicator *comm, void *stream) {
  return put((call){1, from, to, count, type, root, comm, stream});
}
int ncclAllGather(const void *from, void *to, size_t count, int type, communicator *comm, void *stream) {
  return put((call){2, from, to, count, type, 0, comm, stream});
}
#define COMBINE(T) do { T *a = (T *)all, *b = (T *)part; for (size_t i = 0; i < count; i++) \
  a[i] = op == 0 ? a[i] + b[i] : op == 1 ? a[i] * b[i] : op == 2 ? (b[i] > a[i] ? b[i] : a[i]) : (b[i] < a[i] ? b[i] : a[i]); } while (0)
int ncclGroupEnd(void) {
  int size = waiting ? calls[0].comm->size : 0, status = waiting == size ? 0 : 5;
  depth--, waiting = 0, standin_groups++;
  if (status || !size) return status;
  if (refuses == 'k') return 1;
  call first = calls[0];
  size_t count = first.count, bytes = count * sizes[first.type];
  char *all = malloc(bytes * size + 1), *part = malloc(bytes + 1);
  for (int n = 0; n < size && !status; n++) {
    call it = calls[n];
    int op = it.extra;
    if (it.kind != first.kind || it.count != count || it.type != first.type || it.comm->rank != n) { status = 5; break; }
    hipSetDevice(it.comm->device);
    if (hipStreamSynchronize(it.stream) || hipMemcpy(part, it.from, bytes, 2)) { status = 1; break; }
    if (it.kind == 2) memcpy(all + n * bytes, part, bytes);
    else if (it.kind == 1) { if (n == it.extra) memcpy(all, part, bytes); }
    else if (n == 0) memcpy(all, part, bytes);
    else if (it.type == 7) COMBINE(float);
    else if (it.type == 8) COMBINE(double);
    else if (it.type == 4) COMBINE(long);
    else status = 4;
  }
  if (refuses == 's') *(float *)all += 1;
  for (int n = 0; n < size && !status; n++) {
    hipSetDevice(calls[n].comm->device);
    if (hipMemcpy(calls[n].to, all, first.kind == 2 ? bytes * size : bytes, 1)) status = 1;
  }
  free(all), free(part);
  return status;
}
"""


def run(program, **environment):
    return subprocess.run(
        [sys.executable, "-c", program], env={**os.environ, **environment}, capture_output=True, text=True, timeout=120
    )


def test_copies_and_additions_give_every_gpu_the_results_of_all(gpu):
    done = run(COLLECTIVES, PYFLAME_COLLECTIVES="own")
    assert done.stdout == "done\n", done.stderr


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with a library that has RCCL's name and functions and calls pyflame's HIP runtime."""
    compiler = shutil.which("cc")
    if not compiler or "PYFLAME_HIP_LIBRARY" not in os.environ:
        pytest.skip("a C compiler and a software GPU are needed")
    folder = tmp_path_factory.mktemp("rccl")
    (folder / "rccl.c").write_text(STAND_IN)
    runtime = os.environ["PYFLAME_HIP_LIBRARY"]
    command = [compiler, "-shared", "-fPIC", "-O1", "-o", folder / "librccl.so.1", folder / "rccl.c", runtime]
    subprocess.run([*command, f"-Wl,-rpath,{os.path.dirname(runtime)}"], check=True)
    return str(folder)


def test_rccl_is_called_with_one_group_of_calls_for_all_gpus(gpu, folder):
    counted = COLLECTIVES + (
        "import ctypes\n"
        "print(ctypes.c_int.in_dll(ctypes.CDLL('librccl.so.1'), 'standin_groups').value)\n"
        "small = local.all_reduce([pf.ones(2, dtype=pf.int16, device=gpu) for gpu in GPUS])\n"
        "assert small[1].tolist() == [2, 2]\n"
        "assert [copy.tolist() for copy in local.broadcast(pf.ones(2, device='cpu'), GPUS)] == [[1, 1]] * 2\n"
        "pf.rocm.reset()\n"
        "again = local.all_reduce([pf.ones(2, device=gpu) for gpu in GPUS])\n"
        "assert again[1].tolist() == [2, 2]\n"
        "print(ctypes.c_int.in_dll(ctypes.CDLL('librccl.so.1'), 'standin_groups').value)\n"
    )
    done = run(counted, PYFLAME_COLLECTIVES="rccl", LD_LIBRARY_PATH=folder)
    assert done.returncode == 0, done.stderr
    word, first, second = done.stdout.split()
    # 8 sums of floats, 4 of integers, a mean, 2 copies, a collection, and the model's tensors for both batches.
    assert word == "done" and int(first) >= 16 and int(second) > int(first)


def test_auto_does_not_use_rccl_where_kernels_do_not_see_what_the_host_writes(gpu, folder):
    program = (
        "import ctypes, pyflame as pf\n"
        "from pyflame.distributed import local\n"
        "print(local.all_reduce([pf.ones(1, device='rocm:0'), pf.ones(1, device='rocm:1')])[1].item())\n"
        "print(ctypes.c_int.in_dll(ctypes.CDLL('librccl.so.1'), 'standin_groups').value)\n"
    )
    done = run(program, PYFLAME_COLLECTIVES="auto", LD_LIBRARY_PATH=folder)
    assert done.stdout == "2.0\n0\n", done.stderr
    done = run(program, PYFLAME_COLLECTIVES="rccl", LD_LIBRARY_PATH=folder)
    assert done.stdout == "2.0\n2\n", done.stderr


def test_a_library_that_cannot_be_used_is_named_with_what_to_do_and_auto_goes_on_without(gpu, folder):
    program = (
        "import pyflame as pf\n"
        "from pyflame.distributed import local\n"
        "print(local.all_reduce([pf.ones(2, device='rocm:0'), pf.ones(2, device='rocm:1')])[1].tolist())\n"
    )
    for reason, environment in [
        ("tried librccl.so.1", {"LD_LIBRARY_PATH": ""}),
        ("ncclCommInitAll returned status 3: internal error", {"LD_LIBRARY_PATH": folder, "STANDIN_REFUSES": "init"}),
        ("ncclGroupEnd returned status 1", {"LD_LIBRARY_PATH": folder, "STANDIN_REFUSES": "kernels"}),
        ("added 2 ones on rocm:0 to 3", {"LD_LIBRARY_PATH": folder, "STANDIN_REFUSES": "sums"}),
    ]:
        failed = run(program, PYFLAME_COLLECTIVES="rccl", **environment)
        assert failed.returncode and "PYFLAME_COLLECTIVES asks for RCCL, which cannot be used" in failed.stderr
        assert reason in failed.stderr and "PYFLAME_COLLECTIVES=auto" in failed.stderr, failed.stderr
        done = run(program, PYFLAME_COLLECTIVES="auto", **environment)
        assert done.stdout == "[2.0, 2.0]\n", done.stderr
    with pytest.raises(OSError):
        ctypes.CDLL("librccl.so.1")


def test_an_unknown_choice_is_an_error_of_the_import():
    failed = run("import pyflame", PYFLAME_COLLECTIVES="nccl")
    assert failed.returncode and "PYFLAME_COLLECTIVES must be one of auto, own, rccl" in failed.stderr


def test_tensors_that_do_not_belong_together_are_refused(gpu):
    one, other = pf.ones(2, device="rocm:0"), pf.ones(2, device="rocm:1")
    for operation in (local.all_reduce, local.all_gather):
        with pytest.raises(ValueError, match="device of its own"):
            operation([one, one * 2])
        with pytest.raises(ValueError, match="one shape and type"):
            operation([one, pf.ones(3, device="rocm:1")])
        with pytest.raises(ValueError, match="no tensors"):
            operation([])
    with pytest.raises(ValueError, match="op must be one of sum"):
        local.all_reduce([one, other], "mean")
    with pytest.raises(TypeError, match="use float"):
        local.all_reduce([one.long(), other.long()], "avg")
    with pytest.raises(ValueError, match="once"):
        local.broadcast(one, ["rocm:0", "rocm:0"])


def test_a_replica_is_trained_by_the_gradients_of_both_gpus(gpu):
    model = nn.Linear(3, 1, bias=False).to("rocm:0")
    both = nn.DataParallel(model, [0, 1])
    x = pf.tensor(np.arange(12.0).reshape(4, 3), device="rocm:0").float()
    both(x).sum().backward()
    assert model.weight.grad.tolist() == [[18, 22, 26]] and str(model.weight.grad.device) == GPUS[0]
