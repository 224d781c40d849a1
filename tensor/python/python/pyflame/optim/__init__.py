"""Optimizers and learning rate schedulers."""

from . import lr_scheduler as lr_scheduler, swa_utils as swa_utils
from .adam import Adam as Adam, AdamW as AdamW
from .lbfgs import LBFGS as LBFGS
from .lr_scheduler import (
    CosineAnnealingLR as CosineAnnealingLR,
    ExponentialLR as ExponentialLR,
    LambdaLR as LambdaLR,
    LinearLR as LinearLR,
    MultiStepLR as MultiStepLR,
    OneCycleLR as OneCycleLR,
    PolynomialLR as PolynomialLR,
    ReduceLROnPlateau as ReduceLROnPlateau,
    StepLR as StepLR,
)
from .optimizer import Optimizer as Optimizer
from .rmsprop import RMSprop as RMSprop
from .sgd import SGD as SGD

__all__ = [name for name in dir() if not name.startswith("_") and name[0].isupper()] + ["lr_scheduler", "swa_utils"]
