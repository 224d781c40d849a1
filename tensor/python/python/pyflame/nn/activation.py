"""Activations as layers."""

from . import functional as F
from .module import Module
from .parameter import Parameter


def _plain(name, function, doc):
    """Makes a layer from one function without options."""

    def forward(self, x):
        """Computes the result for the given inputs."""
        return function(x)

    # `inplace` is accepted for compatibility and ignored: values are never changed in place here.
    def __init__(self, inplace=False):
        Module.__init__(self)

    return type(name, (Module,), {"__init__": __init__, "forward": forward, "__doc__": doc, "__module__": __name__})


ReLU = _plain("ReLU", F.relu, "max(x, 0).")
ReLU6 = _plain("ReLU6", F.relu6, "x between 0 and 6.")
Sigmoid = _plain("Sigmoid", F.sigmoid, "1 / (1 + exp(-x)).")
Tanh = _plain("Tanh", F.tanh, "The hyperbolic tangent.")
SiLU = _plain("SiLU", F.silu, "x * sigmoid(x).")
Mish = _plain("Mish", F.mish, "x * tanh(softplus(x)).")
Hardtanh = _plain("Hardtanh", F.hardtanh, "x between -1 and 1.")
Hardsigmoid = _plain("Hardsigmoid", F.hardsigmoid, "relu6(x + 3) / 6.")
Hardswish = _plain("Hardswish", F.hardswish, "x * hardsigmoid(x).")
Softsign = _plain("Softsign", F.softsign, "x / (1 + |x|).")
LogSigmoid = _plain("LogSigmoid", F.logsigmoid, "log(sigmoid(x)).")
SELU = _plain("SELU", F.selu, "The scaled exponential linear unit.")


class GELU(Module):
    """x times the normal cumulative distribution at x; with approximate='tanh', its tanh approximation."""

    def __init__(self, approximate="none"):
        super().__init__()
        self.approximate = approximate

    def forward(self, x):
        """Computes the result for the given inputs."""
        return F.gelu(x, self.approximate)

    def extra_repr(self):
        """The part of the representation between the parentheses."""
        return f"approximate={self.approximate!r}"


class LeakyReLU(Module):
    """The identity; negative elements are multiplied by `negative_slope`."""

    def __init__(self, negative_slope=0.01, inplace=False):
        super().__init__()
        self.negative_slope = negative_slope

    def forward(self, x):
        """Computes the result for the given inputs."""
        return F.leaky_relu(x, self.negative_slope)

    def extra_repr(self):
        """The part of the representation between the parentheses."""
        return f"negative_slope={self.negative_slope}"


class ELU(Module):
    """The exponential linear unit."""

    def __init__(self, alpha=1.0, inplace=False):
        super().__init__()
        self.alpha = alpha

    def forward(self, x):
        """Computes the result for the given inputs."""
        return F.elu(x, self.alpha)

    def extra_repr(self):
        """The part of the representation between the parentheses."""
        return f"alpha={self.alpha}"


class PReLU(Module):
    """A leaky ReLU with a learned slope."""

    def __init__(self, num_parameters=1, init=0.25, device=None, dtype=None):
        from .. import _pyflame as _pf

        super().__init__()
        self.weight = Parameter(_pf.full((num_parameters,), init, device=device, dtype=dtype or _pf.float32))

    def forward(self, x):
        """Computes the result for the given inputs."""
        return F.prelu(x, self.weight)


class Softplus(Module):
    """The logarithm of one plus the exponential: a smooth ReLU."""

    def __init__(self, beta=1.0, threshold=20.0):
        super().__init__()
        self.beta, self.threshold = beta, threshold

    def forward(self, x):
        """Computes the result for the given inputs."""
        return F.softplus(x, self.beta, self.threshold)


class Softmax(Module):
    """The softmax along an axis."""

    def __init__(self, dim=-1):
        super().__init__()
        self.dim = dim

    def forward(self, x):
        """Computes the result for the given inputs."""
        return F.softmax(x, self.dim)

    def extra_repr(self):
        """The part of the representation between the parentheses."""
        return f"dim={self.dim}"


class LogSoftmax(Module):
    """The logarithm of the softmax along an axis."""

    def __init__(self, dim=-1):
        super().__init__()
        self.dim = dim

    def forward(self, x):
        """Computes the result for the given inputs."""
        return F.log_softmax(x, self.dim)

    def extra_repr(self):
        """The part of the representation between the parentheses."""
        return f"dim={self.dim}"


class _Dropout(Module):
    def __init__(self, p=0.5, inplace=False):
        super().__init__()
        if not 0.0 <= p <= 1.0:
            raise ValueError(f"{type(self).__name__}: p must be between 0 and 1, not {p}")
        self.p = p

    def extra_repr(self):
        """The part of the representation between the parentheses."""
        return f"p={self.p}"


class Dropout(_Dropout):
    """Zeroes elements with probability p while training, and scales the others to keep the mean."""

    def forward(self, x):
        """Computes the result for the given inputs."""
        return F.dropout(x, self.p, self.training)


class Dropout2d(_Dropout):
    """Zeroes whole channels with probability p while training."""

    def forward(self, x):
        """Computes the result for the given inputs."""
        return F.dropout2d(x, self.p, self.training)
