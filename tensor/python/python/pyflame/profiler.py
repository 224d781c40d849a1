"""The profiler: `with pf.profiler.profile() as p: ...`, then `p.export_chrome_trace('trace.json')` or `print(p.table())`."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any, Dict, List, Tuple, Union

from . import _pyflame as _pf

if TYPE_CHECKING:
    from typing_extensions import Self


class profile:
    """Records every evaluation and every wait of this process while active. Only one can be active at a time."""

    def __init__(self) -> None:
        self.events: List[Tuple[str, str, float, float]] = []

    def __enter__(self) -> Self:
        _pf.profile_start()
        return self

    def __exit__(self, *_: Any) -> None:
        self.events = _pf.profile_stop()

    def chrome_trace(self) -> Dict[str, Any]:
        """The events in the format of Chrome's trace viewer and Perfetto."""
        devices = sorted({device for _, device, _, _ in self.events})
        threads = {device: number for number, device in enumerate(devices)}
        process = os.getpid()
        trace = [
            {"ph": "M", "name": "thread_name", "pid": process, "tid": number, "args": {"name": device}}
            for device, number in threads.items()
        ]
        for name, device, start, length in self.events:
            kind = "wait" if name == "download" else "eval"
            trace.append(
                {
                    "ph": "X",
                    "name": name,
                    "cat": kind,
                    "pid": process,
                    "tid": threads[device],
                    "ts": start,
                    "dur": length,
                }
            )
        return {"traceEvents": trace, "displayTimeUnit": "ms"}

    def export_chrome_trace(self, path: Union[str, "os.PathLike[str]"]) -> None:
        """Writes the operations to a file for trace viewers."""
        with open(path, "w", encoding="utf-8") as file:
            json.dump(self.chrome_trace(), file)

    def table(self) -> str:
        """The operations as a table."""
        sums: Dict[Any, Any] = {}
        for name, device, _, length in self.events:
            count, total = sums.get((name, device), (0, 0.0))
            sums[name, device] = (count + 1, total + length)
        lines = [f"{'what':40} {'device':10} {'times':>8} {'total ms':>12} {'each us':>12}"]
        for (name, device), (count, total) in sorted(sums.items(), key=lambda item: -item[1][1]):
            lines.append(f"{name:40} {device:10} {count:8} {total / 1e3:12.3f} {total / count:12.1f}")
        return "\n".join(lines)
