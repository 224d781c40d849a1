"""Runs ONNX's own node models, as its package generates them, with pyflame and counts what agrees.

Prints one line per model on standard output: `NAME<tab>passed|failed|not ours<tab>why`. Models with operators or element types that
are not in the table `pyflame.onnx.OPERATORS` are "not ours" (not supported): they are listed with what is missing, and counted separately.
"""

import argparse
import sys
import warnings

import numpy as np
import onnx
from onnx import numpy_helper
from onnx.backend.test.loader import load_model_tests

import pyflame as pf
import pyflame.onnx
from pyflame.onnx.operators import NUMPY_TYPES, OPERATORS


def types_of(graph):
    for value in list(graph.input) + list(graph.output):
        kind = value.type.WhichOneof("value")
        yield value.type.tensor_type.elem_type if kind == "tensor_type" else kind


def check(model):
    """Raises NotImplementedError if the model contains anything that is not in the table."""
    for node in model.graph.node:
        if node.op_type not in OPERATORS or node.domain not in ("", "ai.onnx"):
            raise NotImplementedError(f"operator {node.op_type}")
    for kind in types_of(model.graph):
        if kind not in NUMPY_TYPES:
            raise NotImplementedError(f"type {kind}")


def run(model, inputs):
    """The results of pyflame's own reader of the file."""
    read = pf.onnx.load(model.SerializeToString())
    names = [value.name for value in model.graph.input if value.name not in read.parameters]
    assert names == read.inputs, f"the inputs are {read.inputs}, not {names}"
    made = read(**{name: np.ascontiguousarray(array).reshape(array.shape) for name, array in zip(names, inputs)})
    return list(made) if isinstance(made, tuple) else [made]


def compare(found, expected, rtol, atol):
    if len(found) != len(expected):
        raise AssertionError(f"got {len(found)} results, expected {len(expected)}")
    for got, want in zip(found, expected):
        got = got.numpy()
        if got.shape != want.shape:
            raise AssertionError(f"got shape {got.shape}, expected {want.shape}")
        if got.dtype != want.dtype and want.dtype.name != "bfloat16":
            raise AssertionError(f"got type {got.dtype}, expected {want.dtype}")
        np.testing.assert_allclose(got.astype(np.float64) if want.dtype.name == "bfloat16" else got,
                                   want.astype(np.float64) if want.dtype.name == "bfloat16" else want, rtol=rtol, atol=atol)


def plain(array):
    """Converts TensorProto objects, which some data sets contain, to arrays."""
    return numpy_helper.to_array(array) if isinstance(array, onnx.TensorProto) else array


def verdict(case):
    try:
        check(case.model)
        for inputs, expected in case.data_sets:
            inputs, expected = [[plain(array) for array in arrays] for arrays in (inputs, expected)]
            if any(array.dtype == object for array in list(inputs) + list(expected) if isinstance(array, np.ndarray)):
                raise NotImplementedError("texts")
            compare(run(case.model, inputs), expected, case.rtol, case.atol)
    except NotImplementedError as missing:
        return "not ours", str(missing)
    except Exception as error:  # Any exception fails this model only; the next one still runs.
        return "failed", f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"
    return "passed", ""


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--filter", default="", help="only models whose name contains this")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    pf.set_device(arguments.device)
    for case in load_model_tests(kind="node"):
        if arguments.filter in case.name:
            print(case.name, *verdict(case), sep="\t", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
