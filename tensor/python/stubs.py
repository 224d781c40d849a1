"""Generates `python/pyflame/_pyflame.pyi` from the module: `python stubs.py`. With `--check`, only checks that it is up to date."""

import inspect
import re
import sys
from pathlib import Path

import pyflame  # noqa: F401  (adds methods to tensors)
import pyflame._pyflame as module

HERE = Path(__file__).parent / "python" / "pyflame" / "_pyflame.pyi"

# Types by parameter name; a name has the same type everywhere.
PARAMETERS = {
    "dim": "Optional[Dims]", "keepdim": "bool", "dtype": "Optional[DTypeLike]", "device": "Optional[str]",
    "requires_grad": "bool", "generator": "Optional[Generator]", "axis": "Any", "training": "bool", "reduction": "str", "stride": "Each", "padding": "Union[Each, str]",
    "dilation": "Each", "groups": "int", "kernel_size": "Each", "ceil_mode": "bool", "output_size": "Each",
    "output_padding": "Each", "eps": "float", "momentum": "float", "p": "float", "other": "Operand", "target": "Operand",
    "weight": "Optional[Operand]", "bias": "Optional[Operand]", "value": "Any", "key": "Any", "descending": "bool",
    "size": "Any", "shape": "Any", "dims": "Any", "sizes": "Any", "tensors": "Any", "data": "Any", "approximate": "str",
    "retain_graph": "bool", "create_graph": "bool", "gradient": "Optional[Tensor]", "dim0": "int", "dim1": "int", "start_dim": "int",
    "end_dim": "int", "seed": "int", "precision": "str", "index": "Operand", "src": "Operand", "mask": "Operand",
    "query": "Operand", "is_causal": "bool", "scale": "float",
}  # fmt: skip

# Results that are not tensors.
RETURNS = {
    "size": "Any", "dim": "int", "nelement": "int", "element_size": "int", "stride": "List[int]", "is_contiguous": "bool",
    "is_floating_point": "bool", "is_complex": "bool", "numpy": "Any", "tolist": "Any", "item": "Any", "backward": "None",
    "zero_grad": "None", "to_parts": "Tuple[str, List[int], bytes, Optional[str]]", "is_realised": "bool",
    "unbind": "List[Tensor]", "split": "List[Tensor]", "chunk": "List[Tensor]", "max": "Any", "min": "Any", "sort": "Any",
    "topk": "Any", "set_device": "None", "get_device": "str", "device_info": "Dict[str, Any]", "synchronize": "None",
    "rocm_device_count": "int", "rocm_trouble": "Optional[str]", "manual_seed": "None", "get_rng_state": "Tuple[int, int]",
    "set_rng_state": "None", "is_grad_enabled": "bool", "set_grad_mode": "None", "eval": "None", "is_lazy": "bool",
    "attention": "Optional[Tensor]", "explain": "Graph", "gradients_of": "List[Optional[Tensor]]", "parse_to": "Tuple[Optional[str], Optional[dtype]]",
    "profile_start": "None", "profile_stop": "List[Tuple[str, str, float, float]]", "set_matmul_precision": "None",
    "get_matmul_precision": "str", "dtype_of": "dtype", "limits": "Tuple[int, float, float, float, float]",
    "integer_limits": "Tuple[int, int, int]", "__bool__": "bool", "__float__": "float", "__int__": "int", "__len__": "int",
    "__index__": "int", "__hash__": "int", "__contains__": "bool", "__setitem__": "None", "__iter__": "Iterator[Tensor]",
    "__dlpack__": "Any", "__dlpack_device__": "Tuple[int, int]", "__array__": "Any", "__repr__": "str", "__str__": "str",
    "linalg_slogdet": "Tuple[Tensor, Tensor]", "linalg_eigh": "Tuple[Tensor, Tensor]", "linalg_qr": "Tuple[Tensor, Tensor]",
    "linalg_svd": "Tuple[Tensor, Tensor, Tensor]", "groups": "Tuple[Tensor, Tensor, Tensor]", "unique": "Any",
    "register_hook": "HookHandle", "retain_grad": "None", "custom_function": "List[Tensor]",
    "backward_within": "List[Optional[Tensor]]", "set_autocast": "Optional[dtype]", "get_autocast": "Optional[dtype]",
    "storage_offset": "int", "__format__": "str", "__complex__": "complex", "__array_namespace__": "Any",
}  # fmt: skip
PROPERTIES = {
    "shape": "Tuple[int, ...]", "ndim": "int", "numel": "Any", "dtype": "dtype", "device": "str", "requires_grad": "bool",
    "grad": "Optional[Tensor]", "is_leaf": "bool", "grad_fn": "Optional[str]", "data": "Tensor", "itemsize": "int",
    "nbytes": "int", "retains_grad": "bool", "T": "Tensor", "mT": "Tensor", "real": "Tensor", "imag": "Tensor",
}  # fmt: skip
SETTABLE = {"requires_grad", "grad", "data"}

HEADER = '''# Written by stubs.py from the module itself.
import builtins
from typing import Any, Dict, Iterator, List, Optional, Sequence, Tuple, Union

from typing_extensions import Self

Dims = Union[int, Sequence[int]]
Each = Union[int, Sequence[int]]
Operand = Union["Tensor", int, float, bool, complex, Any]
DTypeLike = Union["dtype", str, type, Any]

__version__: str

class OutOfMemoryError(RuntimeError): ...

class dtype:
    name: str
    itemsize: int
    is_floating_point: bool
    is_complex: bool
    is_signed: bool

class Graph:
    device: str
    nodes: List[Dict[str, Any]]
    launches: List[Dict[str, Any]]
    bytes_read: int
    bytes_written: int
    replayed: bool
    def __len__(self) -> int: ...

class Generator:
    device: str
    def __init__(self, device: str = ...) -> None: ...
    def manual_seed(self, seed: int) -> Generator: ...
    def seed(self) -> int: ...
    def initial_seed(self) -> int: ...
    def get_state(self) -> Tuple[int, int]: ...
    def set_state(self, state: Tuple[int, int]) -> None: ...

class MappedFile:
    def __init__(self, file: int, length: int) -> None: ...
    def read(self, at: int, length: int) -> bytes: ...
    def tensor(self, dtype: DTypeLike, shape: Sequence[int], at: int, device: Optional[str] = ...) -> Tensor: ...

class HookHandle:
    def remove(self) -> None: ...
    def __enter__(self) -> HookHandle: ...
    def __exit__(self, *error: Any) -> None: ...

class no_grad:
    def __enter__(self) -> None: ...
    def __exit__(self, *error: Any) -> None: ...
    def __call__(self, function: Any) -> Any: ...

class enable_grad:
    def __enter__(self) -> None: ...
    def __exit__(self, *error: Any) -> None: ...
    def __call__(self, function: Any) -> Any: ...

'''


def annotation(text):
    """The annotation of a function that is written in Python, as the stub can say it."""
    if text is inspect.Parameter.empty:
        return "Any"
    text = re.sub(r"\b_pf\.Generator\b", "Generator", str(text))
    for short, whole in SHORT.items():
        text = re.sub(rf"\b{short}\b", whole, text)
    return re.sub(r"(?<![\w.])(bool|float|int|complex)\b", r"builtins.\1", text)


# Abbreviations in the modules that define these methods.
SHORT = {"Number": "Union[int, float]", "Value": "Union[Tensor, int, float]", "Dims": "Dims", "ValuesAndIndices": "Any"}


def written_in_python(function):
    """Parameters and result of a method that the package adds."""
    signature = inspect.signature(function)
    parts, star = ["self"], False
    for parameter in list(signature.parameters.values())[1:]:
        kind = annotation(parameter.annotation)
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            star = star or parameter.kind is parameter.VAR_POSITIONAL
            parts.append(("*" if parameter.kind is parameter.VAR_POSITIONAL else "**") + f"{parameter.name}: {kind}")
            continue
        if parameter.kind is parameter.KEYWORD_ONLY and not star:
            parts.append("*")
            star = True
        parts.append(f"{parameter.name}: {kind}" + ("" if parameter.default is parameter.empty else " = ..."))
    return ", ".join(parts), annotation(signature.return_annotation)


def parameters(function, method):
    text = getattr(function, "__text_signature__", None)
    if not text:
        return "self, *args: Any, **named: Any" if method else "*args: Any, **named: Any"
    signature = inspect.signature(function)
    parts, keyword_only = [], False
    for number, parameter in enumerate(signature.parameters.values()):
        if method and number == 0:
            parts.append("self")
            continue
        if parameter.kind is parameter.VAR_POSITIONAL:
            parts.append(f"*{parameter.name}: Any")
            keyword_only = True
            continue
        if parameter.kind is parameter.VAR_KEYWORD:
            parts.append(f"**{parameter.name}: Any")
            continue
        if parameter.kind is parameter.KEYWORD_ONLY and not keyword_only:
            parts.append("*")
            keyword_only = True
        kind = PARAMETERS.get(parameter.name, "Any")
        default = "" if parameter.default is parameter.empty else " = ..."
        parts.append(f"{parameter.name}: {kind}{default}")
    return ", ".join(parts)


def written():
    lines = [HEADER, "class Tensor:"]
    lines.append("    def __new__(cls, data: Any, dtype: Optional[DTypeLike] = ..., device: Optional[str] = ..., requires_grad: bool = ...) -> Self: ...")
    plain = set(dir(object))
    for name in sorted(vars(module.Tensor)):
        member = vars(module.Tensor)[name]
        if name in PROPERTIES:
            lines.append(f"    @property\n    def {name}(self) -> {PROPERTIES[name]}: ...")
            if name in SETTABLE:
                lines.append(f"    @{name}.setter\n    def {name}(self, value: Any) -> None: ...")
        elif name == "__delitem__":
            # CPython sets its slot together with that of __setitem__.
            continue
        elif inspect.isfunction(member):
            taken, answer = written_in_python(member)
            lines.append(f"    def {name}({taken}) -> {answer}: ...")
        elif isinstance(member, property):
            answer = annotation(inspect.signature(member.fget).return_annotation)
            lines.append(f"    @property\n    def {name}(self) -> {answer}: ...")
        elif callable(member) and (name not in plain or name in ("__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__")):
            if name in ("__eq__", "__ne__"):
                lines.append(f"    def {name}(self, other: Any) -> Any: ...")
                continue
            answer = RETURNS.get(name, "Tensor")
            lines.append(f"    def {name}({parameters(member, True)}) -> {answer}: ...")
    lines.append("")
    for name in sorted(vars(module)):
        value = vars(module)[name]
        if name.startswith("_") or isinstance(value, type):
            continue
        if isinstance(value, module.dtype):
            lines.append(f"{name}: dtype")
        elif vars(module.Tensor).get(name) is value:
            lines.append(f"{name} = Tensor.{name}")
        elif callable(value):
            lines.append(f"def {name}({parameters(value, False)}) -> {RETURNS.get(name, 'Any' if name.startswith('rocm_') else 'Tensor')}: ...")
    return "\n".join(qualified(line) for line in "\n".join(lines).split("\n")) + "\n"


def qualified(line):
    """A line of the stub in which Python's types are not hidden by methods and element types of the same name."""
    line = re.sub(r"(?<=-> )(bool|float|int|complex)\b", r"builtins.\1", line)
    head, bracket, rest = line.partition("(")
    if not head.lstrip().startswith("def "):
        return re.sub(r"(?<![\w.])(bool|float|int|complex)\b(?=[\],])", r"builtins.\1", line) if " = Union" in line else line
    return head + bracket + re.sub(r"(?<=[\[ ])(bool|float|int|complex)\b(?!:)", r"builtins.\1", rest)


if __name__ == "__main__":
    text = written()
    if "--check" in sys.argv:
        sys.exit(0 if HERE.read_text() == text else f"{HERE} is out of date; run stubs.py")
    HERE.write_text(text)
