"""Runs model definitions of torchvision and transformers with torch and with pyflame, and compares outputs and gradients.

`models.py FOLDER --device DEVICE`: the folder has the packages' sources. Prints one line for each model:
`NAME<tab>passed|failed<tab>what differs most`.
"""

import argparse
import itertools
import sys
import warnings

import numpy as np
import torch

import pyflame as pf
import sources

# The largest difference from torch in float64, relative to the largest element of a tensor; for gradients in float32 relative to
# the norm.
TOLERANCES = {"float64": 1e-9, "float32": 1e-4}
# A sum that float32 rounds to the other side of zero before a ReLU switches a gradient on or off; float64 shows that this is all.
GRADIENTS = {"resnet50": 0.2, "vit": 1e-4, "gpt2": 1e-4}


def resnet50(folder, library):
    """A ResNet-50 with its depth of 16 blocks and a quarter of its width."""
    module = sources.torchvision(folder, library, "resnet")
    return module.ResNet(module.Bottleneck, [3, 4, 6, 3], num_classes=10, width_per_group=16)


def vit(folder, library):
    """A ViT with four layers."""
    module = sources.torchvision(folder, library, "vision_transformer")
    return module.VisionTransformer(
        image_size=64, patch_size=16, num_layers=4, num_heads=4, hidden_dim=48, mlp_dim=96, num_classes=10, dropout=0.0
    )


def gpt2(folder, library):
    """A GPT-2 with two layers."""
    module = sources.gpt2(folder, library)
    return module.GPT2LMHeadModel(sources.Config(vocab_size=97, n_positions=32, n_embd=48, n_layer=2, n_head=4))


def image_loss(library, model, images, classes):
    logits = model(images)
    return logits, library.nn.functional.cross_entropy(logits, classes)


def text_loss(library, model, numbers, _):
    made = model(numbers, labels=numbers)
    return made.logits, made.loss


def images(generator):
    return generator.standard_normal((4, 3, 64, 64)).astype(np.float32), generator.integers(0, 10, 4)


def texts(generator):
    return generator.integers(0, 97, (2, 24)), np.zeros(1, np.int64)


MODELS = {
    "resnet50": (resnet50, images, image_loss),
    "vit": (vit, images, image_loss),
    "gpt2": (gpt2, texts, text_loss),
}


def weights_of(model, generator):
    """One array for each parameter and buffer, of the size that initialisation would give."""
    made = {}
    for name, tensor in model.state_dict().items():
        shape, kind = tuple(tensor.shape), tensor.dtype
        if not kind.is_floating_point:
            made[name] = tensor.numpy()
        elif "running_var" in name or (name.endswith("weight") and len(shape) == 1):
            made[name] = (1 + 0.1 * generator.random(shape)).astype(np.float32)
        elif len(shape) < 2:
            made[name] = (0.1 * generator.standard_normal(shape)).astype(np.float32)
        else:
            scale = 1 / np.sqrt(np.prod(shape[1:]))
            made[name] = (scale * generator.standard_normal(shape)).astype(np.float32)
    return made


def gradients_of(model):
    return {name: parameter.grad for name, parameter in model.named_parameters() if parameter.grad is not None}


def difference(found, wanted):
    scale = float(np.abs(wanted).max()) if wanted.size else 0.0
    return float(np.abs(found.astype(np.float64) - wanted).max()) / max(scale, 1e-6) if wanted.size else 0.0


def apart(found, wanted):
    """The difference relative to the norm."""
    return float(np.linalg.norm(found.astype(np.float64) - wanted)) / max(float(np.linalg.norm(wanted)), 1e-6)


def compared(name, folder, dtype):
    """The number of tensors, the largest difference and where it is, and the tensors that differ too much."""
    build, _, _ = MODELS[name]
    weights = weights_of(build(folder, "torch"), np.random.default_rng(0))
    wanted = results(name, torch, build(folder, "torch").double(), weights, np.float64)
    found = results(name, pf, build(folder, "pyflame").to(getattr(pf, dtype)), weights, np.dtype(dtype))
    if found.keys() != wanted.keys():
        raise AssertionError(f"other gradients than torch: {sorted(found.keys() ^ wanted.keys())}")
    for key, value in wanted.items():
        if found[key].shape != value.shape:
            raise AssertionError(f"{key} has the shape {found[key].shape}, not {value.shape}")
    differences, wrong = {}, []
    for key, value in wanted.items():
        loose = dtype == "float32" and key.startswith("gradient")
        differences[key] = (apart if loose else difference)(found[key], value)
        if not differences[key] <= (GRADIENTS[name] if loose else TOLERANCES[dtype]):
            wrong.append(key)
    worst = max(differences, key=differences.get)
    return len(differences), differences[worst], worst, wrong


def results(name, library, model, weights, dtype):
    """Output, loss, the gradients of all parameters, and the running statistics after one step."""
    _, data, loss_of = MODELS[name]
    inputs, classes = data(np.random.default_rng(1))
    keys = model.load_state_dict({key: library.tensor(value) for key, value in weights.items()})
    assert not keys.missing_keys and not keys.unexpected_keys
    inputs = inputs.astype(dtype) if inputs.dtype == np.float32 else inputs
    logits, loss = loss_of(library, model, library.tensor(inputs), library.tensor(classes))
    loss.backward()
    made = {"logits": logits.detach().numpy(), "loss": loss.detach().numpy()}
    made.update((f"gradient of {key}", value.numpy()) for key, value in gradients_of(model).items())
    made.update((key, value.numpy()) for key, value in model.state_dict().items() if "running" in key)
    return made


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--filter", default="", help="only models whose name contains this")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    # Pure Python packages that the definitions import.
    sys.path.append(arguments.folder)
    failed = 0
    pf.set_device(arguments.device)
    for name, dtype in itertools.product(MODELS, TOLERANCES):
        if arguments.filter not in name:
            continue
        try:
            count, worst, where, wrong = compared(name, arguments.folder, dtype)
            verdict = "failed" if wrong else "passed"
            note = f"{count} tensors, largest difference {worst:.1e} ({where})"
            if wrong:
                note += f"; too different: {', '.join(wrong[:5])}"
        except Exception as error:  # Any exception fails this model only; the next one still runs.
            if arguments.filter:
                raise
            verdict, note = "failed", f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"
        failed += verdict == "failed"
        print(f"{name} {dtype}", verdict, note, sep="\t", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
