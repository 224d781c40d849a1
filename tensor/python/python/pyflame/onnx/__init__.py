"""ONNX models: `model = pyflame.onnx.load("model.onnx")`, then `model(x)`; `pyflame.onnx.export(model, x, "model.onnx")`."""

from .export import export
from .model import Model, Node, load, read
from .operators import OPERATORS
from .wire import ModelError

__all__ = ["OPERATORS", "Model", "ModelError", "Node", "export", "load", "read"]
