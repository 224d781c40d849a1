"""Loaders: batches of a data set, made ahead by worker processes."""

from __future__ import annotations

import itertools
import multiprocessing
import queue
import threading
from typing import Any, Callable, Dict, Iterator, List, Optional

from ... import _pyflame as _pf
from ..._pyflame import Generator
from . import worker as _worker
from .collate import default_collate, default_convert, on_device
from .dataset import IterableDataset, as_examples
from .sampler import BatchSampler, RandomSampler, SequentialSampler


class DataLoader:
    """Iterates over batches of a data set.

    With `num_workers`, that many processes make batches ahead, `prefetch_factor` each; batches come in the same order as without.
    With `pin_memory`, a thread uploads the tensors of the next batches to the current GPU, through pinned memory, while the program
    computes. An exception in a worker is raised here; its cause is the worker's traceback.
    """

    def __init__(
        self, dataset: Any, batch_size: Optional[int] = 1, shuffle: Optional[bool] = None, sampler: Any = None,
        batch_sampler: Any = None, num_workers: int = 0, collate_fn: Optional[Callable[[Any], Any]] = None, pin_memory: bool = False,
        drop_last: bool = False, timeout: float = 0, worker_init_fn: Optional[Callable[[int], None]] = None,
        multiprocessing_context: Any = None, generator: Optional[Generator] = None, *, prefetch_factor: Optional[int] = None,
        persistent_workers: bool = False, pin_memory_device: str = "",
    ) -> None:  # fmt: skip
        iterable = isinstance(dataset, IterableDataset)
        if num_workers < 0:
            raise ValueError(f"DataLoader: num_workers must not be negative, not {num_workers}")
        if num_workers == 0 and (prefetch_factor is not None or persistent_workers or timeout):
            raise ValueError("DataLoader: prefetch_factor, persistent_workers and timeout need num_workers")
        if iterable and (shuffle or sampler is not None or batch_sampler is not None):
            raise ValueError("DataLoader: an iterable data set has its own order; shuffle and samplers do not apply")
        if sampler is not None and shuffle:
            raise ValueError("DataLoader: pass either sampler or shuffle")
        if batch_sampler is not None and (batch_size != 1 or shuffle or sampler is not None or drop_last):
            raise ValueError("DataLoader: batch_sampler replaces batch_size, shuffle, sampler and drop_last")
        if batch_size is None and drop_last:
            raise ValueError("DataLoader: drop_last needs a batch_size")
        self.dataset, self.batch_size, self.num_workers, self.drop_last = dataset, batch_size, num_workers, drop_last
        self.pin_memory, self.pin_memory_device, self.timeout = pin_memory, pin_memory_device, timeout
        self.worker_init_fn, self.generator = worker_init_fn, generator
        self.prefetch_factor = 2 if prefetch_factor is None else prefetch_factor
        if self.prefetch_factor < 1:
            raise ValueError(f"DataLoader: prefetch_factor must be at least 1, not {prefetch_factor}")
        self.persistent_workers = persistent_workers
        if isinstance(multiprocessing_context, str):
            multiprocessing_context = multiprocessing.get_context(multiprocessing_context)
        self.multiprocessing_context = multiprocessing_context
        if sampler is None and not iterable:
            sampler = RandomSampler(dataset, generator=generator) if shuffle else SequentialSampler(dataset)
        self.sampler = sampler
        if batch_sampler is None and batch_size is not None and not iterable:
            batch_sampler = BatchSampler(sampler, batch_size, drop_last)
        elif batch_sampler is not None:
            self.batch_size = None
        self.batch_sampler = batch_sampler
        self.batched = batch_size is not None
        self.collate_fn = collate_fn or (default_collate if self.batched else default_convert)
        self._kept: Optional[_Pool] = None

    def __len__(self) -> int:
        if not isinstance(self.dataset, IterableDataset):
            return len(self.batch_sampler if self.batched else self.sampler)
        size = len(self.dataset)  # type: ignore[arg-type]
        if self.batch_size is None:
            return size
        return size // self.batch_size if self.drop_last else -(-size // self.batch_size)

    def _order(self) -> Iterator[Any]:
        """What each batch is made of: numbers of examples."""
        if isinstance(self.dataset, IterableDataset):
            return itertools.repeat(range(self.batch_size) if self.batch_size is not None else None)
        return iter(self.batch_sampler if self.batched else self.sampler)

    def __iter__(self) -> Iterator[Any]:
        batches = self._from_workers() if self.num_workers else self._here()
        if not self.pin_memory:
            return batches
        device = self.pin_memory_device or _pf.get_device()
        # On the CPU there is nothing to upload.
        return batches if device == "cpu" else _ahead(batches, device)

    def _here(self) -> Iterator[Any]:
        if not isinstance(self.dataset, IterableDataset):
            for indices in self._order():
                yield self.collate_fn(as_examples(self.dataset, indices) if self.batched else self.dataset[indices])
            return
        examples = iter(self.dataset)
        if self.batch_size is None:
            for example in examples:
                yield self.collate_fn(example)
            return
        while True:
            batch = list(itertools.islice(examples, self.batch_size))
            if not batch or (self.drop_last and len(batch) < self.batch_size):
                return
            yield self.collate_fn(batch)

    def _from_workers(self) -> Iterator[Any]:
        pool = self._kept if self._kept is not None and self._kept.alive else _Pool(self)
        self._kept = pool if self.persistent_workers else None
        try:
            yield from pool.batches(self)
        finally:
            if not self.persistent_workers or not pool.finished:
                pool.stop()


class _Pool:
    """The worker processes of one pass over a data set, or of several."""

    def __init__(self, loader: DataLoader) -> None:
        context = loader.multiprocessing_context or multiprocessing.get_context()
        drawn = _pf.randint(0, 1 << 62, (1,), device="cpu", generator=loader.generator)
        seed = int(drawn.item())
        self.results = context.Queue()
        self.tasks: List[Any] = []
        self.processes: List[Any] = []
        self.alive, self.finished = True, True
        for number in range(loader.num_workers):
            tasks = context.Queue()
            process = context.Process(
                target=_worker.run, daemon=True, name=f"pyflame loader {number}",
                args=(
                    number, loader.num_workers, loader.dataset, loader.collate_fn, loader.batched, loader.drop_last, seed,
                    loader.worker_init_fn, tasks, self.results,
                ),
            )  # fmt: skip
            process.start()
            self.tasks.append(tasks)
            self.processes.append(process)

    def batches(self, loader: DataLoader) -> Iterator[Any]:
        """The batches of one pass, in order."""
        order, sent, wanted = loader._order(), 0, 0
        busy = list(range(len(self.tasks)))
        owner: Dict[int, int] = {}
        arrived: Dict[int, Any] = {}
        self.finished = False

        def send() -> None:
            nonlocal sent
            if not busy:
                return
            try:
                indices = next(order)
            except StopIteration:
                return
            number = busy[sent % len(busy)]
            owner[sent] = number
            self.tasks[number].put((sent, indices))
            sent += 1

        for _ in range(loader.prefetch_factor * len(self.tasks)):
            send()
        while wanted < sent:
            while wanted not in arrived:
                number, _, answer = self._received(loader.timeout)
                arrived[number] = answer
            answer = arrived.pop(wanted)
            worker = owner.pop(wanted)
            wanted += 1
            if isinstance(answer, _worker.Exhausted):
                if worker in busy:
                    busy.remove(worker)
                continue
            if isinstance(answer, _worker.Failure):
                answer.raise_again()
            send()
            yield answer
        # The workers of an iterable data set have iterated over it once and are of no more use.
        self.finished = not isinstance(loader.dataset, IterableDataset)

    def _received(self, timeout: float) -> Any:
        waited = 0.0
        while True:
            try:
                return self.results.get(timeout=1.0)
            except queue.Empty:
                waited += 1.0
                dead = [process for process in self.processes if not process.is_alive()]
                if dead:
                    codes = ", ".join(f"{process.name}: exit code {process.exitcode}" for process in dead)
                    raise RuntimeError(f"worker processes of a DataLoader ended unexpectedly ({codes})") from None
                if timeout and waited >= timeout:
                    raise RuntimeError(f"a DataLoader waited {timeout} seconds for a batch of its workers") from None

    def stop(self) -> None:
        """Ends all processes and waits for them."""
        if not self.alive:
            return
        self.alive = False
        for tasks in self.tasks:
            tasks.put(None)
        for tasks in self.tasks:
            tasks.close()
        # A worker that is sending waits for a reader.
        for process in self.processes:
            while process.is_alive():
                try:
                    self.results.get(timeout=0.02)
                except queue.Empty:
                    process.join(0.02)
        self.results.close()

    def __del__(self) -> None:
        if getattr(self, "alive", False):
            for process in self.processes:
                process.terminate()


def _ahead(batches: Iterator[Any], device: str) -> Iterator[Any]:
    """The batches on a device; a thread uploads two in advance."""
    ready: "queue.Queue[Any]" = queue.Queue(maxsize=2)
    stopped = threading.Event()

    def offer(item: Any) -> bool:
        while not stopped.is_set():
            try:
                ready.put(item, timeout=0.1)
                return True
            except queue.Full:
                continue
        return False

    def upload() -> None:
        try:
            for batch in batches:
                if not offer((on_device(batch, device), None)):
                    return
            offer((None, StopIteration()))
        except BaseException as error:  # Raised again in the thread that iterates.
            offer((None, error))
        finally:
            close = getattr(batches, "close", None)
            if close is not None:
                close()

    thread = threading.Thread(target=upload, daemon=True, name="pyflame loader upload")
    thread.start()
    try:
        while True:
            batch, error = ready.get()
            if isinstance(error, StopIteration):
                return
            if error is not None:
                raise error
            yield batch
    finally:
        stopped.set()
        thread.join()
