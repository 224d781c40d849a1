"""Load test of the board: 20 users submit 200 kernels at once, and the server is killed in the middle.

Every submission must finish exactly once, users must be served in turns, and the server's memory must not grow with the number of
submissions. Then the latency from a submission to its verdict is measured on an otherwise idle server.
"""

import argparse
import collections
import json
import os
import pathlib
import shutil
import signal
import statistics
import subprocess
import tempfile
import threading
import time
import urllib.request

USERS, EACH = 20, 10
KERNEL = """#include <hip/hip_runtime.h>
extern "C" __global__ void solution(const float* input, float alpha, float* output, size_t n, size_t m) {{
    size_t i = blockIdx.x * static_cast<size_t>(blockDim.x) + threadIdx.x;
    if (i < n * m) {{
        float x = input[i];
        output[i] = x > 0.0f ? x : alpha * x;
    }}
}}
// {note}
"""


class Board:
    def __init__(self, arguments, folder):
        self.arguments, self.folder = arguments, folder
        self.process, self.address = None, "127.0.0.1:0"

    def serve(self):
        command = [self.arguments.remora, "serve", "--ready", "--listen", self.address, "--data", self.folder / "data",
                   "--per-minute", "100000", "--per-day", "100000"]
        for word in self.arguments.judge:
            command += ["--judge", word]
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, env={**os.environ, "REMORA_LOG": "error"}, text=True)
        self.address = self.process.stdout.readline().strip().removeprefix("listening on http://")

    def kill(self):
        self.process.kill()
        self.process.wait()

    def call(self, path, key=None, body=None):
        headers = {"Content-Type": "application/json"} | ({"Authorization": f"Bearer {key}"} if key else {})
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"http://{self.address}{path}", data, headers)
        with urllib.request.urlopen(request, timeout=120) as answer:
            return json.load(answer)

    def admin(self, *words):
        command = [self.arguments.remora, "board", *words, "--data", self.folder / "data"]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()

    def submit(self, key, note):
        body = {"solution_code": KERNEL.format(note=note), "problem": "leaky-relu", "gpu_type": "MI300X", "dtype": "float32",
                "endpoint": "checker"}
        return self.call("/api/submissions", key, body)["id"]

    def memory(self):
        for line in pathlib.Path(f"/proc/{self.process.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) / 1024

    def waiting(self, key):
        queue = self.call("/api/queue", key)
        return queue["waiting"] + queue["running"]


def check(what, truth, shown=""):
    print(f"{'ok' if truth else 'FAILED'}: {what} {shown}", flush=True)
    if not truth:
        raise SystemExit(1)


def load(board):
    keys = []
    for user in range(USERS):
        board.admin("user", "add", f"user{user:02}")
        keys.append(board.admin("key", "create", f"user{user:02}"))
    board.serve()
    ids, lock = [], threading.Lock()

    def submit(user):
        for number in range(EACH):
            name = board.submit(keys[user], f"{user} {number % 2}")
            with lock:
                ids.append((keys[user], name))

    begun = time.monotonic()
    threads = [threading.Thread(target=submit, args=(user,)) for user in range(USERS)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    check(f"{USERS * EACH} submissions are accepted", len(ids) == USERS * EACH)
    left = board.waiting(keys[0])
    while (now := board.waiting(keys[0])) > left - 40 and now > 20:
        time.sleep(0.1)
    before = board.memory()
    board.kill()
    print(f"killed with {now} unfinished", flush=True)
    board.serve()
    fresh = None
    while board.waiting(keys[0]) > 0:
        fresh = fresh or board.memory()
        time.sleep(0.2)
    print(f"all done after {time.monotonic() - begun:.1f} s", flush=True)
    after = board.memory()
    details = [board.call(f"/api/submissions/{name}", key) for key, name in ids]
    statuses = collections.Counter(detail["status"] for detail in details)
    check("all submissions finish and are accepted", statuses == {"CHECKED": USERS * EACH}, dict(statuses))
    ends = [sum(event["status"] == "CHECKED" for event in detail["events"]) for detail in details]
    check("each submission has one verdict", set(ends) == {1})
    again = sum(any("again" in event.get("message", "") for event in detail["events"]) for detail in details)
    check("submissions that were running when the server was killed were run again", 1 <= again <= 8, again)
    # How often each user was served by the time half was done: fair to within the number of concurrent runs.
    finished = sorted(details, key=lambda detail: detail["finished_at"])[: USERS * EACH // 2]
    shares = collections.Counter(detail["user"] for detail in finished)
    check("users take turns", len(shares) == USERS and max(shares.values()) - min(shares.values()) <= 4, sorted(shares.values()))
    check("memory stays flat", after < max(before, fresh or 0) + 24, f"({before:.0f} MB before, {fresh or 0:.0f} fresh, {after:.0f} after)")
    return keys[0]


def latency(board, key, count):
    seconds = []
    for number in range(count):
        begun = time.monotonic()
        name = board.submit(key, f"latency {number}")
        url = f"http://{board.address}/api/submissions/{name}/events"
        with urllib.request.urlopen(urllib.request.Request(url, headers={"Authorization": f"Bearer {key}"})) as events:
            text = events.read().decode()
        seconds.append(time.monotonic() - begun)
        check(f"submission {number}", "event: CHECKED" in text, f"{seconds[-1]:.3f} s")
    print(f"warm submission to verdict: median {statistics.median(seconds):.3f} s, best {min(seconds):.3f} s, "
          f"worst {max(seconds):.3f} s of {count}", flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--remora", required=True)
    parser.add_argument("--judge", action="append", default=[], help="command of another judge; repeat the option for each word")
    parser.add_argument("--latency", type=int, default=15)
    arguments = parser.parse_args()
    folder = pathlib.Path(tempfile.mkdtemp(prefix="board-"))
    board = Board(arguments, folder)
    try:
        latency(board, load(board), arguments.latency)
    finally:
        if board.process and board.process.poll() is None:
            board.process.send_signal(signal.SIGTERM)
            board.process.wait(30)
        shutil.rmtree(folder, ignore_errors=True)


main()
