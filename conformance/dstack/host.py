#!/usr/bin/python3
"""A simulated host of an SSH fleet without Docker: one process in place of what dstack installs on hosts.

dstack's server downloads this file as `dstack-shim`, starts it as a service and talks to it as to its own shim (tasks) and
runner (the job inside a task). A task is not a Docker container, but it has its own processes, SSH server and temporary
files, all of which end with it. The settings file describes the host. While the file named there as "hold" exists, pulling
an image never finishes.
"""

import base64
import json
import os
import signal
import subprocess
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

SETTINGS = json.load(open("/etc/remora-rig.json"))
HOLD = SETTINGS["hold"]
GIGABYTE = 10**9
# The keys of the user that runs the test, in a separate home folder.
KEYS = os.path.expanduser("~/.ssh/authorized_keys")


def milliseconds():
    return int(time.time() * 1000)


class Task:
    """One task: its SSH server, its job, and their state."""

    def __init__(self, request):
        self.request = request
        self.id = request["id"]
        self.status = "pulling"
        self.reason = ""
        self.message = ""
        self.pulled = 0
        self.folder = f"/run/rig/{self.id}"
        self.space = None
        self.first = None
        self.job = None
        self.submitted = None
        self.states = []
        self.logs = []
        self.lock = threading.Lock()
        os.makedirs(self.folder)
        threading.Thread(target=self.pull, daemon=True).start()

    def pull(self):
        total = 8 * GIGABYTE
        while self.pulled < total or os.path.exists(HOLD):
            self.pulled = min(self.pulled + GIGABYTE, total if not os.path.exists(HOLD) else 5 * GIGABYTE)
            time.sleep(0.3)
            if self.status == "terminated":
                return
        self.authorize()
        self.make_space()
        self.start_ssh()
        self.status = "running"

    def progress(self):
        return {
            "downloaded_bytes": self.pulled,
            "extracted_bytes": self.pulled // 2,
            "total_bytes": 8 * GIGABYTE,
            "is_total_bytes_final": True,
        }

    def authorize(self):
        """Authorizes the run's key on the host, as dstack's shim does."""
        with open(KEYS, "a") as file:
            for key in self.request["host_ssh_keys"]:
                file.write(key.strip() + f" {self.id}\n")

    def make_space(self):
        """Creates namespaces for processes and temporary files, held by a first process until it is killed."""
        ready = os.path.join(self.folder, "ready")
        first = f"mount -t tmpfs tmpfs /tmp && echo > {ready} && exec sleep infinity"
        command = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-c", first]
        self.space = subprocess.Popen(command, stdin=subprocess.DEVNULL, start_new_session=True)
        while not os.path.exists(ready):
            time.sleep(0.02)
        with open(f"/proc/{self.space.pid}/task/{self.space.pid}/children") as file:
            self.first = file.read().split()[0]

    def inside(self, command):
        return ["nsenter", "--target", self.first, "--mount", "--pid", "--", *command]

    def start_ssh(self, host_key="container_key"):
        keys = os.path.join(self.folder, "authorized_keys")
        with open(keys, "w") as file:
            file.write("\n".join(key.strip() for key in self.request["container_ssh_keys"]) + "\n")
        command = [SETTINGS["sshd"], "-D", "-e", "-f", SETTINGS["sshd_config"], "-h", SETTINGS[host_key]]
        command += ["-o", "Port=10022", "-o", f"AuthorizedKeysFile={keys}", "-o", f"PidFile={self.folder}/pid"]
        log = open(os.path.join(self.folder, "sshd.log"), "ab")
        environment = {**os.environ, "LD_LIBRARY_PATH": SETTINGS["sshd_libraries"]}
        subprocess.Popen(self.inside(command), stdout=log, stderr=log, env=environment, start_new_session=True)

    def become_a_stranger(self):
        """Replaces the task's SSH server by one with another host key."""
        space = os.readlink(f"/proc/{self.first}/ns/pid")
        for process in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{process}/comm") as file:
                    name = file.read().strip()
                if name == os.path.basename(SETTINGS["sshd"]) and os.readlink(f"/proc/{process}/ns/pid") == space:
                    os.kill(int(process), signal.SIGKILL)
            except OSError:
                pass
        self.start_ssh("stranger_key")

    def run(self):
        spec = self.submitted["job_spec"]
        environment = dict(os.environ)
        environment.update(spec.get("env") or {})
        self.job = subprocess.Popen(
            self.inside(spec["commands"]), env=environment, cwd=os.path.expanduser("~"), stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True,
        )
        self.say_state("running")
        threading.Thread(target=self.follow, daemon=True).start()

    def follow(self):
        for line in self.job.stdout:
            with self.lock:
                self.logs.append((milliseconds(), line))
        status = self.job.wait()
        if self.status == "terminated":
            return
        if status == 0:
            self.say_state("done", "done_by_runner", 0)
        else:
            self.say_state("failed", "container_exited_with_error", status)

    def say_state(self, state, reason=None, exit_status=None):
        event = {"timestamp": milliseconds(), "state": state}
        if reason:
            event.update(termination_reason=reason, termination_message="", exit_status=exit_status)
        with self.lock:
            self.states.append(event)

    def pull_since(self, moment):
        with self.lock:
            logs = [
                {"timestamp": at, "message": base64.b64encode(line).decode()} for at, line in self.logs if at > moment
            ]
            states = [state for state in self.states if state["timestamp"] > moment]
        return {
            "job_states": states, "job_logs": logs, "runner_logs": [], "last_updated": milliseconds(),
            "has_more": False, "no_connections_secs": 0,
        }

    def stop_job(self):
        if self.job is not None and self.job.poll() is None:
            os.killpg(self.job.pid, signal.SIGTERM)
            try:
                self.job.wait(5)
            except subprocess.TimeoutExpired:
                os.killpg(self.job.pid, signal.SIGKILL)
        if self.job is not None:
            self.say_state("terminated", "terminated_by_user", None)

    def terminate(self, reason, message):
        if self.status == "terminated":
            return
        self.status, self.reason, self.message = "terminated", reason, message
        self.stop_job()
        if self.space is not None:
            # What ends with a container.
            self.space.kill()
            self.space.wait()
        with open(KEYS) as file:
            lines = [line for line in file if not line.rstrip().endswith(self.id)]
        with open(KEYS, "w") as file:
            file.writelines(lines)

    def describe(self):
        return {
            "id": self.id, "status": self.status, "termination_reason": self.reason,
            "termination_message": self.message, "ports": [], "image_pull_progress": self.progress(),
        }


TASKS = {}


def current():
    return next((task for task in TASKS.values() if task.status == "running"), None)


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    service = ""

    def log_message(self, *_):
        pass

    def answer(self, value, status=200):
        body = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def body(self):
        raw = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        try:
            return json.loads(raw)
        except ValueError:
            return {}

    def do_GET(self):
        self.serve("GET", {})

    def do_POST(self):
        self.serve("POST", self.body())

    def serve(self, method, body):
        path, _, query = self.path.partition("?")
        parts = path.strip("/").split("/")
        if parts == ["api", "healthcheck"]:
            return self.answer({"service": self.service, "version": SETTINGS["version"]})
        found = self.route(method, parts, body, query)
        if found is None:
            return self.answer({"message": "not found"}, 404)
        return self.answer(found)


class Shim(Handler):
    service = "dstack-shim"

    def route(self, method, parts, body, query):
        match parts:
            case ["api", "instance", "health"]:
                return {}
            case ["api", "instance", "info"]:
                return {"gpu_vendor": "amd", "gpu_driver_version": "6.4"}
            case ["api", "components"]:
                names = ("dstack-shim", "dstack-runner")
                return {
                    "components": [{"name": n, "version": SETTINGS["version"], "status": "installed"} for n in names]
                }
            case ["api", "tasks"] if method == "GET":
                return {"tasks": [{"id": task.id, "status": task.status} for task in TASKS.values()]}
            case ["api", "tasks"]:
                TASKS[body["id"]] = Task(body)
                return TASKS[body["id"]].describe()
            case ["api", "tasks", id] if id in TASKS:
                return TASKS[id].describe()
            case ["api", "tasks", id, "terminate"] if id in TASKS:
                TASKS[id].terminate(body.get("termination_reason", ""), body.get("termination_message", ""))
                return TASKS[id].describe()
            case ["api", "tasks", id, "remove"] if id in TASKS:
                TASKS.pop(id).terminate("", "")
                return {}
            case ["api", "rig", "stranger"]:
                # Not part of dstack: for the test of host key checks.
                current().become_a_stranger()
                return {}
        return None


class Runner(Handler):
    service = "dstack-runner"

    def route(self, method, parts, body, query):
        task = current()
        if task is None:
            return None
        match parts:
            case ["api", "submit"]:
                task.submitted = body
                return {}
            case ["api", "upload_code"] | ["api", "upload_archive"]:
                return {}
            case ["api", "run"]:
                task.run()
                return {"working_dir": os.path.expanduser("~"), "username": "root"}
            case ["api", "pull"]:
                return task.pull_since(int(dict(p.split("=") for p in query.split("&") if "=" in p).get("timestamp", 0)))
            case ["api", "stop"]:
                task.stop_job()
                return {}
            case ["api", "metrics"]:
                return {
                    "timestamp_micro": int(time.time() * 1e6), "cpu_usage_micro": 0, "memory_usage_bytes": 0,
                    "memory_working_set_bytes": 0, "gpus": [],
                }
        return None


def main():
    os.makedirs("/run/rig", exist_ok=True)
    home = os.environ["DSTACK_SHIM_HOME"]
    with open(os.path.join(home, "host_info.json"), "w") as file:
        json.dump(SETTINGS["host_info"], file)
    runner = ThreadingHTTPServer(("127.0.0.1", int(os.environ["DSTACK_RUNNER_HTTP_PORT"])), Runner)
    threading.Thread(target=runner.serve_forever, daemon=True).start()
    ThreadingHTTPServer(("127.0.0.1", int(os.environ["DSTACK_SHIM_HTTP_PORT"])), Shim).serve_forever()


main()
