"""One mistake per marked line; mypy must find each of them, and no other."""

from typing import Iterator

import pyflame as pf
import pyflame.nn as nn


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3, "2")  # mistake: arg-type
        self.norm = nn.BatchNorm2d(3, epsilon=1e-5)  # mistake: call-arg

    def forward(self, x: pf.Tensor, scale: float = 1.0) -> pf.Tensor:
        return self.linear(x, scale)  # mistake: call-arg


model = Model()
model("text")  # mistake: arg-type
model(pf.ones(2, 3), scale="1")  # mistake: arg-type
number: int = model(pf.ones(2, 3))  # mistake: assignment
names: Iterator[str] = model.parameters()  # mistake: assignment
pf.optim.Adam(model.parameters(), lr="fast")  # mistake: arg-type
pf.optim.SGD(model.parameters(), learning_rate=0.1)  # mistake: call-arg
pf.linalg.svd(pf.ones(2, 2)).sigma  # mistake: attr-defined
nn.functional.softplus(pf.ones(2), beta=1.0).backwards()  # mistake: attr-defined
nn.ModuleList([pf.ones(2)])  # mistake: list-item
