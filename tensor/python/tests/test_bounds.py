"""Indices out of bounds are reported on every device, with the operation's name, without an extra round trip."""

import os
import re
import subprocess
import sys

import numpy as np
import pytest

import pyflame as pf



def _wrong():
    """Operations with one index out of bounds, by name."""
    x, w = pf.ones(5, 3), pf.ones(5, 3)
    far = pf.tensor([0, 5, 1])
    return {
        "gather": lambda: x.gather(0, pf.tensor([[0, 1, 7]])),
        "index_select": lambda: x.index_select(0, far),
        "embedding": lambda: pf.nn.functional.embedding(far, w),
        "scatter_add": lambda: x.scatter_add(0, pf.tensor([[0, 1, -1]]), pf.ones(1, 3)),
        "scatter": lambda: x.scatter(0, pf.tensor([[0, 1, 9]]), pf.ones(1, 3)),
        "take": lambda: x.take(pf.tensor([14, 15])),
        "cross_entropy": lambda: pf.cross_entropy(x, pf.tensor([0, 1, 2, 3, 0])),
        "nll_loss": lambda: pf.nn.functional.nll_loss(x, pf.tensor([0, 1, -1, 1, 0])),
        "index": lambda: x[pf.tensor([0, 1]), pf.tensor([0, 3])],
    }


@pytest.mark.parametrize("name", list(_wrong()))
def test_an_index_out_of_bounds_is_an_index_error_that_names_the_operation(device, name):
    where = "" if device == "cpu" and name in ("embedding", "index") else rf"{name}: "
    with pytest.raises(IndexError, match=where + r"index -?\d+ is out of bounds"):
        _wrong()[name]().numpy()
    # The error is reported once; everything works as before.
    assert (pf.ones(3) * 2).tolist() == [2.0, 2.0, 2.0]
    assert pf.ones(5, 3)[pf.tensor([4, -1])].sum().item() == 6.0
    pf.synchronize()


def test_indices_at_the_edges_are_right(device):
    x = pf.tensor(np.arange(15, dtype=np.float32).reshape(5, 3))
    assert x.index_select(0, pf.tensor([-5, 4])).tolist() == [[0, 1, 2], [12, 13, 14]]
    assert x.take(pf.tensor([-15, 14])).tolist() == [0, 14]
    assert x[pf.tensor([-5, 4]), pf.tensor([-3, 2])].tolist() == [0, 14]
    loss = pf.cross_entropy(x, pf.tensor([0, 2, -100, 1, 2]))
    assert np.isfinite(loss.item())
    with pytest.raises(IndexError, match="cross_entropy: index 3 is out of bounds for 3"):
        pf.cross_entropy(x, pf.tensor([0, 2, -100, 1, 3])).item()


def test_synchronize_tells_too(gpu):
    wrong = pf.ones(5, 3).gather(0, pf.tensor([[0, 1, 7]]))
    pf.eval(wrong)
    with pytest.raises(IndexError, match="gather: index 7 is out of bounds for 5"):
        pf.synchronize()
    pf.synchronize()


LOOKS = """
import sys
import pyflame as pf
pf.set_device('rocm')
x, index = pf.ones(5, 3), pf.tensor([0, 1, 4])
for step in range(int(sys.argv[1])):
    x.index_select(0, index).sum().item()
"""


def test_looking_at_indices_takes_no_round_trip_of_its_own(gpu):
    def trips(steps):
        env = dict(os.environ, REMORA_STATS="1")
        command = [sys.executable, "-c", LOOKS, str(steps)]
        answer = subprocess.run(command, env=env, capture_output=True, text=True, check=True)
        return int(re.search(r"(\d+) round trips", answer.stderr).group(1))

    trips(2)
    assert trips(12) - trips(2) == 10
