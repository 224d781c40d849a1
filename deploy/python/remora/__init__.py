"""Remora's program and drop-in libraries: `python -m remora run -- ./program`.

    import remora
    remora.program()      # path of the program
    remora.libraries()    # folder of libamdhip64.so.* and libhiprtc.so.*
    remora.use()          # this process's HIP calls go to a software GPU, unless the environment names a worker
"""

import atexit
import os
import subprocess
import tempfile

_FOLDER = os.path.dirname(os.path.abspath(__file__))
# Any of these names a worker.
_WORKERS = ("REMORA_WORKER", "REMORA_URL", "TF_WORKER_HOST")
_private = None


def program():
    """The path of the `remora` program."""
    return os.path.join(_FOLDER, "bin", "remora")


def libraries():
    """The folder of the drop-in libraries."""
    return os.path.join(_FOLDER, "lib")


def use(device="mi300x"):
    """Returns the path of the `libamdhip64` to load. If the environment names no worker, starts one with a software GPU, which ends with
    this process, and names it in the environment."""
    global _private
    if _private is None and not any(os.environ.get(name) for name in _WORKERS):
        _private = _Worker(device)
        os.environ["REMORA_WORKER"] = _private.endpoint
    return os.path.join(libraries(), "libamdhip64.so.7")


class _Worker:
    """A worker for this process alone, on a Unix socket in a private folder."""

    def __init__(self, device):
        self._folder = tempfile.TemporaryDirectory(prefix="remora-")
        self.endpoint = "unix:" + os.path.join(self._folder.name, "worker")
        log = os.path.join(self._folder.name, "log")
        command = [program(), "worker", "--listen", self.endpoint, "--device", device, "--ready", "--exit-with-parent"]
        environment = {name: value for name, value in os.environ.items() if name not in ("REMORA_TOKEN", "REMORA_TOKEN_FILE")}
        with open(log, "wb") as errors:
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors, env=environment, start_new_session=True
            )
        line = self._process.stdout.readline().decode(errors="replace")
        if not line.startswith("listening on"):
            self._process.kill()
            self._process.wait()
            with open(log, errors="replace") as errors:
                raise RuntimeError(f"the software GPU did not start: {errors.read().strip() or line.strip()}")
        self._owner = os.getpid()
        atexit.register(self._stop)

    def _stop(self):
        # A forked child has a copy of this object, but not the worker.
        if os.getpid() == self._owner:
            self._process.terminate()
            self._process.wait()
            self._process.stdout.close()
