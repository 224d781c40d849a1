"""Worker processes of a loader: what runs in them, and what they send."""

from __future__ import annotations

import os
import random
import traceback
from dataclasses import dataclass
from typing import Any, Callable, Optional

from ... import _pyflame as _pf
from .dataset import IterableDataset, as_examples


@dataclass
class WorkerInfo:
    """What a worker knows about itself."""

    id: int
    num_workers: int
    seed: int
    dataset: Any


_info: Optional[WorkerInfo] = None


def get_worker_info() -> Optional[WorkerInfo]:
    """The number of this worker and of all workers, and its copy of the data set; None in the main process."""
    return _info


@dataclass
class Failure:
    """An exception of a worker, with the text of its traceback."""

    error: BaseException
    text: str

    @staticmethod
    def of(error: BaseException, worker: int) -> "Failure":
        """Keeps the exception itself if it can be sent."""
        import pickle

        text = f"in worker process {worker} of a DataLoader:\n{traceback.format_exc()}"
        try:
            pickle.loads(pickle.dumps(error))
        except Exception:  # Any exception class may fail to be pickled, in any way.
            return Failure(RuntimeError(f"{type(error).__name__}: {error}"), text)
        return Failure(error, text)

    def raise_again(self) -> None:
        """Raises the exception, with the worker's traceback as its cause."""
        raise self.error from WorkerError(self.text)


class WorkerError(RuntimeError):
    """The traceback of an exception that was raised in a worker process."""


class Exhausted:
    """An iterable data set has no more examples in this worker."""


def run(
    worker: int, workers: int, dataset: Any, collate: Callable[[Any], Any], batched: bool, drop_last: bool, seed: int,
    start: Optional[Callable[[int], None]], tasks: Any, results: Any,
) -> None:  # fmt: skip
    """Answers tasks `(number, indices)` with `(number, batch)` until a task is None."""
    global _info
    parent = os.getppid()
    # Operations of examples run on the CPU: a GPU belongs to the main process.
    _pf.set_device("cpu")
    _pf.manual_seed(seed + worker)
    random.seed(seed + worker)
    _info = WorkerInfo(worker, workers, seed + worker, dataset)
    failure: Optional[Failure] = None
    iterator: Any = None
    try:
        if start is not None:
            start(worker)
        if isinstance(dataset, IterableDataset):
            iterator = iter(dataset)
    except Exception as error:  # An exception of the program's own code is the main process's business.
        failure = Failure.of(error, worker)
    while True:
        try:
            task = tasks.get(timeout=5.0)
        except Exception:  # queue.Empty: look whether the main process is still there.
            if os.getppid() != parent:
                return
            continue
        if task is None:
            return
        number, indices = task
        answer: Any = failure
        if answer is None:
            try:
                answer = _made(dataset, iterator, indices, collate, batched, drop_last)
            except Exception as error:  # As above.
                answer = Failure.of(error, worker)
        results.put((number, worker, answer))


def _made(dataset: Any, iterator: Any, indices: Any, collate: Callable[[Any], Any], batched: bool, drop_last: bool) -> Any:
    if iterator is None:
        return collate(as_examples(dataset, indices)) if batched else collate(dataset[indices])
    if not batched:
        try:
            return collate(next(iterator))
        except StopIteration:
            return Exhausted()
    examples = []
    for _ in indices:
        try:
            examples.append(next(iterator))
        except StopIteration:
            break
    if not examples or (drop_last and len(examples) < len(indices)):
        return Exhausted()
    return collate(examples)
