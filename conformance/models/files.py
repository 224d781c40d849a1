"""Writes checkpoints with torch and reads them with pyflame, and the other way round. Prints `files<tab>passed|failed<tab>why`."""

import io
import sys
from collections import OrderedDict

import torch

import pyflame as pf

TYPES = ("float32", "float64", "float16", "bfloat16", "int64", "int32", "int16", "int8", "uint8", "bool", "complex64")


def checkpoint(library):
    """A nested checkpoint with every element type, views, parameters and an optimizer's state."""
    base = library.arange(24, dtype=library.float32).reshape(2, 3, 4)
    model = library.nn.Sequential(library.nn.Linear(3, 4), library.nn.BatchNorm1d(4))
    optimizer = library.optim.Adam(model.parameters(), lr=0.5)
    model(library.ones(5, 3)).sum().backward()
    optimizer.step()
    return {
        "types": {name: library.tensor([0, 1, 2]).to(getattr(library, name)) for name in TYPES},
        "views": [base, base.transpose(0, 2), base[1, :, 1:], library.zeros(0, 3), library.tensor(3.5)],
        "parameter": library.nn.Parameter(base[0].clone()),
        "model": model.state_dict(),
        "optimizer": optimizer.state_dict(),
        "numbers": (1, -2.5, True, None, 1 << 50, "text", OrderedDict(a=[1, {"b": 2}])),
        "type": library.float16,
    }


def same(ours, theirs, where="checkpoint"):
    """Raises an AssertionError if pyflame's object differs from torch's."""
    if isinstance(theirs, torch.Tensor):
        assert isinstance(ours, pf.Tensor), f"{where} is a {type(ours).__name__}"
        assert isinstance(ours, pf.nn.Parameter) == isinstance(theirs, torch.nn.Parameter), f"{where}: a parameter or not"
        assert str(theirs.dtype) == f"torch.{ours.dtype.name}", f"{where}: {ours.dtype} and {theirs.dtype}"
        assert tuple(ours.shape) == tuple(theirs.shape), f"{where}: {ours.shape} and {theirs.shape}"
        wide = torch.complex64 if theirs.is_complex() else torch.float64
        found = torch.tensor(ours.detach().tolist(), dtype=wide).reshape(theirs.shape)
        assert torch.equal(found, theirs.detach().to(wide)), f"{where}: elements differ"
    elif isinstance(theirs, torch.dtype):
        assert str(theirs) == f"torch.{ours.name}", f"{where}: {ours} and {theirs}"
    elif isinstance(theirs, dict):
        assert isinstance(ours, dict) and list(ours) == list(theirs), f"{where}: {list(ours)} and {list(theirs)}"
        for key in theirs:
            same(ours[key], theirs[key], f"{where}[{key!r}]")
    elif isinstance(theirs, (list, tuple)):
        assert type(ours) is type(theirs) and len(ours) == len(theirs), f"{where}: {ours} and {theirs}"
        for number, (left, right) in enumerate(zip(ours, theirs)):
            same(left, right, f"{where}[{number}]")
    else:
        assert ours == theirs and type(ours) is type(theirs), f"{where}: {ours!r} and {theirs!r}"


def main():
    theirs, ours = checkpoint(torch), checkpoint(pf)
    try:
        written = io.BytesIO()
        torch.save(theirs, written)
        written.seek(0)
        same(pf.load(written), theirs)
        written = io.BytesIO()
        pf.save([ours], written)
        written.seek(0)
        (back,) = torch.load(written)
        same(ours, back)
        # An optimizer of torch continues with a state of pyflame's.
        model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4))
        model.load_state_dict(back["model"])
        written = io.BytesIO()
        torch.save(model, written)
        written.seek(0)
        try:
            pf.load(written)
        except ValueError as error:
            assert "not allowed" in str(error), error
        else:
            raise AssertionError("a file with a whole module was read")
    except Exception as error:  # Reported as a failure of the suite.
        print("files", "failed", f"{type(error).__name__}: {error}", sep="\t")
        return 1
    print("files", "passed", "both ways", sep="\t")
    return 0


if __name__ == "__main__":
    sys.exit(main())
