"""The Python tensor class, against NumPy."""

import copy
import pickle
import threading

import numpy as np
import pytest

import pyflame as pf


def test_tensors_are_made_of_whatever_python_has(device):
    assert pf.tensor(3).dtype is pf.int64 and pf.tensor(3.0).dtype is pf.float32
    assert pf.tensor(True).dtype is pf.bool_ and pf.tensor(1 + 2j).item() == 1 + 2j
    assert pf.tensor([[1, 2], [3, 4.5]]).tolist() == [[1.0, 2.0], [3.0, 4.5]]
    assert pf.tensor(np.arange(6).reshape(2, 3)[:, ::2]).tolist() == [[0, 2], [3, 5]]
    assert pf.tensor([pf.tensor(1.0), pf.tensor(2.0)]).tolist() == [1.0, 2.0]
    assert pf.tensor([]).shape == (0,) and pf.zeros(0).numel() == 0
    assert pf.tensor(np.float64(2.5)).item() == 2.5
    for bad, error in [([[1], [2, 3]], ValueError), ("text", TypeError), ([1, "a"], TypeError), (object(), TypeError)]:
        with pytest.raises(error):
            pf.tensor(bad)


@pytest.mark.parametrize(
    "name", ["bool", "uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64", "float16", "float32", "float64"]
)
def test_elements_of_every_type_go_and_come_back(device, name):
    values = np.array([[0, 1, 2], [3, 100, 7]]).astype(name)
    tensor = pf.from_numpy(values)
    assert tensor.dtype.name == name and tensor.dtype is getattr(pf, name if name != "bool" else "bool_")
    back = tensor.numpy()
    assert back.dtype == values.dtype and (back == values).all()
    assert tensor.tolist() == values.tolist()
    assert pickle.loads(pickle.dumps(tensor)).tolist() == values.tolist()


def test_brain_floats_go_to_numpy_and_back(device):
    tensor = pf.tensor([1.0, 2.5, -3.0], dtype=pf.bfloat16)
    assert tensor.dtype is pf.bfloat16 and tensor.tolist() == [1.0, 2.5, -3.0]
    assert np.asarray(tensor).astype(np.float32).tolist() == [1.0, 2.5, -3.0]
    assert pf.tensor(tensor.numpy()).float().tolist() == [1.0, 2.5, -3.0]


def test_sizes_come_one_by_one_or_as_a_list(device):
    assert pf.randn(2, 3).shape == pf.randn((2, 3)).shape == pf.randn([2, 3]).shape == (2, 3)
    assert pf.rand(()).shape == () and pf.zeros(4).shape == (4,)
    assert pf.randint(0, 10, (5,)).dtype is pf.int64 and pf.randint(10, (5,)).shape == (5,)
    x = pf.zeros(2, 3)
    assert x.numel == 6 and x.numel() == 6 and x.ndim == x.dim() == 2 and x.size(-1) == 3 and len(x) == 2
    with pytest.raises(ValueError):
        pf.zeros(-1)


@pytest.mark.parametrize(
    "key",
    [
        0,
        -1,
        slice(1, 3),
        slice(None, None, -1),
        slice(5, 1, -2),
        (slice(None), 1),
        (Ellipsis, 2),
        (None, 1, None, slice(0, 2)),
        (slice(None), [0, 2, 0]),
        ([0, 1], slice(None), [1, 2]),
        (slice(None), 1, [3, -1]),
        (slice(None), [[0, 1], [2, 0]], [[3, 3], [0, 1]]),
        (slice(10, 20),),
    ],
    ids=str,
)
def test_indices_mean_what_they_mean_in_numpy(device, key):
    values = np.arange(60, dtype=np.float32).reshape(5, 3, 4)
    np.testing.assert_array_equal(pf.tensor(values)[key].numpy(), values[key])
    changed, expected = pf.tensor(values), values.copy()
    changed[key] = -1
    expected[key] = -1
    np.testing.assert_array_equal(changed.numpy(), expected)


def test_masks_choose_and_change_elements(device):
    values = np.arange(12, dtype=np.float32).reshape(3, 4)
    x = pf.tensor(values)
    np.testing.assert_array_equal(x[x > 5].numpy(), values[values > 5])
    rows = np.array([True, False, True])
    np.testing.assert_array_equal(x[rows].numpy(), values[rows])
    np.testing.assert_array_equal(x[pf.tensor(rows), 1].numpy(), values[rows, 1])
    x[x > 5] = 0
    np.testing.assert_array_equal(x.numpy(), np.where(values > 5, 0, values))
    x[1] = pf.tensor([9.0, 8.0, 7.0, 6.0])
    assert x[1].tolist() == [9.0, 8.0, 7.0, 6.0]
    assert 9.0 in x and 100.0 not in x


def test_wrong_indices_are_index_errors(device):
    x = pf.zeros(3, 4)
    for key in (5, (0, 4), (0, 0, 0), 1.5, "a", (Ellipsis, Ellipsis)):
        with pytest.raises(IndexError):
            x[key]
    with pytest.raises(IndexError, match="mask"):
        x[pf.tensor([True, False])]
    with pytest.raises(TypeError):
        iter(pf.tensor(1.0))


def test_operators_are_those_of_numbers(device):
    a, b = np.array([[1.0, -2.0], [3.0, 4.0]], np.float32), np.array([2.0, 3.0], np.float32)
    x, y = pf.tensor(a), pf.tensor(b)
    pairs = [
        (x + y, a + b), (x - y, a - b), (x * y, a * b), (x / y, a / b), (x // y, a // b), (x % y, a % b),
        (x**2, a**2), (2**x, 2**a), (1 - x, 1 - a), (3 / x, 3 / a), (x @ x, a @ a), (-x, -a), (abs(x), abs(a)),
        (x > y, a > b), (x <= 1, a <= 1), (x == x, a == a), (x != y, a != b), (a + y, a + b), (np.float64(2) * x, 2 * a),
        (x + np.ones(2, np.float32), a + 1),
    ]  # fmt: skip
    # Evaluated together, so that all kernels are compiled at once.
    pf.eval(ours for ours, _ in pairs)
    for ours, theirs in pairs:
        np.testing.assert_allclose(ours.numpy(), theirs, rtol=1e-6)
    i = pf.tensor([6, 5])
    assert (i & 3).tolist() == [2, 1] and (i << 1).tolist() == [12, 10] and (~i).tolist() == [-7, -6]
    assert (i / 2).dtype is pf.float32 and (i + 1).dtype is pf.int64 and (i + 0.5).dtype is pf.float32
    assert (pf.tensor([1.0], dtype=pf.float16) + 1.0).dtype is pf.float16
    same = x
    x += 1
    assert same is x
    np.testing.assert_allclose(same.numpy(), a + 1)
    with pytest.raises(ValueError, match="in place"):
        y += x
    with pytest.raises(TypeError):
        x + "1"
    with pytest.raises(ValueError, match="add"):
        pf.zeros(2, 3) + pf.zeros(4)
    with pytest.raises(ValueError, match=r"matmul: .*\[32, 784\].*\[256, 10\]"):
        pf.zeros(32, 784) @ pf.zeros(256, 10)


def test_numbers_come_out_of_tensors_of_one_element(device):
    x = pf.tensor([2.5])
    assert x.item() == float(x) == 2.5 and int(x) == 2 and bool(x) and f"{pf.tensor(1.0):.2f}" == "1.00"
    assert [10, 20, 30][pf.tensor(1)] == 20
    for work in (lambda: pf.zeros(2).item(), lambda: bool(pf.zeros(2)), lambda: float(pf.zeros(2))):
        with pytest.raises(RuntimeError):
            work()
    assert hash(x) == hash(x) and x in [x]
    assert [row.tolist() for row in pf.tensor([[1], [2]])] == [[1], [2]]


def test_reductions_answer_as_pytorch_does(device):
    values = np.random.RandomState(0).randn(3, 4, 5).astype(np.float32)
    x = pf.tensor(values)
    names = ("sum", "mean", "prod", "amax", "amin")
    pairs = [(getattr(x, name)(), getattr(np, name)(values)) for name in names]
    for name in names:
        kept = getattr(np, name)(values, axis=(0, 2), keepdims=True)
        pairs.append((getattr(pf, name)(x, dim=(0, -1), keepdim=True), kept))
    pairs += [(x.std(0), values.std(0, ddof=1)), (x.sort(-1, descending=True).values, -np.sort(-values, -1))]
    pf.eval(ours for ours, _ in pairs)
    for ours, theirs in pairs:
        np.testing.assert_allclose(ours.numpy(), theirs, rtol=1e-4, atol=1e-6)
    values_and_places = pf.max(x, dim=1)
    np.testing.assert_array_equal(values_and_places.values.numpy(), values.max(1))
    np.testing.assert_array_equal(values_and_places.numpy(), values.max(1))
    biggest, places = x.max(1)
    np.testing.assert_array_equal(places.numpy(), values.argmax(1))
    np.testing.assert_array_equal(pf.max(x, x * 2).numpy(), np.maximum(values, values * 2))
    with pytest.raises(IndexError):
        x.sum(7)


def test_gradients_flow_through_python(device):
    x = pf.tensor([1.0, 2.0, 3.0], requires_grad=True)
    y = (x**2 * pf.tensor([1.0, 2.0, 3.0])).sum()
    assert y.grad_fn and not y.is_leaf and x.is_leaf
    y.backward()
    assert x.grad.tolist() == [2.0, 8.0, 18.0]
    y = (x * 2).sum()
    y.backward()
    assert x.grad.tolist() == [4.0, 10.0, 20.0]
    (g,) = pf.autograd.grad((x * x).sum(), [x])
    assert g.tolist() == [2.0, 4.0, 6.0] and x.grad.tolist() == [4.0, 10.0, 20.0]
    x.grad = None
    with pf.no_grad():
        assert not (x * 2).requires_grad and not pf.autograd.GradMode.is_enabled()
        with pf.enable_grad():
            assert (x * 2).requires_grad
    assert pf.autograd.GradMode.is_enabled()

    @pf.no_grad()
    def quiet():
        return (x * 2).requires_grad

    assert quiet() is False
    with pytest.raises(RuntimeError, match="grad"):
        x.numpy()
    with pytest.raises(RuntimeError, match="in-place"):
        x.add_(1)
    with pytest.raises(RuntimeError):
        pf.tensor([1]).requires_grad = True
    with pytest.raises(RuntimeError):
        (x * 2).backward()
    picked = x[[0, 0, 2]].sum()
    picked.backward()
    assert x.grad.tolist() == [2.0, 0.0, 1.0]


def test_copies_are_apart(device):
    x = pf.tensor([1.0, 2.0], requires_grad=True)
    deep = copy.deepcopy(x)
    with pf.no_grad():
        deep.zero_()
    assert x.tolist() == [1.0, 2.0] and deep.tolist() == [0.0, 0.0] and deep.requires_grad
    view = x.detach()
    x.data = pf.tensor([5.0, 6.0])
    assert view.tolist() == [1.0, 2.0] and x.tolist() == [5.0, 6.0]
    with pf.no_grad():
        for parameter in [x]:
            parameter -= pf.tensor([1.0, 1.0])
    assert x.tolist() == [4.0, 5.0] and x.is_leaf and x.requires_grad


def test_repr_helps(device):
    assert repr(pf.tensor([1.0, 2.5])).startswith("tensor([1.0000, 2.5000]")
    assert "requires_grad=True" in repr(pf.ones(1, requires_grad=True))
    assert "grad_fn" in repr(pf.ones(1, requires_grad=True) * 2)
    large = repr(pf.zeros(100, 100))
    assert "..." in large and len(large) < 1000
    assert "float16" in repr(pf.zeros(1, dtype="float16"))
    assert "rocm:0" in repr(pf.zeros(1)) or device == "cpu"
    assert "nan" in repr(pf.tensor([float("nan"), float("inf"), 1e-9]))


def test_nothing_runs_before_somebody_looks(device):
    x = pf.tensor(np.ones((8, 8), np.float32))
    y = (x @ x + 1).relu()
    assert pf.is_lazy(y)
    plan = pf.explain(y)
    assert len(plan) == len(plan.launches) == 1 and plan.bytes_written == 8 * 8 * 4
    pf.eval(y)
    assert not pf.is_lazy(y) and y.tolist()[0][0] == 9.0
    big = pf.randn(300, 300)
    for _ in range(100):
        product = pf.matmul(big, big)
    assert pf.is_lazy(product)
    pf.synchronize()
    assert not pf.is_lazy(product)


def test_other_libraries_take_and_give_arrays(device):
    values = np.arange(6, dtype=np.float32).reshape(2, 3)
    taken = pf.from_dlpack(values.T)
    np.testing.assert_array_equal(taken.numpy(), values.T)
    np.testing.assert_array_equal(np.from_dlpack(pf.tensor(values), device="cpu"), values)
    assert pf.tensor(values).__dlpack_device__() == ((1, 0) if device == "cpu" else (10, 0))
    with pytest.raises(TypeError):
        pf.from_dlpack([1, 2])


def test_threads_may_share_tensors(device):
    x = pf.tensor(np.arange(1000, dtype=np.float32))
    sums = []

    def work():
        for _ in range(20):
            sums.append((x * 2).sum().item())

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sums == [999000.0] * 80


def test_profiles_show_waits_and_evaluations(device, tmp_path):
    import json

    with pf.profiler.profile() as seen:
        y = pf.ones(10) + 1
        pf.eval(y)
        y.numpy()
    seen.export_chrome_trace(tmp_path / "trace.json")
    trace = json.loads((tmp_path / "trace.json").read_text())
    assert {event["name"] for event in trace["traceEvents"] if event["ph"] == "X"} == {"eval", "download"}
    assert "download" in seen.table()
