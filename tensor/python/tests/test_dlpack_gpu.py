"""DLPack for tensors on a GPU: capsules with addresses of the HIP runtime, read as another library reads them."""

import ctypes
import gc
import os

import numpy as np
import pytest

import pyflame as pf

ROCM = 10


class DlTensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_uint64),
        ("kind", ctypes.c_int32),
        ("number", ctypes.c_int32),
        ("dims", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


class Versioned(ctypes.Structure):
    _fields_ = [
        ("version", ctypes.c_uint32 * 2),
        ("context", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
        ("tensor", DlTensor),
    ]


def content(capsule, kind=DlTensor, name=b"dltensor"):
    take = ctypes.pythonapi.PyCapsule_GetPointer
    take.restype, take.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    return kind.from_address(take(capsule, name))


def runtime():
    """The HIP runtime that pyflame uses, as another library of this process uses it."""
    return ctypes.CDLL(os.environ["PYFLAME_HIP_LIBRARY"])


def read(tensor, count):
    """Elements of type float32 at the address of a capsule."""
    values = np.zeros(count, np.float32)
    device_to_host = 2
    status = runtime().hipMemcpy(
        ctypes.c_void_p(values.ctypes.data), ctypes.c_void_p(tensor.data), ctypes.c_size_t(values.nbytes), device_to_host
    )
    assert status == 0
    return values.tolist()


class Foreign:
    """An array of another library: a capsule, which may be changed before it is taken."""

    def __init__(self, tensor, change=lambda capsule: None, device=None):
        self.tensor, self.change, self.device, self.streams = tensor, change, device, []

    def __dlpack_device__(self):
        return self.device or self.tensor.__dlpack_device__()

    def __dlpack__(self, stream=None):
        self.streams.append(stream)
        capsule = self.tensor.__dlpack__(stream=stream)
        self.change(content(capsule))
        return capsule


@pytest.mark.parametrize("number", [0, 1])
def test_a_capsule_has_the_address_of_the_elements_in_the_hip_runtime(gpu, number):
    x = pf.arange(12, device=f"rocm:{number}").float().reshape(3, 4) * 2
    assert x.__dlpack_device__() == (ROCM, number)
    capsule = x.__dlpack__()
    tensor = content(capsule)
    assert (tensor.kind, tensor.number, tensor.dims, tensor.code, tensor.bits) == (ROCM, number, 2, 2, 32)
    assert tensor.shape[:2] == [3, 4] and tensor.strides[:2] == [4, 1]
    assert read(tensor, 12) == [2.0 * n for n in range(12)]
    part = content(kept := x.T[1:3].__dlpack__())
    assert part.shape[:2] == [2, 3] and part.strides[:2] == [1, 4] and part.data == tensor.data + 4
    del kept
    assert pf.ones(3, device=f"rocm:{number}").__dlpack_device__() == (ROCM, number)
    assert read(content(kept := pf.ones(3, device=f"rocm:{number}").__dlpack__()), 3) == [1, 1, 1]


def test_an_exported_capsule_keeps_its_elements(gpu):
    x = pf.arange(4).float() + 1
    capsule = x.__dlpack__()
    x[0] = 9
    x.mul_(2)
    del x
    gc.collect()
    others = [pf.zeros(4) - 1 for _ in range(8)]
    pf.eval(*others)
    assert read(content(capsule), 4) == [1, 2, 3, 4]
    manager = pf.backend.rocm.get_memory_manager()
    before = manager.get_stats()["total_allocated"]
    del capsule
    assert manager.get_stats()["total_allocated"] < before


def test_what_is_shared_is_read_only_and_a_copy_is_not(gpu):
    x = pf.arange(4).float() + 1
    shared, copied = x.__dlpack__(max_version=(1, 0)), x.__dlpack__(max_version=(1, 0), copy=True)
    shared, copied = (content(capsule, Versioned, b"dltensor_versioned") for capsule in (shared, copied))
    assert (shared.flags, copied.flags) == (1, 2) and shared.tensor.data != copied.tensor.data
    assert x.__dlpack__(copy=False)


@pytest.mark.parametrize("make", [
    lambda: pf.arange(24).reshape(2, 3, 4) * 3,
    lambda: (pf.randn(4, 6) + 1).T[1:5:2],
    lambda: pf.arange(6).double() / 7,
    lambda: pf.tensor(2.5),
    lambda: pf.zeros(0, 3),
    lambda: (pf.randn(3, 2) * 2).half(),
    lambda: pf.arange(3).float().expand(2, 3),
])  # fmt: skip
def test_a_round_trip_keeps_elements_shape_and_type(gpu, make):
    x = make()
    foreign = Foreign(x)
    y = pf.from_dlpack(foreign)
    assert y.shape == x.shape and y.dtype is x.dtype and y.device == "rocm:0"
    assert y.tolist() == x.tolist()
    # The consumer's stream is pyflame's own.
    assert foreign.streams[0] > 2
    y.add_(1)
    assert y.tolist() == (x + 1).tolist() or x.nelement() == 0
    assert pf.from_dlpack(Foreign(x), device="cpu").tolist() == x.tolist()


def test_an_array_on_another_gpu_stays_there(gpu):
    y = pf.from_dlpack(Foreign(pf.arange(5, device="rocm:1") + 1))
    assert y.device == "rocm:1" and (y * 2).tolist() == [2, 4, 6, 8, 10]


def test_streams_are_those_of_the_protocol(gpu):
    x = pf.randn(1 << 16)
    expected = (x * 2).tolist()[:5]
    hip, stream = runtime(), ctypes.c_void_p()
    assert hip.hipSetDevice(0) == 0 and hip.hipStreamCreate(ctypes.byref(stream)) == 0
    values = np.zeros(5, np.float32)
    for argument, own in [(None, None), (0, None), (stream.value, stream), (-1, None)]:
        y = x * 2
        if argument == -1:
            pf.eval(y)
            pf.synchronize()
        capsule = y.__dlpack__(stream=argument)
        status = hip.hipMemcpyAsync(
            ctypes.c_void_p(values.ctypes.data), ctypes.c_void_p(content(capsule).data), ctypes.c_size_t(20), 2, own
        )
        assert status == 0 and hip.hipStreamSynchronize(own) == 0
        assert values.tolist() == expected
        del capsule
    assert hip.hipStreamDestroy(stream) == 0
    for wrong in [1, 2, -2, 1 << 70]:
        with pytest.raises(ValueError, match="no stream of ROCm"):
            x.__dlpack__(stream=wrong)


def test_a_copy_in_host_memory_is_exported_on_request(gpu):
    x = pf.arange(4) * 2

    class Host:
        def __dlpack_device__(self):
            return (1, 0)

        def __dlpack__(self, stream=None):
            return x.__dlpack__(dl_device=(1, 0))

    pf.set_device("cpu")
    y = pf.from_dlpack(Host())
    assert y.device == "cpu" and y.tolist() == [0, 2, 4, 6]
    with pytest.raises(BufferError, match="only copied"):
        x.__dlpack__(dl_device=(1, 0), copy=False)
    with pytest.raises(BufferError, match="device 1 of kind 10.*move it"):
        x.__dlpack__(dl_device=(ROCM, 1))
    with pytest.raises(BufferError, match="device 0 of kind 10.*move it"):
        pf.ones(2, device="cpu").__dlpack__(dl_device=(ROCM, 0))


def test_addresses_that_are_not_of_this_runtime_and_gpu_are_refused(gpu):
    host = np.zeros(4, np.float32)

    def elsewhere(tensor):
        tensor.data = host.ctypes.data

    x = pf.arange(4).float() + 0
    with pytest.raises(BufferError, match="is unknown in .*libamdhip64.*PYFLAME_HIP_LIBRARY"):
        pf.from_dlpack(Foreign(x, elsewhere))

    def renumbered(tensor):
        tensor.number = 1

    with pytest.raises(BufferError, match="belongs to device 0, not to rocm:1"):
        pf.from_dlpack(Foreign(x, renumbered, (ROCM, 1)))
    with pytest.raises(BufferError, match="says it is on device 1"):
        pf.from_dlpack(Foreign(x, device=(ROCM, 1)))
    with pytest.raises(RuntimeError, match="device 7 requested but only 2"):
        pf.from_dlpack(Foreign(x, device=(ROCM, 7)))
    with pytest.raises(BufferError, match="must be copied"):
        pf.from_dlpack(Foreign(x), copy=False)
    assert x.tolist() == [0, 1, 2, 3]
