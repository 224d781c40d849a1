"""Trains a small network on scikit-learn's handwritten digits, on one device after another, and compares them.

    python digits.py --model mlp --devices cpu rocm --plot digits.svg

Random numbers are the same on every device, and products are summed in the same order. The losses of two devices therefore differ only by
the rounding of their exponentials and logarithms.
"""

import argparse
import sys
import time

import numpy as np
from sklearn.datasets import load_digits

import pyflame as pf
import pyflame.nn as nn

EPOCHS = {"mlp": 30, "cnn": 12}
BATCH = 64
TRAINED_ON = 1437
INK, FAINT = "#1b1f24", "#d0d7de"
COLOURS = {"cpu": "#0969da", "rocm": "#cf222e"}


def network(model):
    if model == "mlp":
        return nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 64), nn.ReLU(), nn.Linear(64, 10))
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(128, 10),
    )


def data(model):
    """Returns pixels in [0, 1] and classes, always in the same order; the last fifth is the test set."""
    digits = load_digits()
    order = np.random.default_rng(0).permutation(len(digits.target))
    pixels = (digits.images[order] / 16.0).astype(np.float32)
    pixels = pixels.reshape(-1, 64) if model == "mlp" else pixels.reshape(-1, 1, 8, 8)
    return pixels, digits.target[order].astype(np.int64)


def train(model, device, epochs, say):
    """Trains and returns the losses of all steps, the accuracy on the test set and the seconds per step."""
    pf.set_device(device)
    pf.manual_seed(7)
    net = network(model)
    optimizer = pf.optim.Adam(net.parameters(), lr=2e-3)
    pixels, classes = data(model)
    shuffle = np.random.default_rng(1)
    losses, began = [], time.perf_counter()
    for epoch in range(epochs):
        order = shuffle.permutation(TRAINED_ON)
        for begin in range(0, TRAINED_ON - BATCH + 1, BATCH):
            picked = order[begin:begin + BATCH]
            x, y = pf.tensor(pixels[picked]), pf.tensor(classes[picked])
            loss = pf.cross_entropy(net(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        say(f"{model} on {device}, epoch {epoch + 1} of {epochs}: loss {losses[-1]:.4f}")
    seconds = (time.perf_counter() - began) / len(losses)
    net.eval()
    with pf.no_grad():
        answers = net(pf.tensor(pixels[TRAINED_ON:])).argmax(dim=1).numpy()
    return losses, float((answers == classes[TRAINED_ON:]).mean()), seconds


def picture(curves):
    """Draws the loss over steps for every model and device as SVG. Equal curves overlap, so the second is dashed."""
    width, height, left, top = 420, 240, 50, 34
    parts = []
    for place, (model, by_device) in enumerate(curves.items()):
        x0 = left + place * (width + 70)
        parts.append(f'<text x="{x0}" y="20" fill="{INK}" font-weight="600">{model}: loss over steps</text>')
        longest = max(len(losses) for losses in by_device.values())
        low, high = -4, 1
        for power in range(low, high + 1):
            y = top + height * (high - power) / (high - low)
            parts.append(f'<line x1="{x0}" x2="{x0 + width}" y1="{y:.1f}" y2="{y:.1f}" stroke="{FAINT}"/>')
            parts.append(f'<text x="{x0 - 8}" y="{y + 4:.1f}" text-anchor="end" fill="{INK}">1e{power}</text>')
        for number, (device, losses) in enumerate(by_device.items()):
            points = " ".join(
                f"{x0 + width * step / longest:.1f},"
                f"{top + height * (high - min(max(np.log10(max(loss, 1e-9)), low), high)) / (high - low):.1f}"
                for step, loss in enumerate(losses))
            dash = ' stroke-dasharray="5 5"' if number else ""
            colour = COLOURS.get(device.split(":")[0], INK)
            parts.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="1.4"{dash}/>')
            parts.append(f'<text x="{x0 + width - 60}" y="{top + 18 + 18 * number}" fill="{colour}">{device}</text>')
    whole = left + len(curves) * (width + 70)
    return (f'<svg xmlns="http://www.w3.org/2000/svg" width="{whole}" height="{top + height + 20}" '
            f'font-family="system-ui, sans-serif" font-size="13"><rect width="100%" height="100%" fill="#fff"/>'
            + "".join(parts) + "</svg>\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", nargs="+", choices=sorted(EPOCHS), default=sorted(EPOCHS))
    parser.add_argument("--devices", nargs="+", default=["cpu", "rocm"])
    parser.add_argument("--epochs", type=int, help="number of epochs [default: enough for an accuracy of 97 %%]")
    parser.add_argument("--plot", metavar="FILE", help="write the losses as an SVG picture")
    parser.add_argument("--quiet", action="store_true")
    arguments = parser.parse_args()
    say = (lambda line: None) if arguments.quiet else lambda line: print(line, file=sys.stderr)
    curves, good = {}, True
    for model in arguments.model:
        curves[model] = {}
        for device in arguments.devices:
            losses, accuracy, seconds = train(model, device, arguments.epochs or EPOCHS[model], say)
            curves[model][device] = losses
            print(f"{model} on {device}: {100 * accuracy:.2f} % accuracy on the test set, {1000 * seconds:.2f} ms per step")
            good &= accuracy >= 0.97 or arguments.epochs is not None
        first, *others = curves[model].values()
        for device, losses in zip(arguments.devices[1:], others):
            apart = max(abs(a - b) / max(abs(a), 1e-3) for a, b in zip(first, losses))
            print(f"{model}: losses on {arguments.devices[0]} and {device} differ by at most {apart:.1e} of the loss")
    if arguments.plot:
        with open(arguments.plot, "w", encoding="utf-8") as file:
            file.write(picture(curves))
    if not good:
        print("the accuracy is below 97 %", file=sys.stderr)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
