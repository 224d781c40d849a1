"""The base class of all layers and models."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Any, Callable, Dict, Iterator, List, Mapping, Optional, Set, Tuple, TypeVar, Union

from .._pyflame import Tensor, no_grad
from .._show import module_html
from .parameter import Parameter

if TYPE_CHECKING:
    from typing_extensions import ParamSpec, Protocol, Self

    _Given = ParamSpec("_Given")
    _Made = TypeVar("_Made", covariant=True)

    class _Computes(Protocol[_Given, _Made]):
        def forward(self, *inputs: _Given.args, **named: _Given.kwargs) -> _Made: ...


class Module:
    """A part of a network: holds parameters, buffers and submodules, and computes in `forward`.

    Attributes that are parameters or modules are registered as they are set. Buffers (running statistics) are tensors that are
    saved with the module and not trained; `register_buffer` adds them.
    """

    training = True
    _parameters: Dict[str, Optional[Parameter]]
    _buffers: Dict[str, Optional[Tensor]]
    _modules: Dict[str, Module]
    _unsaved: Set[str]
    _forward_hooks: Dict[int, Callable[..., Any]]
    _forward_pre_hooks: Dict[int, Callable[..., Any]]

    def __init__(self) -> None:
        super().__setattr__("training", True)
        super().__setattr__("_parameters", OrderedDict())
        super().__setattr__("_buffers", OrderedDict())
        super().__setattr__("_modules", OrderedDict())
        super().__setattr__("_unsaved", set())
        super().__setattr__("_forward_hooks", OrderedDict())
        super().__setattr__("_forward_pre_hooks", OrderedDict())

    # Registration

    def _registries(self) -> Tuple[Dict[str, Any], Dict[str, Any], Dict[str, Any]]:
        own = self.__dict__
        if "_parameters" not in own:
            raise AttributeError(f"{type(self).__name__}: call super().__init__() before the first attribute is set")
        return own["_parameters"], own["_buffers"], own["_modules"]

    def __setattr__(self, name: str, value: Any) -> None:
        if isinstance(value, Parameter):
            chosen = 0
        elif isinstance(value, Module):
            chosen = 2
        else:
            own = self.__dict__
            if "_buffers" in own and name in own["_buffers"] and (value is None or isinstance(value, Tensor)):
                own["_buffers"][name] = value
                return
            if value is None and "_parameters" in own:
                for registry in (own["_parameters"], own["_modules"]):
                    if name in registry:
                        registry[name] = None
                        return
            object.__setattr__(self, name, value)
            return
        registries = self._registries()
        self.__dict__.pop(name, None)
        for index, registry in enumerate(registries):
            if index != chosen:
                registry.pop(name, None)
        registries[chosen][name] = value

    def __getattr__(self, name: str) -> Any:
        own = self.__dict__
        for registry in ("_parameters", "_buffers", "_modules"):
            if registry in own and name in own[registry]:
                return own[registry][name]
        raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")

    def __delattr__(self, name: str) -> None:
        for registry in self._registries():
            if name in registry:
                del registry[name]
                return
        object.__delattr__(self, name)

    def __dir__(self) -> List[str]:
        names = list(super().__dir__())
        for registry in self._registries():
            names.extend(registry)
        return sorted(set(names))

    def register_parameter(self, name: str, parameter: Optional[Parameter]) -> None:
        """Adds a parameter under a name; None reserves the name."""
        if parameter is not None and not isinstance(parameter, Parameter):
            raise TypeError(f"register_parameter: {name!r} must be a Parameter or None, not {type(parameter).__name__}")
        self._registries()[0][name] = parameter

    def register_buffer(self, name: str, tensor: Optional[Tensor], persistent: bool = True) -> None:
        """Adds a tensor that is no parameter under a name; it is part of the state if `persistent`."""
        if tensor is not None and not isinstance(tensor, Tensor):
            raise TypeError(f"register_buffer: {name!r} must be a Tensor or None, not {type(tensor).__name__}")
        self._registries()[1][name] = tensor
        if persistent:
            self._unsaved.discard(name)
        else:
            self._unsaved.add(name)

    def add_module(self, name: str, module: Optional[Module]) -> None:
        """Adds a submodule under a name."""
        if module is not None and not isinstance(module, Module):
            raise TypeError(f"add_module: {name!r} must be a Module or None, not {type(module).__name__}")
        self._registries()[2][name] = module

    register_module = add_module

    def register_forward_hook(self, hook: Callable[..., Any]) -> _Handle:
        """Calls `hook(module, inputs, output)` after every forward; a result other than None replaces the output."""
        handle = _Handle(self._forward_hooks)
        self._forward_hooks[handle.key] = hook
        return handle

    def register_forward_pre_hook(self, hook: Callable[..., Any]) -> _Handle:
        """Calls `hook(module, inputs)` before every forward; a result other than None replaces the inputs."""
        handle = _Handle(self._forward_pre_hooks)
        self._forward_pre_hooks[handle.key] = hook
        return handle

    def register_full_backward_hook(self, hook: Callable[..., Any]) -> Any:
        """Calls `hook(module, grad_input, grad_output)` in backward passes, with the gradients of the inputs and outputs of `forward`.
        A result other than None replaces those of the inputs."""
        from .hooks import watch

        return watch(self, hook)

    # Computing

    def forward(self, *inputs: Any, **named: Any) -> Any:
        """Computes the result for the given inputs."""
        raise NotImplementedError(f"{type(self).__name__} has no forward")

    def _call(self, *inputs: Any, **named: Any) -> Any:
        before = self.__dict__.get("_forward_pre_hooks")
        if before:
            for hook in list(before.values()):
                changed = hook(self, inputs)
                if changed is not None:
                    inputs = changed if isinstance(changed, tuple) else (changed,)
        output = self.forward(*inputs, **named)
        hooks = self.__dict__.get("_forward_hooks")
        if hooks:
            for hook in list(hooks.values()):
                changed = hook(self, inputs, output)
                if changed is not None:
                    output = changed
        return output

    if TYPE_CHECKING:
        # A module is called with the arguments of its `forward` and has its result.
        @property
        def __call__(self: _Computes[_Given, _Made]) -> Callable[_Given, _Made]:
            """Computes the result for the given inputs, and calls the hooks."""

    else:
        __call__ = _call

    # Walking

    def named_modules(
        self, memo: Optional[Set[int]] = None, prefix: str = "", remove_duplicate: bool = True
    ) -> Iterator[Tuple[str, Module]]:
        """The module and all below it, with their names."""
        memo = set() if memo is None else memo
        if id(self) in memo:
            return
        if remove_duplicate:
            memo.add(id(self))
        yield prefix, self
        for name, module in self._modules.items():
            if module is not None:
                yield from module.named_modules(memo, _join(prefix, name), remove_duplicate)

    def modules(self) -> Iterator[Module]:
        """The module and all below it."""
        for _, module in self.named_modules():
            yield module

    def named_children(self) -> Iterator[Tuple[str, Module]]:
        """The direct submodules, with their names."""
        seen = set()
        for name, module in self._modules.items():
            if module is not None and id(module) not in seen:
                seen.add(id(module))
                yield name, module

    def children(self) -> Iterator[Module]:
        """The direct submodules."""
        for _, module in self.named_children():
            yield module

    def _named(self, registry: str, prefix: str, recurse: bool, remove_duplicate: bool = True) -> Iterator[Any]:
        seen = set()
        modules = self.named_modules(prefix=prefix) if recurse else [(prefix, self)]
        for path, module in modules:
            for name, value in getattr(module, registry).items():
                if value is not None and id(value) not in seen:
                    if remove_duplicate:
                        seen.add(id(value))
                    yield _join(path, name), value

    def named_parameters(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[Tuple[str, Parameter]]:
        """All parameters, with their names."""
        return self._named("_parameters", prefix, recurse, remove_duplicate)

    def parameters(self, recurse: bool = True) -> Iterator[Parameter]:
        """All parameters."""
        for _, parameter in self.named_parameters(recurse=recurse):
            yield parameter

    def named_buffers(self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True) -> Iterator[Tuple[str, Tensor]]:
        """All buffers, with their names."""
        return self._named("_buffers", prefix, recurse, remove_duplicate)

    def buffers(self, recurse: bool = True) -> Iterator[Tensor]:
        """All buffers."""
        for _, buffer in self.named_buffers(recurse=recurse):
            yield buffer

    def get_submodule(self, path: str) -> Module:
        """The submodule at a path of names with dots."""
        module = self
        for name in filter(None, path.split(".")):
            if name not in module._modules:
                raise AttributeError(f"{type(module).__name__} has no module {name!r} (of {path!r})")
            module = module._modules[name]
        return module

    def get_parameter(self, path: str) -> Any:
        """The parameter with this name, such as 'layers.0.weight'."""
        before, _, name = path.rpartition(".")
        module = self.get_submodule(before)
        if name not in module._parameters:
            raise AttributeError(f"{type(module).__name__} has no parameter {name!r} (of {path!r})")
        return module._parameters[name]

    def get_buffer(self, path: str) -> Any:
        """The buffer with this name."""
        before, _, name = path.rpartition(".")
        module = self.get_submodule(before)
        if name not in module._buffers:
            raise AttributeError(f"{type(module).__name__} has no buffer {name!r} (of {path!r})")
        return module._buffers[name]

    def apply(self, function: Any) -> Self:
        """Calls a function with each submodule, then with the module itself."""
        for module in self.children():
            module.apply(function)
        function(self)
        return self

    # State

    def state_dict(self, destination: Any = None, prefix: str = "", keep_vars: bool = False) -> Dict[str, Tensor]:
        """All parameters and persistent buffers by name; they share their elements with the module, and are detached unless
        `keep_vars`. They are added to `destination` if one is given."""
        if isinstance(destination, str):
            destination, prefix = None, destination
        state = OrderedDict() if destination is None else destination
        for path, module in self.named_modules(prefix=prefix.rstrip(".")):
            for name, parameter in module._parameters.items():
                if parameter is not None:
                    state[_join(path, name)] = parameter if keep_vars else parameter.detach()
            for name, buffer in module._buffers.items():
                if buffer is not None and name not in module._unsaved:
                    state[_join(path, name)] = buffer if keep_vars else buffer.detach()
        return state

    def load_state_dict(self, state_dict: Mapping[str, Any], strict: bool = True) -> _Keys:
        """Restores a state that `state_dict` returned."""
        own: Dict[str, Tensor] = {}
        for path, module in self.named_modules():
            for name, parameter in module._parameters.items():
                if parameter is not None:
                    own[_join(path, name)] = parameter
            for name, buffer in module._buffers.items():
                if buffer is not None and name not in module._unsaved:
                    own[_join(path, name)] = buffer
        missing = [name for name in own if name not in state_dict]
        unexpected = [name for name in state_dict if name not in own]
        wrong = [
            f"size mismatch for {name}: got {list(state_dict[name].shape)}, expected {list(own[name].shape)}"
            for name in own
            if name in state_dict and tuple(state_dict[name].shape) != tuple(own[name].shape)
        ]
        if strict:
            if missing:
                wrong.append("missing: " + ", ".join(missing))
            if unexpected:
                wrong.append("unexpected: " + ", ".join(unexpected))
        if wrong:
            raise RuntimeError(f"load_state_dict of {type(self).__name__}: " + "; ".join(wrong))
        with no_grad():
            for name, value in own.items():
                if name in state_dict:
                    value.copy_(state_dict[name])
        return _Keys(missing, unexpected)

    def train(self, mode: bool = True) -> Self:
        """Selects the mode of training, or of evaluation."""
        for module in self.modules():
            object.__setattr__(module, "training", bool(mode))
        return self

    def eval(self) -> Self:
        """Selects the mode of evaluation."""
        return self.train(False)

    def share_memory(self) -> Self:
        """The module itself: tensors are copied when they are sent to another process."""
        return self

    def cuda(self, device: Optional[Union[int, str]] = None) -> Self:
        """Moves to a GPU."""
        return self.rocm(device or 0)

    def type(self, dst_type: Any) -> Self:
        """Converts all floating point tensors."""
        return self.to(dst_type)

    def requires_grad_(self, requires_grad: bool = True) -> Self:
        """Makes all parameters collect gradients, or stops them."""
        for parameter in self.parameters():
            parameter.requires_grad = requires_grad
        return self

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Removes the gradients of all parameters."""
        for parameter in self.parameters():
            if set_to_none or parameter.grad is None:
                parameter.grad = None
            else:
                parameter.grad.detach().zero_()

    def to(self, *args: Any, **named: Any) -> Self:
        """Moves to a device, converts floating point tensors to a type, or both: `to('rocm')`, `to(pf.bfloat16)`."""
        from .._pyflame import parse_to

        device, dtype = parse_to(*args, **named)
        with no_grad():
            for module in self.modules():
                for value in list(module._parameters.values()) + list(module._buffers.values()):
                    if value is None:
                        continue
                    moved = value.detach()
                    if dtype is not None and value.dtype.is_floating_point:
                        moved = moved.to(dtype)
                    if device is not None:
                        moved = moved.to(device)
                    value.data = moved
                    if value.grad is not None:
                        value.grad = value.grad.to(moved.device).to(moved.dtype)
        return self

    def cpu(self) -> Self:
        """Moves parameters and buffers to the CPU."""
        return self.to("cpu")

    def rocm(self, device: Union[int, str] = 0) -> Self:
        """Moves parameters and buffers to a GPU."""
        return self.to(f"rocm:{device}")

    def float(self) -> Self:
        """Converts parameters and buffers to float32."""
        from .._pyflame import float32

        return self.to(float32)

    def double(self) -> Self:
        """Converts parameters and buffers to float64."""
        from .._pyflame import float64

        return self.to(float64)

    def half(self) -> Self:
        """Converts parameters and buffers to float16."""
        from .._pyflame import float16

        return self.to(float16)

    def bfloat16(self) -> Self:
        """Converts parameters and buffers to bfloat16."""
        from .._pyflame import bfloat16

        return self.to(bfloat16)

    # Showing

    def extra_repr(self) -> str:
        """The part of the representation between the parentheses."""
        return ""

    def __repr__(self) -> str:
        lines = []
        for name, module in self._modules.items():
            lines.append(f"({name}): " + repr(module).replace("\n", "\n  "))
        extra = self.extra_repr()
        name = type(self).__name__
        if not lines:
            return f"{name}({extra})"
        return f"{name}({extra}\n  " + "\n  ".join(lines) + "\n)"

    def _repr_html_(self) -> str:
        return module_html(self)


class _Handle:
    """Removes a hook."""

    _next = 0

    def __init__(self, hooks: Any) -> None:
        _Handle._next += 1
        self.key = _Handle._next
        self._hooks = hooks

    def remove(self) -> None:
        self._hooks.pop(self.key, None)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: Any) -> None:
        self.remove()


class _Keys(Tuple[Any, Any]):
    """The result of `load_state_dict`: missing and unexpected names."""

    def __new__(cls, missing: List[str], unexpected: List[str]) -> Self:
        return super().__new__(cls, (missing, unexpected))

    missing_keys = property(lambda self: self[0])
    unexpected_keys = property(lambda self: self[1])

    def __repr__(self) -> str:
        if not self[0] and not self[1]:
            return "<All keys matched successfully>"
        return f"missing_keys={self[0]}, unexpected_keys={self[1]}"


def _join(prefix: str, name: str) -> str:
    return f"{prefix}.{name}" if prefix else name
