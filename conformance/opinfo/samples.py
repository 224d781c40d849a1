"""Runs the samples of torch's OpInfo database with torch and with pyflame and counts what agrees.

Prints one line per case on standard output: `NAME<tab>passed|failed|not ours<tab>why`. A case is the values of one sample in one
element type (`add float32 3`), its gradients (`add float32 3 gradient`), or an input that torch rejects (`add error 0`). An entry of
the database that is not in the table `operators.OPERATORS` is one case, which is "not ours" (not supported). Programs that write
through views (`views.py`) are further cases (`views rows`).

Every operator runs in a separate process, so that a crash or a hang is one failed case.
"""

import argparse
import cmath
import itertools
import math
import os
import signal
import sys
import warnings

import torch
from torch.testing._comparison import default_tolerances
from torch.testing._internal.common_device_type import toleranceOverride
from torch.testing._internal.common_methods_invocations import op_db

import pyflame as pf
import views
from operators import OPERATORS, TYPES, Chosen, NotOurs, Unpredictable, convert

FRACTIONS = (torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.complex64)

# The number of tensors whose kernels are compiled at once.
TOGETHER = 48

# Exceptions that count as a rejected input. Anything else, and a process that dies, is a failure.
REFUSALS = (RuntimeError, ValueError, IndexError, TypeError)


def name_of(op):
    return f"{op.name}.{op.variant_test_name}" if op.variant_test_name else op.name


# Results.

def flat(value):
    """The tensors and numbers of a result, in order."""
    if isinstance(value, (torch.Tensor, pf.Tensor)) or not hasattr(value, "__iter__"):
        return [value]
    return [leaf for part in value for leaf in flat(part)]


def as_torch(value):
    if not isinstance(value, pf.Tensor):
        return value
    name, shape, data, _ = value.to_parts()
    if name not in TYPES.values():
        raise AssertionError(f"type {name}, which torch does not have")
    dtype = next(dtype for dtype, own in TYPES.items() if own == name)
    if not data:
        return torch.empty(shape, dtype=dtype)
    return torch.frombuffer(bytearray(data), dtype=dtype).reshape(shape)


def tolerance_of(op, dtype):
    """torch's tolerance for a type, or the database's for this operator if that is larger."""
    if dtype not in FRACTIONS:
        return {}
    rtol, atol = default_tolerances(dtype)
    for info in op.decorators:
        if not hasattr(info, "is_active") or info.cls_name not in (None, "TestCommon", "TestUnaryUfuncs", "TestReductions"):
            continue
        if not info.active_if or info.device_type not in (None, "cpu") or (info.dtypes is not None and dtype not in info.dtypes):
            continue
        for decorator in info.decorators:
            if isinstance(decorator, toleranceOverride) and dtype in decorator.d:
                rtol, atol = max(rtol, decorator.d[dtype].rtol), max(atol, decorator.d[dtype].atol)
    return {"rtol": rtol, "atol": atol}


# Notes about the current case, reported even if it passes.
notes = []


def compare(found, expected, tolerance, only_form=False, exact=None):
    found, expected = flat(found), flat(expected)
    if len(found) != len(expected):
        raise AssertionError(f"got {len(found)} results, expected {len(expected)}")
    for number, (got, want) in enumerate(zip(found, expected)):
        if not isinstance(want, torch.Tensor):
            if want is None and got is None:
                continue
            if not isinstance(got, type(want)) or (got != want and not cmath.isclose(got, want, rel_tol=1e-6)):
                raise AssertionError(f"got {got!r}, expected {want!r}")
            continue
        if want.dtype not in TYPES:
            raise NotOurs(f"a result of type {want.dtype}")
        got, want = as_torch(got), want.detach().resolve_conj().resolve_neg()
        if not isinstance(got, torch.Tensor):
            raise AssertionError(f"got {got!r}, expected a tensor")
        if only_form:
            got = torch.zeros(()).expand(got.shape).to(got.dtype)
            want = torch.zeros(()).expand(want.shape).to(want.dtype)
        bounds = tolerance if tolerance and want.dtype in FRACTIONS else {}
        try:
            torch.testing.assert_close(got, want, equal_nan=True, check_device=False, check_stride=False, **bounds)
        except AssertionError as error:
            why = f"result {number}: {error}" if len(expected) > 1 else str(error)
            if exact is None or not as_exact(got, want, exact(), number, len(expected)):
                raise AssertionError(why) from None
            notes.append("at least as near to torch's answer in float64 as torch's own")


def as_exact(got, want, truth, number, count):
    """Whether our largest deviation from torch's float64 result is at most torch's own."""
    truth = flat(truth) if truth is not None else []
    if want.dtype not in FRACTIONS or got.dtype != want.dtype or got.shape != want.shape or len(truth) != count:
        return False
    wide = torch.complex128 if want.dtype is torch.complex64 else torch.float64
    truth = truth[number].detach().resolve_conj().resolve_neg().to(want.dtype).to(wide)
    if truth.shape != want.shape:
        return False
    # Non-finite values must match exactly.
    finite = torch.isfinite(truth)
    plain = all(str(a) == str(b) for a, b in zip(got.to(wide)[~finite].tolist(), truth[~finite].tolist()))
    ours, theirs = [(answer.to(wide) - truth).abs()[finite] for answer in (got, want)]
    theirs = torch.nan_to_num(theirs, nan=math.inf)
    return plain and (not ours.numel() or bool((ours.max() <= theirs.max()).item()))


# Cases.

def differentiable(value):
    return isinstance(value, torch.Tensor) and value.requires_grad


def weighted(value, ones):
    """A weighted sum in which no two elements have the same weight, so that a wrong position in the gradient shows."""
    count = 1
    for length in value.shape:
        count *= length
    weights = torch.cos(torch.arange(count, dtype=torch.float64)).to(torch.float32).reshape(tuple(value.shape))
    return (value * ones(weights).to(value.dtype)).sum()


def mapped(value, function):
    """Applies a function to the leaves of a structure."""
    if isinstance(value, dict):
        return {name: mapped(part, function) for name, part in value.items()}
    if isinstance(value, (list, tuple)) and not isinstance(value, torch.Size):
        return type(value)(mapped(part, function) for part in value)
    return function(value)


class Sample:
    """One sample of an operator, and its conversion to pyflame."""

    def __init__(self, op, function, sample, dtype):
        self.op, self.function, self.sample, self.dtype = op, function, sample, dtype
        self.leaves = []
        self.arguments = convert((sample.input, *sample.args), self.leaves)
        self.named = convert(dict(sample.kwargs), self.leaves)

    def expected(self):
        try:
            return self.op(self.sample.input, *self.sample.args, **self.sample.kwargs)
        except REFUSALS as error:
            raise NotOurs("torch rejects its own sample") from error

    def begun(self):
        """Records pyflame's values and gradients, without computing them yet."""
        with pf.no_grad():
            tensors = flat(self.function(*self.arguments, **self.named))
        if self.leaves:
            found = flat(self.sample.output_process_fn_grad(self.function(*self.arguments, **self.named)))
            total = sum(weighted(value, convert) for value in found if isinstance(value, pf.Tensor) and value.requires_grad)
            tensors += pf.autograd.grad(total, [ours for _, ours in self.leaves], allow_unused=True) if isinstance(total, pf.Tensor) else []
        return [tensor for tensor in tensors if isinstance(tensor, pf.Tensor)]

    def values(self):
        with torch.no_grad():
            expected = self.expected()
        with pf.no_grad():
            found = self.function(*self.arguments, **self.named)
            if isinstance(self.function, Chosen):
                return self.chosen(found, expected)
        compare(found, expected, tolerance_of(self.op, self.dtype), isinstance(self.function, Unpredictable), self.exact)

    def chosen(self, found, expected):
        """Equal elements may come in any order, unless the order must be stable."""
        if self.named.get("stable"):
            return compare(found, expected, None)
        place = 1 if self.op.name == "topk" else 0
        dim = self.named.get("dim", self.arguments[place + 1] if len(self.arguments) > place + 1 else -1)
        found, expected = flat(found), flat(expected)
        found = found[:-1] + self.function.picked(self.arguments[0], found[-1], dim)
        expected = expected[:-1] + self.function.picked(self.sample.input.detach(), expected[-1], dim)
        compare(found, expected, None)

    def widened(self):
        """The same sample in float64."""
        def wide(value):
            if isinstance(value, torch.Tensor):
                kind = torch.complex128 if value.is_complex() else torch.float64
                return value.detach().to(kind).requires_grad_(value.requires_grad) if value.dtype in FRACTIONS else value
            return torch.float64 if value in FRACTIONS[:4] else torch.complex128 if value is torch.complex64 else value
        return self.sample.transform(wide)

    def exact(self):
        """torch's result in float64, if it has one."""
        try:
            with torch.no_grad():
                sample = self.widened()
                return self.op(sample.input, *sample.args, **sample.kwargs)
        except REFUSALS:
            return None

    def gradient(self):
        chosen = self.sample.output_process_fn_grad
        expected = flat(chosen(self.expected()))
        found = flat(chosen(self.function(*self.arguments, **self.named)))
        places = [place for place, value in enumerate(expected) if differentiable(value)]
        if not places or not self.leaves:
            raise NotOurs("torch has no gradient for it")
        if isinstance(self.function, Unpredictable):
            raise NotOurs("the gradient of a random operation")
        theirs, ours = zip(*self.leaves)
        total = sum(weighted(expected[place], lambda weights: weights) for place in places)
        wanted = torch.autograd.grad(total, theirs, allow_unused=True)
        total = sum(weighted(found[place], lambda weights: convert(weights)) for place in places)
        got = pf.autograd.grad(total, ours, allow_unused=True) if total.requires_grad else [None] * len(ours)
        tolerance = tolerance_of(self.op, self.dtype)
        for place, (leaf, mine, want) in enumerate(zip(theirs, got, wanted)):
            want = torch.zeros_like(leaf) if want is None else want
            mine = convert(torch.zeros_like(leaf).contiguous()) if mine is None else mine
            compare(mine, want, tolerance, exact=lambda: self.exact_gradient(place, places))

    def exact_gradient(self, place, places):
        """One of torch's gradients in float64."""
        leaves = []

        def wide(value):
            if isinstance(value, torch.Tensor) and value.dtype in FRACTIONS:
                value, wants = value.detach().to(torch.float64), value.requires_grad
                if wants:
                    leaves.append(value.requires_grad_())
            return value
        # Numbered as in `convert`.
        arguments = mapped((self.sample.input, *self.sample.args), wide)
        named = mapped(dict(self.sample.kwargs), wide)
        expected = flat(self.sample.output_process_fn_grad(self.op(*arguments, **named)))
        total = sum(weighted(expected[at], lambda weights: weights) for at in places)
        return torch.autograd.grad(total, leaves, allow_unused=True)[place]

    def refusal(self):
        try:
            found = self.function(*self.arguments, **self.named)
            for value in flat(found):
                as_torch(value)
        except REFUSALS:
            return
        raise AssertionError("not refused")


def types_of(op, device, wanted):
    for dtype, name in TYPES.items():
        if dtype in op.dtypes and (not wanted or name in wanted) and (device == "cpu" or name == "float32"):
            yield dtype, name


def cases(op, device, wanted, most):
    """Yields names and functions of the cases, the same in the same order every time; at most `most` samples of each type."""
    if op is Views:
        yield from Views.cases()
        return
    name, function = name_of(op), OPERATORS[name_of(op)]
    for _, of_type in itertools.groupby(samples(op, device, wanted, most), lambda it: it[1]):
        for number, (sample, dtype, own, graded) in enumerate(of_type):
            yield f"{name} {own} {number}", lambda: Sample(op, function, sample, dtype).values()
            if graded:
                yield f"{name} {own} {number} gradient", lambda: Sample(op, function, sample, dtype).gradient()
    if op.error_inputs_func is not None:
        torch.manual_seed(0)
        for number, wrong in enumerate(op.error_inputs("cpu")):
            yield f"{name} error {number}", lambda: Sample(op, function, wrong.sample_input, None).refusal()


def samples(op, device, wanted, most):
    """Yields samples with their element types and whether they have gradients."""
    for dtype, own in types_of(op, device, wanted):
        graded = op.supports_autograd and dtype in (torch.float32, torch.float64)
        torch.manual_seed(0)
        for sample in itertools.islice(op.sample_inputs("cpu", dtype, requires_grad=graded), most):
            yield sample, dtype, own, graded


def prepare(op, arguments):
    """Compiles the kernels of all samples, many at a time, which is faster than one by one. Errors here recur in their cases."""
    begun = []

    def compile_begun():
        try:
            pf.eval(begun)
        except REFUSALS:
            pass
        begun.clear()

    if op is Views or isinstance(OPERATORS[name_of(op)], Unpredictable):
        return
    function = OPERATORS[name_of(op)]
    for sample, dtype, _, _ in samples(op, arguments.device, arguments.types, arguments.samples):
        try:
            begun += Sample(op, function, sample, dtype).begun()
        except BaseException:
            continue
        if len(begun) >= TOGETHER:
            compile_begun()
    compile_begun()


def verdict(case):
    notes.clear()
    try:
        case()
    except NotOurs as missing:
        return "not ours", str(missing)
    except BaseException as error:  # Any exception, even a panic of the library, fails this case only; the next one still runs.
        return "failed", f"{type(error).__name__}: {' '.join(str(error).split())[:400]}"
    return "passed", notes[0] if notes else ""


# Processes.

def compute(op, arguments, first, prepared, out):
    """Runs in a separate process: the cases from a number on. A case that takes too long kills it."""
    pf.set_device(arguments.device)
    if prepared:
        signal.alarm(10 * arguments.limit)
        prepare(op, arguments)
    for number, (name, case) in enumerate(cases(op, arguments.device, arguments.types, arguments.samples)):
        if number < first:
            continue
        out.write(f"{name}\n")
        out.flush()
        signal.alarm(arguments.limit)
        out.write("\t".join(verdict(case)) + "\n")
        signal.alarm(0)
    out.flush()


class Views:
    """Programs that write through views, in place of an entry of the database."""

    name, variant_test_name = "views", ""

    @staticmethod
    def inputs():
        torch.manual_seed(0)
        theirs = [torch.randn(3, 4).requires_grad_(), torch.randn(4).requires_grad_()]
        return theirs, [convert(x.detach().clone()).requires_grad_() for x in theirs]

    @staticmethod
    def agrees(program):
        theirs, ours = Views.inputs()
        expected, found = program(torch, *theirs), program(pf, *ours)
        compare(found, expected, {"rtol": 1e-5, "atol": 1e-6})
        wanted = torch.autograd.grad(weighted(expected, lambda weights: weights), theirs, allow_unused=True)
        got = pf.autograd.grad(weighted(found, convert), ours, allow_unused=True)
        for leaf, mine, want in zip(theirs, got, wanted):
            want = torch.zeros_like(leaf) if want is None else want
            compare(convert(torch.zeros_like(leaf)) if mine is None else mine, want, {"rtol": 1e-5, "atol": 1e-6})

    @staticmethod
    def refused(program):
        theirs, ours = Views.inputs()
        for lib, inputs in ((torch, theirs), (pf, ours)):
            try:
                program(lib, *inputs)
            except RuntimeError:
                continue
            raise AssertionError(f"{lib.__name__} did not refuse it")

    @staticmethod
    def cases():
        for name, program in views.PROGRAMS.items():
            yield f"views {name}", lambda: Views.agrees(program)
        for name, program in views.REFUSED.items():
            yield f"views error {name}", lambda: Views.refused(program)


def tell(*words):
    """Prints a line in one write: several processes print at the same time."""
    os.write(sys.stdout.fileno(), ("\t".join(words) + "\n").encode())


def supervise(op, arguments):
    """Reports the result of every case, and restarts after a case that killed its process."""
    first = 0
    prepared = arguments.device != "cpu"
    while True:
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(reader)
            code = 1
            try:
                with os.fdopen(writer, "w") as out:
                    compute(op, arguments, first, prepared, out)
                code = 0
            finally:
                os._exit(code)
        os.close(writer)
        name = None
        with os.fdopen(reader) as lines:
            for line in lines:
                line = line.rstrip("\n")
                if name is None:
                    name = line
                    first += 1
                else:
                    tell(name, line)
                    name = None
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        if status == 0:
            return
        if prepared and first == 0:
            # The error recurs in one of the cases.
            prepared = False
            continue
        prepared = False
        if name is None:
            tell(f"{name_of(op)} samples", "failed", f"the process exited ({status}) between two cases")
            return
        why = f"not done after {arguments.limit} s" if status == -signal.SIGALRM else f"the process died ({status})"
        tell(name, "failed", why)


def side_by_side(ops, arguments):
    """Runs several operators at a time. Each lane takes the next number from a pipe."""
    numbers, writer = os.pipe()
    for number in range(len(ops)):
        os.write(writer, number.to_bytes(2, "little"))
    os.close(writer)
    lanes = []
    for _ in range(arguments.lanes):
        lane = os.fork()
        if lane == 0:
            code = 1
            try:
                while number := os.read(numbers, 2):
                    supervise(ops[int.from_bytes(number, "little")], arguments)
                code = 0
            finally:
                os._exit(code)
        lanes.append(lane)
    if any([os.waitpid(lane, 0)[1] for lane in lanes]):
        sys.exit("a lane did not finish")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--filter", default="", help="only entries whose name contains this; `=NAME` selects that entry")
    parser.add_argument("--types", default="", help="only these element types, separated by commas")
    parser.add_argument("--samples", type=int, help="only the first few samples of each entry and type")
    parser.add_argument("--lanes", type=int, default=os.cpu_count(), help="number of operators that run in parallel")
    parser.add_argument("--limit", type=int, default=120, help="time limit of a case, in seconds")
    arguments = parser.parse_args()
    arguments.types = [name for name in arguments.types.split(",") if name]
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    unknown = OPERATORS.keys() - {name_of(op) for op in op_db}
    if unknown:
        sys.exit(f"the table has entries that the database lacks: {', '.join(sorted(unknown))}")
    chosen = []
    for op in [Views, *op_db]:
        name = name_of(op)
        if not (name == arguments.filter[1:] if arguments.filter.startswith("=") else arguments.filter in name):
            continue
        if op is Views or name in OPERATORS:
            chosen.append(op)
        else:
            tell(name, "not ours", f"no operation {op.name}")
    side_by_side(chosen, arguments)


if __name__ == "__main__":
    main()
