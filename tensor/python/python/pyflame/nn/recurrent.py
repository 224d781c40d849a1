"""Recurrent layers and their cells."""

from __future__ import annotations

import math
from typing import Any, Dict, List, Optional, Tuple

from .. import _pyflame as _pf
from .._pyflame import Tensor
from . import functional as F
from . import init
from .module import Module
from .parameter import Parameter

# The number of gates, which is the number of rows of the weights for each feature.
_GATES = {"LSTM": 4, "GRU": 3, "RNN_TANH": 1, "RNN_RELU": 1}

State = Tuple[Tensor, Optional[Tensor]]


def _lstm_step(given: Tensor, hidden: Tensor, cell: Tensor) -> State:
    """One step from the input's and the hidden state's share of all gates."""
    i, f, g, o = (given + hidden).chunk(4, -1)
    cell = f.sigmoid() * cell + i.sigmoid() * g.tanh()
    return o.sigmoid() * cell.tanh(), cell


def _gru_step(given: Tensor, hidden: Tensor, before: Tensor) -> Tensor:
    (r, z, n), (hr, hz, hn) = given.chunk(3, -1), hidden.chunk(3, -1)
    update = (z + hz).sigmoid()
    fresh = (n + (r + hr).sigmoid() * hn).tanh()
    return fresh + update * (before - fresh)


def _step(mode: str, given: Tensor, hidden: Tensor, state: State) -> State:
    if mode == "LSTM":
        assert state[1] is not None
        return _lstm_step(given, hidden, state[1])
    if mode == "GRU":
        return _gru_step(given, hidden, state[0]), None
    both = given + hidden
    return (both.tanh() if mode == "RNN_TANH" else both.relu()), None


class RNNBase(Module):
    """What LSTM, GRU and RNN have in common: parameters with PyTorch's names and shapes, layers and directions."""

    def __init__(
        self, mode: str, input_size: int, hidden_size: int, num_layers: int = 1, bias: bool = True, batch_first: bool = False,
        dropout: float = 0.0, bidirectional: bool = False, proj_size: int = 0, device: Optional[str] = None, dtype: Any = None,
    ) -> None:  # fmt: skip
        super().__init__()
        if mode not in _GATES:
            raise ValueError(f"RNNBase: mode must be one of {', '.join(_GATES)}, not {mode!r}")
        if not 0 <= dropout <= 1:
            raise ValueError(f"{type(self).__name__}: dropout must be between 0 and 1, not {dropout}")
        if proj_size and (mode != "LSTM" or not 0 < proj_size < hidden_size):
            raise ValueError(f"{type(self).__name__}: proj_size {proj_size} needs an LSTM with more than {proj_size} features")
        if hidden_size <= 0 or num_layers <= 0:
            raise ValueError(f"{type(self).__name__}: hidden_size and num_layers must be positive, not {hidden_size} and {num_layers}")
        self.mode, self.input_size, self.hidden_size, self.num_layers = mode, input_size, hidden_size, num_layers
        self.bias, self.batch_first, self.dropout, self.bidirectional = bias, batch_first, float(dropout), bidirectional
        self.proj_size = proj_size
        place: Dict[str, Any] = {"device": device, "dtype": dtype or _pf.float32}
        rows, out = _GATES[mode] * hidden_size, proj_size or hidden_size
        for layer in range(num_layers):
            for ending in self._endings():
                width = input_size if layer == 0 else out * len(self._endings())
                names = [("weight_ih", (rows, width)), ("weight_hh", (rows, out))]
                if bias:
                    names += [("bias_ih", (rows,)), ("bias_hh", (rows,))]  # type: ignore[list-item]
                if proj_size:
                    names.append(("weight_hr", (proj_size, hidden_size)))
                for name, shape in names:
                    setattr(self, f"{name}_l{layer}{ending}", Parameter(_pf.empty(shape, **place)))
        self.reset_parameters()

    def _endings(self) -> List[str]:
        return ["", "_reverse"] if self.bidirectional else [""]

    def reset_parameters(self) -> None:
        """Draws all parameters anew."""
        bound = 1.0 / math.sqrt(self.hidden_size)
        for parameter in self.parameters():
            init.uniform_(parameter, -bound, bound)

    def flatten_parameters(self) -> None:
        """Does nothing: parameters need no special arrangement in memory."""

    def _of(self, name: str, layer: int, ending: str) -> Optional[Tensor]:
        return getattr(self, f"{name}_l{layer}{ending}", None)

    def _scan(self, x: Tensor, state: State, layer: int, ending: str) -> Tuple[Tensor, State]:
        """Runs one layer in one direction over [time, batch, features]."""
        weight_ih, weight_hh = self._of("weight_ih", layer, ending), self._of("weight_hh", layer, ending)
        bias_hh, project = self._of("bias_hh", layer, ending), self._of("weight_hr", layer, ending)
        # The inputs of all steps are known, so their products are one.
        given = F.linear(x, weight_ih, self._of("bias_ih", layer, ending)).unbind(0)
        times = range(len(given))
        outputs: List[Tensor] = []
        for time in reversed(times) if ending else times:
            hidden, cell = _step(self.mode, given[time], F.linear(state[0], weight_hh, bias_hh), state)
            if project is not None:
                hidden = F.linear(hidden, project)
            state = hidden, cell
            outputs.append(hidden)
        if ending:
            outputs.reverse()
        return _pf.stack(outputs, 0), state

    def forward(self, input: Tensor, hx: Any = None) -> Any:
        """The outputs of the last layer for all steps, and the last state of every layer and direction."""
        single = input.ndim == 2
        if input.ndim not in (2, 3) or input.shape[-1] != self.input_size:
            raise ValueError(
                f"{type(self).__name__}: expected sequences of {self.input_size} features with 2 or 3 axes, got {tuple(input.shape)}"
            )
        x = input.unsqueeze(1) if single else input.transpose(0, 1) if self.batch_first else input
        count, batch = self.num_layers * len(self._endings()), x.shape[1]
        states = self._initial(hx, count, batch, single, x)
        ends: List[State] = []
        for layer in range(self.num_layers):
            outputs = []
            for direction, ending in enumerate(self._endings()):
                output, end = self._scan(x, states[layer * len(self._endings()) + direction], layer, ending)
                outputs.append(output)
                ends.append(end)
            x = outputs[0] if len(outputs) == 1 else _pf.cat(outputs, -1)
            if self.dropout and self.training and layer < self.num_layers - 1:
                x = F.dropout(x, self.dropout, True)
        hidden = _pf.stack([end[0] for end in ends], 0)
        cells = _pf.stack([end[1] for end in ends if end[1] is not None], 0) if self.mode == "LSTM" else None
        if single:
            x, hidden, cells = x.squeeze(1), hidden.squeeze(1), None if cells is None else cells.squeeze(1)
        elif self.batch_first:
            x = x.transpose(0, 1)
        return x, hidden if cells is None else (hidden, cells)

    def _initial(self, hx: Any, count: int, batch: int, single: bool, x: Tensor) -> List[State]:
        widths = [self.proj_size or self.hidden_size] + ([self.hidden_size] if self.mode == "LSTM" else [])
        given = [x.new_zeros(count, batch, width) for width in widths] if hx is None else [*hx] if self.mode == "LSTM" else [hx]
        if hx is not None and single:
            given = [part.unsqueeze(1) for part in given]
        for part, width in zip(given, widths):
            if tuple(part.shape) != (count, batch, width):
                raise ValueError(f"{type(self).__name__}: expected a state of shape {(count, batch, width)}, got {tuple(part.shape)}")
        return [(given[0][at], given[1][at] if self.mode == "LSTM" else None) for at in range(count)]

    def extra_repr(self) -> str:
        """The sizes."""
        text = f"{self.input_size}, {self.hidden_size}"
        for name, default in (("num_layers", 1), ("bias", True), ("batch_first", False), ("dropout", 0.0), ("bidirectional", False)):
            if getattr(self, name) != default:
                text += f", {name}={getattr(self, name)}"
        return text


class LSTM(RNNBase):
    """Long short-term memory: `forward(x, (h, c))` returns the outputs and the last `(h, c)`."""

    def __init__(
        self, input_size: int, hidden_size: int, num_layers: int = 1, bias: bool = True, batch_first: bool = False,
        dropout: float = 0.0, bidirectional: bool = False, proj_size: int = 0, device: Optional[str] = None, dtype: Any = None,
    ) -> None:  # fmt: skip
        super().__init__(
            "LSTM", input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional, proj_size, device, dtype
        )


class GRU(RNNBase):
    """Gated recurrent units: `forward(x, h)` returns the outputs and the last `h`."""

    def __init__(
        self, input_size: int, hidden_size: int, num_layers: int = 1, bias: bool = True, batch_first: bool = False,
        dropout: float = 0.0, bidirectional: bool = False, device: Optional[str] = None, dtype: Any = None,
    ) -> None:  # fmt: skip
        super().__init__("GRU", input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional, 0, device, dtype)


class RNN(RNNBase):
    """A plain recurrent layer with tanh or ReLU: `forward(x, h)` returns the outputs and the last `h`."""

    def __init__(
        self, input_size: int, hidden_size: int, num_layers: int = 1, nonlinearity: str = "tanh", bias: bool = True,
        batch_first: bool = False, dropout: float = 0.0, bidirectional: bool = False, device: Optional[str] = None, dtype: Any = None,
    ) -> None:  # fmt: skip
        if nonlinearity not in ("tanh", "relu"):
            raise ValueError(f"RNN: nonlinearity must be 'tanh' or 'relu', not {nonlinearity!r}")
        self_mode = f"RNN_{nonlinearity.upper()}"
        super().__init__(self_mode, input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional, 0, device, dtype)
        self.nonlinearity = nonlinearity


class RNNCellBase(Module):
    """One step of a recurrent layer."""

    def __init__(
        self, mode: str, input_size: int, hidden_size: int, bias: bool = True, device: Optional[str] = None, dtype: Any = None
    ) -> None:
        super().__init__()
        self.mode, self.input_size, self.hidden_size, self.bias = mode, input_size, hidden_size, bias
        rows = _GATES[mode] * hidden_size
        place: Dict[str, Any] = {"device": device, "dtype": dtype or _pf.float32}
        self.weight_ih = Parameter(_pf.empty(rows, input_size, **place))
        self.weight_hh = Parameter(_pf.empty(rows, hidden_size, **place))
        self.register_parameter("bias_ih", Parameter(_pf.empty(rows, **place)) if bias else None)
        self.register_parameter("bias_hh", Parameter(_pf.empty(rows, **place)) if bias else None)
        bound = 1.0 / math.sqrt(hidden_size)
        for parameter in self.parameters():
            init.uniform_(parameter, -bound, bound)

    def _stepped(self, input: Tensor, state: State) -> State:
        given = F.linear(input, self.weight_ih, self.bias_ih)
        return _step(self.mode, given, F.linear(state[0], self.weight_hh, self.bias_hh), state)

    def forward(self, input: Tensor, hx: Any = None) -> Any:
        """The next state."""
        zeros = input.new_zeros(*input.shape[:-1], self.hidden_size)
        if self.mode == "LSTM":
            return self._stepped(input, (zeros, zeros) if hx is None else (hx[0], hx[1]))
        return self._stepped(input, (zeros if hx is None else hx, None))[0]

    def extra_repr(self) -> str:
        """The sizes."""
        return f"{self.input_size}, {self.hidden_size}" + ("" if self.bias else ", bias=False")


class LSTMCell(RNNCellBase):
    """One step of an LSTM: maps the input and `(h, c)` to the next `(h, c)`."""

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool = True, device: Optional[str] = None, dtype: Any = None
    ) -> None:
        super().__init__("LSTM", input_size, hidden_size, bias, device, dtype)


class GRUCell(RNNCellBase):
    """One step of a GRU: maps the input and `h` to the next `h`."""

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool = True, device: Optional[str] = None, dtype: Any = None
    ) -> None:
        super().__init__("GRU", input_size, hidden_size, bias, device, dtype)


class RNNCell(RNNCellBase):
    """One step of a plain recurrent layer: maps the input and `h` to the next `h`."""

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool = True, nonlinearity: str = "tanh", device: Optional[str] = None,
        dtype: Any = None,
    ) -> None:  # fmt: skip
        super().__init__(f"RNN_{nonlinearity.upper()}", input_size, hidden_size, bias, device, dtype)
