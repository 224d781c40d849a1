"""Runs every Python block of the library's specification document as printed, but with smaller matrices. `PYFLAME_SEED` is the path of the document."""

import os
import re
import textwrap

import pytest


def _blocks():
    path = os.environ.get("PYFLAME_SEED")
    if not path:
        return []
    with open(path, encoding="utf-8") as file:
        text = file.read()
    blocks = re.findall(r"^( *)```python\n(.*?)^ *```", text, re.MULTILINE | re.DOTALL)
    return [textwrap.dedent(indent + body if not body.startswith(indent) else body) for indent, body in blocks]


BLOCKS = _blocks()


@pytest.mark.skipif(not BLOCKS, reason="PYFLAME_SEED is not set")
def test_every_block_runs_as_printed(device, tmp_path):
    import pyflame as pf
    from pyflame.backend.rocm import get_tuning_cache

    # Later blocks use names of earlier ones, and one name that the document leaves undefined.
    names = {"batch_size": 2}
    try:
        for number, block in enumerate(BLOCKS):
            if device == "cpu":
                if "pyflame.backend.rocm" in block:
                    continue
                block = re.sub(r"'rocm(:\d)?'", "'cpu'", block)
            # Products of this size take minutes on a CPU or a software GPU.
            block = block.replace("10000, 10000", "500, 500")
            exec(compile(block, f"block {number}", "exec"), names)
    finally:
        # The document enables the search, and sets a file in a folder that does not exist.
        get_tuning_cache().enable_exhaustive_search(False)
        get_tuning_cache().set_cache_file(tmp_path / "tuned")
    assert names["result_cpu"].shape == names["result_gpu"].shape == (1024, 1024)
    if device != "cpu":
        assert pf.rocm_device_count() == 2
        assert names["info"]["architecture"] == "gfx942"
