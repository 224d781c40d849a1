"""The package is typed: `mypy --strict` finds no error in it or in a program that uses it, and finds the mistakes of another."""

import os
import re
import runpy
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parent


def _mypy(*arguments):
    environment = {**os.environ, "MYPYPATH": str(ROOT / "python")}
    command = [sys.executable, "-m", "mypy", "--config-file", str(ROOT / "pyproject.toml"), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert done.returncode in (0, 1), done.stdout + done.stderr
    return done.stdout


def test_mypy_finds_no_error_in_the_package_and_all_mistakes_of_a_program(tmp_path):
    cache = f"--cache-dir={tmp_path / 'cache'}"
    assert "Success" in _mypy(cache, "-p", "pyflame")
    assert "Success" in _mypy(cache, HERE / "typed" / "program.py")
    mistakes = HERE / "typed" / "mistakes.py"
    lines = enumerate(mistakes.read_text().splitlines(), 1)
    expected = [(number, line.rsplit(" ", 1)[1]) for number, line in lines if "# mistake: " in line]
    found = re.findall(r"mistakes\.py:(\d+): error: .*\[([a-z-]+)\]$", _mypy(cache, mistakes), re.MULTILINE)
    assert [(int(number), kind) for number, kind in found] == expected


def test_the_typed_program_runs(device):
    runpy.run_path(str(HERE / "typed" / "program.py"), run_name="__main__")
