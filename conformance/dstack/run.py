"""Tests a board that rents its GPUs from a real dstack server, from the first submission to the last stopped run.

Runs as root in its own mount, network and PID namespaces: everything that it installs on the host of the fleet, which is this
machine, is gone when it ends, and so are all processes it started. Only logs are left. A failed claim is reported, the next one
starts from a clean state, and the exit status says whether all held.
"""

import argparse
import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
import time
import traceback
import urllib.error
import urllib.request
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

DSTACK = "http://127.0.0.1:3111"
BOARD = "http://127.0.0.1:3900"
TOKEN = "a-token-of-the-test"
VERSION = "0.22.5"
HOLD = "/run/rig-hold"
HOME = os.path.expanduser("~")
SHIM = "http://127.0.0.1:10998"
# The price of the host per hour. dstack reports 0 for SSH fleets, so the price is written to its database.
PRICE = 1.99
PATIENCE = 300
KERNEL = """
extern "C" __global__ void solution(const float* input, float alpha, float* output, size_t n, size_t m) {
    size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x;
    if (i < n * m) output[i] = input[i] > 0 ? input[i] : alpha * input[i];
}
"""

arguments = argparse.ArgumentParser()
arguments.add_argument("--remora", required=True)
arguments.add_argument("--sshd", required=True)
arguments.add_argument("--sshd-libraries", required=True)
arguments.add_argument("--folder", required=True)
arguments.add_argument("--filter", default="")
OPTIONS = arguments.parse_args()
HERE = os.path.dirname(os.path.abspath(__file__))


def path(*parts):
    return os.path.join(OPTIONS.folder, *parts)


def say(text):
    print(f"  {text}", flush=True)


def wait(what, condition, patience=PATIENCE):
    """Waits until a condition holds and returns its value."""
    end = time.monotonic() + patience
    while time.monotonic() < end:
        found = condition()
        if found:
            return found
        time.sleep(0.25)
    raise AssertionError(f"timeout after {patience} s waiting for: {what}")


def request(url, body=None, token=None, method=None):
    headers = {"Content-Type": "application/json"}
    if token:
        headers["Authorization"] = f"Bearer {token}"
    data = None if body is None else json.dumps(body).encode()
    with urllib.request.urlopen(urllib.request.Request(url, data, headers, method=method), timeout=120) as response:
        text = response.read()
    return json.loads(text) if text else None


def dstack(call, body):
    try:
        return request(DSTACK + call, body, TOKEN)
    except urllib.error.HTTPError as error:
        raise AssertionError(f"{call}: {error.code} {error.read().decode()}") from None


def active():
    runs = dstack("/api/runs/list", {"project_name": "main", "only_active": True})
    return {run["run_spec"]["run_name"]: run["status"] for run in runs}


def all_runs():
    runs = dstack("/api/runs/list", {"project_name": "main", "only_active": False})
    return [run["run_spec"]["run_name"] for run in runs]


# ---- the host ----


def write(name, text="", mode=0o644):
    with open(name, "w") as file:
        file.write(text)
    os.chmod(name, mode)


def overlay(folder):
    name = folder.strip("/").replace("/", "-")
    upper, work = f"/run/overlay/{name}/upper", f"/run/overlay/{name}/work"
    os.makedirs(upper)
    os.makedirs(work)
    options = f"lowerdir={folder},upperdir={upper},workdir={work}"
    subprocess.run(["mount", "-t", "overlay", "overlay", "-o", options, folder], check=True)


def prepare_host():
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    subprocess.run(["mount", "-t", "tmpfs", "tmpfs", "/run"], check=True)
    for folder in (HOME, "/etc", "/usr/local"):
        overlay(folder)
    os.makedirs("/run/sshd")
    # Temporary files are removed with the rest, even if processes are killed.
    os.makedirs("/run/tmp")
    os.environ["TMPDIR"] = "/run/tmp"
    os.makedirs(f"{HOME}/.ssh", 0o700, exist_ok=True)
    os.makedirs("/etc/systemd/system", exist_ok=True)
    # A path that tasks see too.
    sshd, libraries = "/usr/local/sbin/rig-sshd", "/usr/local/lib/rig"
    shutil.copy(OPTIONS.sshd, sshd)
    shutil.copytree(OPTIONS.sshd_libraries, libraries, symlinks=True)
    with open("/etc/passwd") as file:
        known = file.read()
    if "\nsshd:" not in known:
        write("/etc/passwd", known + "sshd:x:987:65534::/run/sshd:/usr/sbin/nologin\n")
    for name in ("key", "host_key", "container_key", "stranger_key"):
        command = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", f"/run/{name}"]
        subprocess.run(command, check=True)
    with open("/run/key.pub") as file:
        write(f"{HOME}/.ssh/authorized_keys", file.read(), 0o600)
    config = "/run/sshd_config"
    write(
        config,
        "ListenAddress 127.0.0.1\nPermitRootLogin yes\nPasswordAuthentication no\nStrictModes no\nUsePAM no\n"
        "Subsystem sftp internal-sftp\nMaxStartups 100\n",
    )
    write("/usr/local/bin/sudo", '#!/bin/sh\nexec "$@"\n', 0o755)
    write(
        "/usr/local/bin/systemctl",
        '#!/bin/sh\ncase "$*" in\n"restart dstack-shim")\n  set -a; . ~/.dstack/shim.env; set +a\n'
        "  setsid /usr/local/bin/dstack-shim > /run/shim.log 2>&1 < /dev/null &\n  ;;\nesac\n",
        0o755,
    )
    settings = {
        "sshd": sshd,
        "sshd_libraries": libraries,
        "sshd_config": config,
        "container_key": "/run/container_key",
        "stranger_key": "/run/stranger_key",
        "version": VERSION,
        "hold": HOLD,
        "host_info": {
            "gpu_vendor": "amd", "gpu_name": "MI300X", "gpu_memory": 196608, "gpu_count": 1,
            "addresses": ["127.0.0.1/8"], "disk_size": 100 << 30, "cpus": 2, "memory": 8 << 30,
        },
    }
    write("/etc/remora-rig.json", json.dumps(settings))
    command = [sshd, "-D", "-e", "-f", config, "-h", "/run/host_key", "-o", "Port=2222"]
    start("sshd", [*command, "-o", "PidFile=/run/host-sshd.pid"], {"LD_LIBRARY_PATH": libraries})


def start(name, command, environment=None):
    log = open(path(f"{name}.log"), "ab")
    return subprocess.Popen(
        command, stdout=log, stderr=log, stdin=subprocess.DEVNULL, env={**os.environ, **(environment or {})}
    )


def serve_shim():
    class Files(SimpleHTTPRequestHandler):
        def __init__(self, *given):
            super().__init__(*given, directory=HERE)

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 3199), Files)
    threading.Thread(target=server.serve_forever, daemon=True).start()


def start_dstack():
    environment = {
        "DSTACK_SERVER_DIR": path("dstack"),
        "DSTACK_SHIM_DOWNLOAD_URL": "http://127.0.0.1:3199/host.py",
        "DSTACK_RUNNER_DOWNLOAD_URL": "http://127.0.0.1:3199/host.py",
        "DSTACK_SERVER_LOG_LEVEL": "DEBUG",
        "HOME": path("home"),
        "SENTRY_DSN": "",
        "DSTACK_ENABLE_TELEMETRY": "0",
    }
    os.makedirs(path("home"))
    program = os.path.join(os.path.dirname(sys.executable), "dstack")
    command = [sys.executable, program, "server", "--host", "127.0.0.1", "--port", "3111", "--token", TOKEN, "-y"]
    start("dstack", command, environment)

    def running():
        try:
            return request(DSTACK + "/healthcheck")["status"] == "running"
        except (OSError, urllib.error.URLError):
            return False

    wait("the dstack server", running)


def make_fleet():
    with open("/run/key") as private, open("/run/key.pub") as public:
        key = {"private": private.read(), "public": public.read()}
    spec = {
        "configuration": {
            "type": "fleet", "name": "amd-ssh",
            "ssh_config": {"user": "root", "port": 2222, "ssh_key": key, "hosts": ["127.0.0.1"]},
        },
        "profile": {"name": "default"},
        "autocreated": False,
    }
    dstack("/api/project/main/fleets/apply", {"plan": {"spec": spec, "current_resource": None}, "force": False})
    wait("an idle host", host_is_idle)
    with sqlite3.connect(path("dstack", "data", "sqlite.db"), timeout=60) as database:
        database.execute(
            "update instances set price = ?1, offer = json_set(offer, '$.price', ?1), "
            "job_provisioning_data = json_set(job_provisioning_data, '$.price', ?1)",
            [PRICE],
        )


def host_is_idle():
    fleet = dstack("/api/project/main/fleets/get", {"name": "amd-ssh"})
    return [instance["status"] for instance in fleet["instances"]] == ["idle"]


# ---- the board ----


class Board:
    running = []

    def __init__(self, idle=600, *more):
        command = [
            OPTIONS.remora, "serve", "--listen", BOARD.removeprefix("http://"), "--data", path("board"), "--no-software",
            "--dstack", DSTACK, "--dstack-project", "main", "--dstack-gpu", "MI300X", "--dstack-gpu", "MI210",
            "--dstack-backend", "emulator", "--dstack-fleet", "amd-ssh", "--dstack-idle", str(idle), *more,
        ]
        self.process = start("board", command, {"DSTACK_TOKEN": TOKEN, "REMORA_LOG": "info"})
        Board.running.append(self)
        wait("the board", self.answers)

    def answers(self):
        assert self.process.poll() is None, "the board exited; see board.log"
        try:
            return urllib.request.urlopen(BOARD + "/healthz", timeout=5).status == 200
        except (OSError, urllib.error.URLError):
            return False

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(PATIENCE)
        Board.running.remove(self)

    def kill(self):
        self.process.kill()
        self.process.wait()
        Board.running.remove(self)


def devices():
    return {device["gpu_type"]: device for device in request(BOARD + "/api/devices")["devices"]}


def submit(gpu="MI300X", endpoint="checker"):
    body = {
        "solution_code": KERNEL, "problem": "leaky-relu", "gpu_type": gpu, "dtype": "float32", "language": "hip",
        "endpoint": endpoint,
    }
    return request(BOARD + "/api/submissions", body)["id"]


def command_line():
    write(path("kernel.hip"), KERNEL)
    command = [OPTIONS.remora, "submit", path("kernel.hip"), "--problem", "leaky-relu", "--gpu", "MI300X", "--server", BOARD]
    return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)


def detail(submission):
    return request(f"{BOARD}/api/submissions/{submission}")


def messages(submission):
    return [event.get("message", "") for event in detail(submission)["events"] if event["status"] == "PROVISIONING"]


def finished(submission):
    """All events of a submission, after it has finished."""
    wait("the end of a submission", lambda: detail(submission)["finished_at"])
    return detail(submission)["events"]


def none_left():
    wait("all runs stopped", lambda: not active())
    wait("an idle host", host_is_idle)


def start_over():
    """Cleans up after a failed claim: no board, no run, none of the board's data."""
    for board in list(Board.running):
        board.kill()
    if os.path.exists(HOLD):
        os.remove(HOLD)
    if names := list(active()):
        dstack("/api/project/main/runs/stop", {"runs_names": names, "abort": False})
    shutil.rmtree(path("board"), ignore_errors=True)
    none_left()


# ---- what is promised ----


def a_submission_is_judged_on_a_gpu_that_dstack_started():
    board = Board()
    wait("what is offered", lambda: devices()["MI300X"]["price_per_hour"] == PRICE)
    wait("what is not", lambda: devices()["MI210"]["state"] == "offline")
    known = devices()
    assert known["MI300X"]["place"] == "dstack" and known["MI300X"]["state"] == "ready", known
    assert known["MI300X"]["emulated"] and not known["MI300X"]["warm"], known
    estimate = request(BOARD + "/api/estimate", {"problem": "leaky-relu", "gpu_type": "MI300X", "endpoint": "checker"})
    assert not estimate["warm"] and estimate["queue_s"] > 0, estimate
    assert abs(estimate["cost_usd"] - estimate["seconds"] * PRICE / 3600) < 1e-5 and estimate["cost_usd"] > 0, estimate
    say(f"dstack offers it for ${PRICE} an hour; estimate {estimate}")
    began = time.monotonic()
    first = submit(endpoint="full")
    events = finished(first)
    took = time.monotonic() - began
    names = [event["status"] for event in events]
    assert names[-1] == "BENCHMARKED" and "CHECKED" in names, events
    price = events[-1]["execution_time"] * PRICE / 3600
    assert abs(events[-1]["cost_usd"] - price) < 1e-5 and price > 0, events[-1]
    progress = messages(first)
    assert progress[0] == "Provisioning MI300X GPU...", progress
    assert any(text.startswith("Pulling the image (remote)") and "% of 8.0 GB" in text for text in progress), progress
    assert devices()["MI300X"]["warm"]
    runs = active()
    assert len(runs) == 1, runs
    began = time.monotonic()
    second = submit()
    events = finished(second)
    warm = time.monotonic() - began
    assert events[-1]["status"] == "CHECKED" and messages(second) == ["Provisioning MI300X GPU..."], events
    assert active() == runs
    say(f"cold {took:.1f} s, warm {warm:.1f} s, ${events[-1]['cost_usd']}")
    judged = command_line()
    assert judged.returncode == 0, judged
    assert active() == runs
    board.stop()
    none_left()
    assert os.listdir(path("board", "dstack")) == ["board"], "records of runs are left"


def what_cannot_be_had_is_told_and_costs_nothing():
    board = Board()
    events = finished(submit("MI210"))
    last = events[-1]
    assert last["status"] == "ERROR" and last["error"] == "no_device" and last["cost_usd"] == 0, last
    assert "MI210" in last["message"] and "no fleet" in last["details"], last
    say(last["details"])
    board.stop()
    none_left()


def what_is_dearer_than_allowed_is_not_rented():
    board = Board(600, "--dstack-max-price", str(PRICE / 2))
    wait("no offer", lambda: devices()["MI300X"]["state"] == "offline")
    last = finished(submit())[-1]
    assert last["status"] == "ERROR" and last["error"] == "no_device" and last["cost_usd"] == 0, last
    say(last["details"])
    board.stop()
    none_left()


def a_gpu_that_nobody_uses_is_stopped():
    board = Board(idle=5)
    assert finished(submit())[-1]["status"] == "CHECKED"
    none_left()
    assert not devices()["MI300X"]["warm"]
    # It is started again when needed, even while dstack is still cleaning up.
    assert finished(submit())[-1]["status"] == "CHECKED"
    none_left()
    board.stop()


def what_is_cancelled_while_it_starts_leaves_no_run():
    board = Board()
    write(HOLD)
    submission = submit()
    wait("an image being pulled", lambda: any("Pulling" in text for text in messages(submission)))
    assert len(active()) == 1
    request(f"{BOARD}/api/submissions/{submission}/cancel", {})
    assert finished(submission)[-1]["status"] == "CANCELLED"
    none_left()
    os.remove(HOLD)
    board.stop()


def a_board_that_is_killed_takes_up_its_run_again():
    board = Board()
    assert finished(submit())[-1]["status"] == "CHECKED"
    runs = list(active())
    board.kill()
    board = Board()
    wait("the run taken up", lambda: devices()["MI300X"]["warm"])
    assert finished(submit())[-1]["status"] == "CHECKED"
    assert list(active()) == runs
    board.stop()
    none_left()


def a_board_that_is_killed_while_a_run_starts_goes_on_with_it():
    board = Board()
    write(HOLD)
    submission = submit()
    wait("an image being pulled", lambda: any("Pulling" in text for text in messages(submission)))
    runs = list(active())
    board.kill()
    board = Board()
    os.remove(HOLD)
    assert finished(submission)[-1]["status"] == "CHECKED"
    assert list(active()) == runs
    board.stop()
    none_left()


def a_board_that_is_killed_while_it_judges_loses_nothing():
    board = Board()
    assert finished(submit())[-1]["status"] == "CHECKED"
    runs = list(active())
    submissions = [submit(endpoint="full") for _ in range(3)]
    wait("one being judged", lambda: detail(submissions[0])["status"] not in ("IN_QUEUE", "PROVISIONING"))
    board.kill()
    board = Board()
    assert [finished(submission)[-1]["status"] for submission in submissions] == ["BENCHMARKED"] * 3
    assert list(active()) == runs
    board.stop()
    none_left()


def a_board_that_never_comes_back_leaves_no_run():
    board = Board(idle=20)
    assert finished(submit())[-1]["status"] == "CHECKED"
    board.kill()
    assert len(active()) == 1
    # The worker exits by itself, and with it the run.
    none_left()


def a_stranger_in_place_of_the_machine_is_not_believed():
    board = Board()
    assert finished(submit())[-1]["status"] == "CHECKED"
    [name] = active()
    request(SHIM + "/api/rig/stranger", {})
    wait("the board to notice", lambda: name not in active())
    assert finished(submit())[-1]["status"] == "CHECKED"
    assert name not in active() and len(active()) == 1
    with open(path("board.log")) as file:
        assert f"giving up run {name}: a machine on the path to the run has a different host key" in file.read()
    board.stop()
    none_left()


def a_run_that_the_board_forgot_is_stopped():
    board = Board()
    assert finished(submit())[-1]["status"] == "CHECKED"
    [name] = active()
    board.kill()
    os.remove(path("board", "dstack", name, "run.json"))
    board = Board()
    none_left()
    board.stop()


def a_run_that_somebody_stops_is_replaced():
    board = Board()
    assert finished(submit())[-1]["status"] == "CHECKED"
    [name] = active()
    dstack("/api/project/main/runs/stop", {"runs_names": [name], "abort": False})
    wait("the board to notice", lambda: not devices()["MI300X"]["warm"])
    assert finished(submit())[-1]["status"] == "CHECKED"
    assert name not in active() and len(active()) == 1
    board.stop()
    none_left()


CASES = [
    a_submission_is_judged_on_a_gpu_that_dstack_started,
    what_cannot_be_had_is_told_and_costs_nothing,
    what_is_dearer_than_allowed_is_not_rented,
    a_gpu_that_nobody_uses_is_stopped,
    what_is_cancelled_while_it_starts_leaves_no_run,
    a_board_that_is_killed_takes_up_its_run_again,
    a_board_that_is_killed_while_a_run_starts_goes_on_with_it,
    a_board_that_is_killed_while_it_judges_loses_nothing,
    a_board_that_never_comes_back_leaves_no_run,
    a_run_that_the_board_forgot_is_stopped,
    a_run_that_somebody_stops_is_replaced,
    a_stranger_in_place_of_the_machine_is_not_believed,
]


def holds(case):
    name = case.__name__.replace("_", " ")
    began = time.monotonic()
    try:
        case()
    except Exception:
        traceback.print_exc()
        print(f"FAILED: {name} ({time.monotonic() - began:.0f} s)", flush=True)
        start_over()
        return False
    print(f"ok: {name} ({time.monotonic() - began:.0f} s)", flush=True)
    return True


def main():
    # The first process of a PID namespace ignores signals that it has no handler for.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    prepare_host()
    serve_shim()
    start_dstack()
    make_fleet()
    version = request(DSTACK + "/api/server/get_info", {})["server_version"]
    assert version == VERSION, version
    say(f"dstack {version} is running and its fleet has a host")
    cases = [case for case in CASES if OPTIONS.filter in case.__name__.replace("_", " ")]
    held = sum([holds(case) for case in cases])
    print(f"{held} of {len(cases)} claims hold; {len(all_runs())} runs in all, {len(active())} left", flush=True)
    sys.exit(0 if held == len(cases) > 0 and not active() else 1)


main()
