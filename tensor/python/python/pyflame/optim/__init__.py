"""Optimizers and learning rate schedulers."""

from . import lr_scheduler, swa_utils
from .adam import Adam, AdamW
from .lbfgs import LBFGS
from .lr_scheduler import (
    CosineAnnealingLR,
    ExponentialLR,
    LambdaLR,
    LinearLR,
    MultiStepLR,
    OneCycleLR,
    PolynomialLR,
    ReduceLROnPlateau,
    StepLR,
)
from .optimizer import Optimizer
from .rmsprop import RMSprop
from .sgd import SGD

__all__ = [name for name in dir() if not name.startswith("_") and name[0].isupper()] + ["lr_scheduler", "swa_utils"]
