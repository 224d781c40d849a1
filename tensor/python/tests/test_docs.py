"""The tutorial's blocks run as printed, on every device; the stubs and the array API namespace are up to date."""

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import pyflame as pf

TUTORIAL = Path(__file__).parents[3] / "docs" / "pyflame.md"


def test_every_block_of_the_tutorial_runs(tmp_path, monkeypatch):
    blocks = re.findall(r"^```python\n(.*?)^```", TUTORIAL.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    assert len(blocks) >= 5
    monkeypatch.chdir(tmp_path)
    names = {}
    for number, block in enumerate(blocks):
        exec(compile(block, f"block {number}", "exec"), names)
    pf.set_device("cpu")
    assert (tmp_path / "model.safetensors").exists()


def test_the_array_api_namespace_has_the_standards_names(device):
    xp = pf.ones(1).__array_namespace__()
    x = xp.reshape(xp.arange(6.0), (2, 3))
    np.testing.assert_array_equal(xp.permute_dims(x, (1, 0)).numpy(), np.arange(6.0).reshape(2, 3).T)
    np.testing.assert_allclose(xp.std(x, axis=1, correction=1).numpy(), [1, 1])
    assert xp.sum(x, axis=0, keepdims=True).shape == (1, 3) and xp.isdtype(x.dtype, "real floating")
    np.testing.assert_array_equal(xp.concat([x, x], axis=None).numpy(), list(range(6)) * 2)
    np.testing.assert_array_equal(xp.tensordot(x, x, axes=([1], [1])).numpy(), x.numpy() @ x.numpy().T)
    assert xp.broadcast_shapes((2, 1), (3,)) == (2, 3) and xp.result_type(pf.int32, pf.float32) is pf.float32
    with pytest.raises(ValueError):
        pf.ones(1).__array_namespace__(api_version="2010.01")


def test_the_stubs_are_what_the_module_is():
    script = Path(__file__).parents[1] / "stubs.py"
    subprocess.run([sys.executable, str(script), "--check"], check=True)


def _public():
    """Every public callable of the package, with its name."""
    import importlib
    import inspect
    import types

    modules = ["", ".nn", ".nn.functional", ".nn.init", ".optim", ".optim.lr_scheduler", ".linalg", ".fft", ".autograd"]
    modules += [".profiler", ".rocm", ".backend.rocm"]
    for module in modules:
        module = importlib.import_module("pyflame" + module)
        for name, value in vars(module).items():
            own = (getattr(value, "__module__", None) or "pyflame").startswith(("pyflame", "_pyflame", "builtins"))
            if name.startswith("_") or isinstance(value, types.ModuleType) or not callable(value) or not own:
                continue
            yield f"{module.__name__}.{name}", value
            for inner, member in vars(value).items() if inspect.isclass(value) else ():
                if not inner.startswith("_") and (callable(member) or hasattr(type(member), "__get__")):
                    yield f"{module.__name__}.{name}.{inner}", member


def test_every_public_name_says_what_it_is():
    import pyflame as pf

    silent = {name for name, value in _public() if not (getattr(value, "__doc__", None) or "").strip()}
    assert not silent, sorted(silent)
    # Values that Python cannot write are not hidden.
    hidden = [name for name, value in _public() if "..." in (getattr(value, "__text_signature__", None) or "")]
    assert not hidden, hidden
    assert "stride=1" in pf.conv2d.__text_signature__


def test_notebooks_show_tables():
    import pyflame as pf

    assert pf.tensor([[1.0, 2.5], [3.0, -4.0]])._repr_html_() == (
        "<table><caption>tensor 2 × 2, float32, cpu</caption><tr><td>1.0000</td><td>2.5000</td></tr>"
        "<tr><td>3.0000</td><td>-4.0000</td></tr></table>"
    )
    wide = pf.zeros(5000, 5000)._repr_html_()
    assert wide.count("<tr>") == 7 and wide.count("<td>") == 49
    assert pf.zeros(2, 2, 2)._repr_html_().startswith("<pre>tensor(")


def test_notebooks_show_the_parts_of_a_module():
    import pyflame as pf

    class Net(pf.nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = pf.nn.Sequential(pf.nn.Linear(3, 2), pf.nn.ReLU())

    text = Net()._repr_html_()
    assert "<caption>Net: 8 parameters on cpu</caption>" in text and text.count("<tr>") == 5
    assert "<td>layers.0</td><td>Linear(in_features=3, out_features=2, bias=True)</td><td>weight 2 × 3, bias 2</td><td>8</td>" in text
    assert "<script>" not in pf.nn.Sequential({"<script>": pf.nn.ReLU()})._repr_html_()


def test_the_reference_has_every_name_and_refuses_what_it_cannot_describe(tmp_path):
    import runpy

    script = Path(__file__).parents[1] / "reference.py"
    subprocess.run([sys.executable, str(script), str(tmp_path)], check=True, stdout=subprocess.DEVNULL)
    pages = {path.stem: path.read_text(encoding="utf-8") for path in tmp_path.iterdir()}
    assert "\nLinear(in_features: int, out_features: int, bias: bool = True," in pages["pyflame.nn"]
    assert "* **`forward(x: Tensor) -> Tensor`**" in pages["pyflame.nn"]
    assert "\nconv2d(input, weight, bias=None, stride=1," in pages["pyflame"] and "## svd\n" in pages["pyflame.linalg"]
    names = runpy.run_path(str(script))
    problems = []

    def silent(x, y=...):
        pass

    names["signature"]("silent", silent, problems)
    names["document"]("silent", silent, problems)
    assert problems == ["silent: the default of y is not written", "silent has no docstring"]
