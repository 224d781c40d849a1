"""Lists the names of torch that model sources use, and which of them pyflame has.

`names.py FOLDER... [--tensor NAMES]` reads every Python file below the folders. Attributes of modules (`torch`, `torch.nn`,
`torch.nn.functional`, `torch.optim` and so on) are followed through imports and their aliases. A method call counts as a method of
tensors if torch's `Tensor` has a method of this name and no module, list, dictionary or string does.
"""

import argparse
import ast
import sys
from collections import Counter
from pathlib import Path

# Names of modules of torch whose contents are counted.
MODULES = {
    "torch", "torch.nn", "torch.nn.functional", "torch.nn.init", "torch.optim", "torch.optim.lr_scheduler",
    "torch.utils.checkpoint", "torch.utils.data", "torch.nn.utils", "torch.linalg", "torch.fft", "torch.autograd", "torch.random",
    "torch.amp", "torch.optim.swa_utils",
}  # fmt: skip
# Machinery of torch that is not about tensors: compilers, tracing, other vendors' devices, distribution of work.
MACHINERY = ("torch.jit", "torch.fx", "torch._", "torch.cuda", "torch.distributed", "torch.hub", "torch.quantization",
             "torch.ao", "torch.ops", "torch.library", "torch.classes", "torch.backends", "torch.utils.model_zoo",
             "torch.utils.tensorboard", "torch.compile", "torch.onnx", "torch.sparse", "torch.overrides", "torch.mps",
             "torch.xpu", "torch.npu", "torch.profiler", "torch.testing", "torch.version", "torch.export")  # fmt: skip


class Names(ast.NodeVisitor):
    """Collects the dotted names of torch in one file, and the names of attributes of anything else."""

    def __init__(self):
        self.known = {}
        self.names, self.methods = Counter(), Counter()

    def visit_Import(self, node):
        for alias in node.names:
            if alias.name == "torch" or alias.name.startswith("torch."):
                self.known[alias.asname or "torch"] = alias.name if alias.asname else "torch"

    def visit_ImportFrom(self, node):
        if node.level == 0 and node.module and (node.module == "torch" or node.module.startswith("torch.")):
            for alias in node.names:
                whole = f"{node.module}.{alias.name}"
                self.known[alias.asname or alias.name] = whole
                if whole not in MODULES:
                    self.names[whole] += 1

    def dotted(self, node):
        if isinstance(node, ast.Name):
            return self.known.get(node.id)
        if isinstance(node, ast.Attribute):
            above = self.dotted(node.value)
            return f"{above}.{node.attr}" if above else None
        return None

    def visit_Attribute(self, node):
        name = self.dotted(node)
        if name is None:
            self.methods[node.attr] += 1
            self.visit(node.value)
        elif name not in MODULES:
            self.names[name] += 1


def used(folders):
    """The counts of dotted names and of attribute names in all files."""
    names, methods = Counter(), Counter()
    for folder in folders:
        paths = [Path(folder)] if Path(folder).is_file() else sorted(Path(folder).rglob("*.py"))
        for path in paths:
            visitor = Names()
            visitor.visit(ast.parse(path.read_text(encoding="utf-8")))
            names.update(visitor.names)
            methods.update(visitor.methods)
    return names, methods


def tensor_methods(known):
    """Those methods of torch's tensors that can hardly be methods of something else."""
    import collections

    import pyflame.nn as nn

    others = set().union(*(dir(kind) for kind in (list, dict, str, tuple, set, collections.OrderedDict)))
    others |= {name for name in dir(nn.Module) if name not in ("float", "half", "double", "to", "cpu", "type")}
    return {name for name in known if not name.startswith("_") and name not in others}


def has(name):
    """Whether pyflame has the counterpart of a dotted name."""
    import importlib

    found = importlib.import_module("pyflame")
    for part in name.split(".")[1:]:
        if not hasattr(found, part):
            try:
                found = importlib.import_module(f"{found.__name__}.{part}")
                continue
            except (ImportError, AttributeError):
                return False
        found = getattr(found, part)
    return True


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folders", nargs="+")
    parser.add_argument("--tensor", required=True, help="a file with the names of torch.Tensor, one on each line")
    parser.add_argument("--least", type=float, default=0.0, help="fail if a smaller share of the names, in percent, is there")
    arguments = parser.parse_args()
    names, methods = used(arguments.folders)
    import pyflame as pf

    wanted = tensor_methods(Path(arguments.tensor).read_text(encoding="utf-8").split())
    groups = {}
    for name, count in names.items():
        if name.startswith(MACHINERY):
            continue
        module = name.rsplit(".", 1)[0]
        # A class attribute belongs to its class.
        while module not in MODULES and "." in module:
            name, module = module, module.rsplit(".", 1)[0]
        groups.setdefault(module, Counter())[name] += count
    groups["torch.Tensor"] = Counter({f"torch.Tensor.{name}": count for name, count in methods.items() if name in wanted})
    all_names, there = 0, 0
    for module, counts in sorted(groups.items()):
        missing = {name: count for name, count in counts.items() if not has(name)}
        all_names += len(counts)
        there += len(counts) - len(missing)
        print(f"{module}: {len(counts) - len(missing)} of {len(counts)}")
        for name, count in sorted(missing.items(), key=lambda item: -item[1]):
            print(f"  not there: {name} ({count} uses)")
    share = 100.0 * there / max(all_names, 1)
    print(f"all: {there} of {all_names} names ({share:.1f} %), pyflame {pf.__version__}")
    return 0 if share >= arguments.least else 1


if __name__ == "__main__":
    sys.exit(main())
