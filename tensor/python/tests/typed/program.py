"""A program as a user would write it; `mypy --strict` must find no error in it."""

import io
import tempfile
from pathlib import Path
from typing import Iterator, List, Tuple

import pyflame as pf
import pyflame.nn as nn
import pyflame.nn.functional as F
from pyflame import Tensor
from pyflame.optim.lr_scheduler import CosineAnnealingLR
from pyflame.utils.data import DataLoader, Dataset, TensorDataset, random_split


class Squares(Dataset[Tuple[Tensor, Tensor]]):
    def __len__(self) -> int:
        return 64

    def __getitem__(self, index: int) -> Tuple[Tensor, Tensor]:
        return pf.tensor([float(index), 1.0]), pf.tensor(index % 2)


class Block(nn.Module):
    def __init__(self, width: int, p: float = 0.1) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.linear = nn.Linear(width, width)
        self.act = nn.ReLU()
        self.dropout = nn.Dropout(p)
        self.scale = nn.Parameter(pf.ones(width))

    def forward(self, x: Tensor) -> Tensor:
        return x + self.dropout(self.act(self.linear(self.norm(x)))) * self.scale


class Classifier(nn.Module):
    def __init__(self, width: int, classes: int, depth: int = 2) -> None:
        super().__init__()
        self.first = nn.Linear(2, width)
        self.blocks = nn.ModuleList([Block(width) for _ in range(depth)])
        self.head = nn.Sequential(nn.Linear(width, width), nn.GELU(), nn.Linear(width, classes))

    def forward(self, x: Tensor) -> Tensor:
        x = F.relu(self.first(x))
        for block in self.blocks:
            x = block(x)
        return self.head(x)


def train(model: nn.Module, loader: DataLoader, optimizer: pf.optim.Optimizer, epochs: int) -> List[float]:
    scheduler = CosineAnnealingLR(optimizer, T_max=epochs)
    criterion = nn.CrossEntropyLoss(label_smoothing=0.1)
    losses: List[float] = []
    model.train()
    for _ in range(epochs):
        for x, target in loader:
            optimizer.zero_grad()
            loss = criterion(model(x), target)
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            losses.append(float(loss.item()))
        scheduler.step()
    return losses


def widths(model: nn.Module) -> Iterator[Tuple[str, int]]:
    for name, parameter in model.named_parameters():
        yield name, parameter.nelement()


def main() -> None:
    pf.manual_seed(0)
    train_set, test_set = random_split(Squares(), [0.75, 0.25])
    model = Classifier(16, 2).to("cpu")
    logits: Tensor = model(pf.randn(4, 2))
    optimizer = pf.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.01)
    losses = train(model, DataLoader(train_set, batch_size=16, shuffle=True), optimizer, 2)
    assert all(loss == loss for loss in losses) and logits.shape == (4, 2)
    other = TensorDataset(pf.randn(8, 2), pf.randint(0, 2, (8,)))
    with pf.no_grad():
        model.eval()
        guesses = pf.cat([model(x).argmax(1) for x, _ in DataLoader(other, batch_size=4)])
    assert guesses.shape[0] == len(other)
    factors = pf.linalg.qr(pf.randn(3, 3))
    assert pf.allclose(factors.Q @ factors.R, factors.Q.matmul(factors.R))
    spectrum = pf.fft.rfft(pf.randn(8))
    assert spectrum.is_complex() and F.softmax(logits, dim=-1).shape == logits.shape
    assert sum(count for _, count in widths(model)) > 0 and len(test_set) == 16
    with tempfile.TemporaryDirectory() as folder:
        for path in (Path(folder) / "model.pt", f"{folder}/model.safetensors"):
            pf.save(model.state_dict(), path)
            missing, unexpected = model.load_state_dict(pf.load(path, map_location="cpu"))
            assert not missing and not unexpected
    file = io.BytesIO()
    pf.save({"epoch": 1}, file)
    file.seek(0)
    assert pf.load(file) == {"epoch": 1}


if __name__ == "__main__":
    main()
