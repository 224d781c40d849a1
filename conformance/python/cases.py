"""Test cases: prints a line `ok NAME` or `wrong NAME: REASON` for each, then `END`."""

import sys
import traceback

import numpy as np

_wrong = 0


def case(function):
    """Runs a function at once; its docstring is the name of the case."""
    global _wrong
    name = function.__doc__
    try:
        function()
        print(f"ok {name}", flush=True)
    except BaseException as problem:
        _wrong += 1
        traceback.print_exc()
        reason = (str(problem).strip().splitlines() or ["no reason given"])[0]
        print(f"wrong {name}: {type(problem).__name__}: {reason}", flush=True)


def near(got, wanted, tolerance):
    """Checks that every value is within `tolerance`, relative to the larger of 1 and the expected magnitude; NaN always fails."""
    got, wanted = np.asarray(got), np.asarray(wanted, dtype=np.float64)
    if got.shape != wanted.shape:
        raise AssertionError(f"got shape {got.shape}, expected {wanted.shape}")
    bad = ~(np.abs(got - wanted) <= tolerance * np.maximum(1, np.abs(wanted)))
    if bad.any():
        place = tuple(np.argwhere(bad)[0])
        raise AssertionError(f"{list(map(int, place))} is {got[place]}, not {wanted[place]}; {bad.sum()} are wrong")


def end():
    print("END", flush=True)
    sys.exit(1 if _wrong else 0)
