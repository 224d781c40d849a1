"""Model definitions of other projects, loaded from their packages with `import torch` replaced.

The files of a package are compiled as they are, but for lines that import torch. Modules around the definitions that have nothing to do
with tensors (downloads, image files, documentation decorators, configuration files) are replaced by the few names that are used.
"""

import importlib.abc
import importlib.machinery
import re
import sys
import types
from pathlib import Path

IMPORT = re.compile(r"^(\s*)(from|import) torch\b(.*)$")


def rewritten(source, library):
    """The source with the import lines of torch changed to those of another library."""
    lines = []
    for line in source.split("\n"):
        found = IMPORT.match(line)
        if found and library != "torch":
            indent, kind, rest = found.groups()
            if kind == "import" and (not rest or re.match(r"\s*(#.*)?$", rest)):
                line = f"{indent}import {library} as torch"
            elif kind == "import" and " as " not in rest:
                line = f"{indent}import {library}{rest}; import {library} as torch"
            else:
                line = f"{indent}{kind} {library}{rest}"
        lines.append(line)
    return "\n".join(lines)


class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds modules of one package in a folder of unpacked wheels."""

    def __init__(self, folder, package, library, stubs):
        self.folder, self.package, self.library, self.stubs = Path(folder), package, library, stubs

    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] != self.package:
            return None
        place = self.folder.joinpath(*name.split("."))
        is_package = place.is_dir()
        if name not in self.stubs and not is_package and not place.with_suffix(".py").exists():
            return None
        return importlib.machinery.ModuleSpec(name, self, is_package=is_package)

    def create_module(self, spec):
        return None

    def exec_module(self, module):
        name = module.__name__
        if name in self.stubs:
            vars(module).update(self.stubs[name]())
            return
        place = self.folder.joinpath(*name.split("."))
        path = place / "__init__.py" if place.is_dir() else place.with_suffix(".py")
        source = rewritten(path.read_text(encoding="utf-8"), self.library)
        exec(compile(source, str(path), "exec"), vars(module))


def nothing():
    return {}


def loaded(folder, package, library, stubs, name):
    """A module of a package, with all modules of the package loaded anew."""
    finder = Finder(folder, package, library, stubs)
    sys.meta_path.insert(0, finder)
    try:
        for known in [known for known in sys.modules if known.split(".")[0] == package]:
            del sys.modules[known]
        return importlib.import_module(name)
    finally:
        sys.meta_path.remove(finder)


def torchvision(folder, library, name):
    """A module of torchvision.models."""

    def any_name(**names):
        return lambda: names

    class Enum:
        BILINEAR = BICUBIC = "mode"

    def n_times(count):
        return lambda value: tuple(value) if isinstance(value, (tuple, list)) else (value,) * count

    stubs = {
        "torchvision": nothing,
        "torchvision.models": nothing,
        "torchvision.ops": nothing,
        "torchvision.transforms": nothing,
        "torchvision.transforms._presets": any_name(ImageClassification=dict, InterpolationMode=Enum),
        "torchvision.utils": any_name(_log_api_usage_once=lambda module: None, _make_ntuple=lambda x, n: n_times(n)(x)),
        "torchvision._internally_replaced_utils": any_name(load_state_dict_from_url=None),
    }
    return loaded(folder, "torchvision", library, stubs, f"torchvision.models.{name}")


class Config(types.SimpleNamespace):
    """GPT-2's configuration, with the defaults that its definition reads."""

    def __init__(self, **given):
        super().__init__(**{
            "vocab_size": 50257, "n_positions": 1024, "n_embd": 768, "n_layer": 12, "n_head": 12, "n_inner": None,
            "activation_function": "gelu_new", "resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0,
            "layer_norm_epsilon": 1e-5, "initializer_range": 0.02, "scale_attn_weights": True, "use_cache": True,
            "scale_attn_by_inverse_layer_idx": False, "reorder_and_upcast_attn": False, "add_cross_attention": False,
            "output_attentions": False, "output_hidden_states": False, "use_return_dict": True, **given,
        })  # fmt: skip
        self.max_position_embeddings, self.hidden_size = self.n_positions, self.n_embd
        self.num_attention_heads, self.num_hidden_layers = self.n_head, self.n_layer


def gpt2(folder, library):
    """The module of transformers that defines GPT-2."""
    nn = importlib.import_module(f"{library}.nn")

    class PreTrainedModel(nn.Module):
        def __init__(self, config):
            super().__init__()
            self.config = config

        device = property(lambda self: next(self.parameters()).device)
        dtype = property(lambda self: next(self.parameters()).dtype)

        def post_init(self):
            """The initial parameters are replaced by those of the comparison."""

        def get_head_mask(self, mask, count):
            return [None] * count

        def warn_if_padding_and_no_attention_mask(self, *_):
            """There is no padding."""

    def same(*_, **__):
        return lambda function: function

    class Output:
        """Outputs as attributes and by number; the subclasses are data classes."""

        def __getitem__(self, key):
            if isinstance(key, str):
                return getattr(self, key)
            return [value for value in vars(self).values() if value is not None][key]

    logger = types.SimpleNamespace(warning=print, warning_once=print, info=print)
    logging = types.SimpleNamespace(get_logger=lambda name: logger)
    docs = ("add_code_sample_docstrings", "add_start_docstrings", "add_start_docstrings_to_model_forward", "replace_return_docstrings")
    stubs = {
        "transformers": nothing,
        "transformers.models": nothing,
        "transformers.models.gpt2": nothing,
        "transformers.models.gpt2.configuration_gpt2": lambda: {"GPT2Config": Config},
        "transformers.modeling_utils": lambda: {"PreTrainedModel": PreTrainedModel, "SequenceSummary": None},
        "transformers.utils": lambda: {"ModelOutput": Output, "logging": logging, **{name: same for name in docs}},
        "transformers.utils.model_parallel_utils": lambda: {"assert_device_map": None, "get_device_map": None},
    }
    # One function of safetensors is imported for files that the comparison does not read.
    for name in ("safetensors", "safetensors.torch"):
        sys.modules.setdefault(name, types.ModuleType(name))
    vars(sys.modules["safetensors.torch"]).update(storage_ptr=None, storage_size=None)
    return loaded(folder, "transformers", library, stubs, "transformers.models.gpt2.modeling_gpt2")
