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
