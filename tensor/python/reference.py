"""Writes a reference of the package as pages of Markdown: `python reference.py FOLDER`. Prints the title and the file of each page.

Fails if a public name has no docstring, or no signature that Python can write.
"""

import importlib
import inspect
import re
import sys
import types
from pathlib import Path

# Every public module but `array_api`, whose names the standard describes.
MODULES = [
    "pyflame", "pyflame.nn", "pyflame.nn.functional", "pyflame.nn.init", "pyflame.nn.utils", "pyflame.nn.utils.rnn",
    "pyflame.nn.parallel", "pyflame.optim", "pyflame.optim.lr_scheduler", "pyflame.optim.swa_utils", "pyflame.utils.data",
    "pyflame.utils.checkpoint", "pyflame.autograd", "pyflame.amp", "pyflame.linalg", "pyflame.fft", "pyflame.onnx",
    "pyflame.distributed", "pyflame.profiler", "pyflame.rocm", "pyflame.cuda", "pyflame.backend.rocm",
]  # fmt: skip

# Classes whose constructor is written in Rust, and takes what it says.
NATIVE = {"dtype": "(not made by programs)", "Graph": "(made by explain)", "HookHandle": "(made by register_hook)"}


def is_own(value):
    """Whether an object was made for this package, and is not Python's."""
    home = getattr(value, "__module__", None) or "pyflame"
    return home.split(".")[0] in ("pyflame", "_pyflame", "builtins")


def plain(text):
    """Text of a docstring as Markdown: paragraphs are kept, and `<` is no tag."""
    text = inspect.cleandoc(text).replace("<", "&lt;").replace("](", "] (")
    return re.sub(r"`[^`]*`", lambda code: code.group().replace("&lt;", "<"), text)


def annotation(value):
    """A type as it is written in the source."""
    text = value if isinstance(value, str) else inspect.formatannotation(value)
    return re.sub(r"\b(?:typing|_typing|_builtins|builtins|_pf|pyflame(?:\.\w+)*)\.(?=\w)", "", text)


def signature(name, value, problems, is_method=False):
    """A call, with types and defaults."""
    try:
        found = inspect.signature(value)
    except (TypeError, ValueError):
        if inspect.isclass(value) and (issubclass(value, BaseException) or value.__name__ in NATIVE):
            return NATIVE.get(value.__name__, "(message)")
        problems.append(f"{name} has no signature")
        return "(...)"
    parts, seen = [], ""
    for position, parameter in enumerate(found.parameters.values()):
        if parameter.default is Ellipsis:
            problems.append(f"{name}: the default of {parameter.name} is not written")
        if position == 0 and is_method:
            continue
        if parameter.kind is parameter.KEYWORD_ONLY and "*" not in seen:
            parts.append("*")
        seen += {parameter.VAR_POSITIONAL: "*", parameter.KEYWORD_ONLY: "*"}.get(parameter.kind, "")
        stars = {parameter.VAR_POSITIONAL: "*", parameter.VAR_KEYWORD: "**"}.get(parameter.kind, "")
        # A method of tensors is a function of the module as well.
        text = "input" if position == 0 and parameter.name == "self" else stars + parameter.name
        typed = parameter.annotation is not parameter.empty
        if typed:
            text += ": " + annotation(parameter.annotation)
        if parameter.default is not parameter.empty:
            default = parameter.default
            # The representation of a function or object has its address.
            shown = getattr(default, "__name__", None) if callable(default) else repr(default)
            text += (" = " if typed else "=") + (shown or "None")
        parts.append(text)
    answer = found.return_annotation
    arrow = "" if answer in (found.empty, None, "None") or inspect.isclass(value) else " -> " + annotation(answer)
    return "(" + ", ".join(parts) + ")" + arrow


def document(name, value, problems):
    """The docstring."""
    text = inspect.getdoc(value)
    if not (text or "").strip():
        problems.append(f"{name} has no docstring")
    return plain(text or "")


def members(name, kind, problems):
    """The public methods and properties that a class itself has."""
    lines = []
    for inner in sorted(vars(kind)):
        member = inspect.getattr_static(kind, inner)
        if inner.startswith("_"):
            continue
        function = member.__func__ if isinstance(member, (staticmethod, classmethod)) else member
        where = f"{name}.{inner}"
        if callable(function) and not inspect.isclass(function):
            is_method = not isinstance(member, staticmethod)
            call = signature(where, function, problems, is_method)
        elif hasattr(type(function), "__get__"):
            call = ""
        else:
            continue
        text = document(where, function, problems).replace("\n\n", "\n").replace("\n", " ")
        lines.append(f"* **`{inner}{call}`** {text}")
    return "\n".join(lines)


def page(module_name, seen, problems):
    """The page of a module. `seen` has the names of objects that are on an earlier page."""
    module = importlib.import_module(module_name)
    text = [f"# {module_name}\n", document(module_name, module, problems) + "\n"]
    constants = []
    public = getattr(module, "__all__", None)
    for name, value in sorted(vars(module).items(), key=lambda item: item[0].lower()):
        if public is not None and name not in public:
            continue
        if name.startswith("_") or isinstance(value, types.ModuleType) or not is_own(value):
            continue
        whole = f"{module_name}.{name}"
        if not callable(value):
            # Types of elements and memory formats.
            if type(value).__module__.startswith(("pyflame", "_pyflame")):
                constants.append(f"`{name}`")
            continue
        if type(value).__module__ == "typing" or id(value) in seen and inspect.isclass(value):
            continue
        text.append(f"## {name}\n")
        earlier = seen.setdefault(id(value), whole)
        if earlier != whole:
            text.append(f"The same as `{earlier}`.\n")
            continue
        text.append(f"```text\n{name}{signature(whole, value, problems)}\n```\n")
        text.append(document(whole, value, problems) + "\n")
        listed = members(whole, value, problems) if inspect.isclass(value) else ""
        if listed:
            text.append(listed + "\n")
    if constants:
        text.insert(2, "Constants: " + ", ".join(constants) + ".\n")
    return "\n".join(text)


def main(folder):
    folder.mkdir(parents=True, exist_ok=True)
    seen, problems = {}, []
    # A class is described where it is public first: in `nn`, not in the module that defines it.
    for name in MODULES:
        (folder / f"{name}.md").write_text(page(name, seen, problems), encoding="utf-8")
        print(f"{name}\t{name}.md")
    if problems:
        sys.exit("the reference is incomplete:\n" + "\n".join(problems))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
