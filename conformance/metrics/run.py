"""Tests an agent's metrics with Debian's VictoriaMetrics, InfluxDB and Prometheus as receivers.

Starts an agent with a software GPU and a client that uses it, pushes line protocol, stops the receiver for a while, and runs the
queries of docs/metrics.md. Everything listens on the loopback interface only and ends with this program.
"""

import argparse
import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.parse
import urllib.request

PROCESSES = []


def free_port():
    with socket.socket() as it:
        it.bind(("127.0.0.1", 0))
        return it.getsockname()[1]


def start(name, command, folder, **more):
    log = open(folder / f"{name}.log", "ab")
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, **more)
    PROCESSES.append(process)
    return process


def stop(process, how=signal.SIGTERM):
    if process.poll() is None:
        process.send_signal(how)
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def ask(url, data=None, token=None, method=None):
    request = urllib.request.Request(url, data=data, method=method)
    if token:
        request.add_header("authorization", f"Bearer {token}")
    with urllib.request.urlopen(request, timeout=30) as answer:
        return answer.read().decode()


def until(what, test, seconds=120):
    end = time.monotonic() + seconds
    while True:
        try:
            found = test()
            if found:
                return found
        except (OSError, urllib.error.URLError, ValueError, KeyError, IndexError):
            pass
        if time.monotonic() > end:
            sys.exit(f"FAIL after {seconds} s: {what}")
        time.sleep(0.5)


class Agent:
    def __init__(self, remora, folder, url, interval):
        self.data = folder / "data"
        self.address = f"127.0.0.1:{free_port()}"
        command = [remora, "agent", "--listen", self.address, "--data", self.data, "--software", "mi300x=4G"]
        command += ["--node", "n1", "--pool", "p1", "--push", url, "--push-interval", str(interval), "--drain"]
        self.process = start("agent", command, folder)
        until("the agent answers", lambda: ask(f"http://{self.address}/healthz"))
        self.token = (self.data / "api-token").read_text().strip()
        self.read_token = (self.data / "read-token").read_text().strip()

    def api(self, path, body=None):
        data = json.dumps(body).encode() if body is not None else None
        return json.loads(ask(f"http://{self.address}/api/v1/{path}", data, self.token))


def queries(page, kind):
    """The queries of one kind in a documentation page."""
    text = page.read_text()
    blocks = re.findall(rf"```{kind}\n(.*?)```", text, re.S)
    found = [line.strip() for block in blocks for line in block.splitlines() if line.strip()]
    if not found:
        sys.exit(f"FAIL: no {kind} in {page}")
    return found


def main():
    parser = argparse.ArgumentParser()
    for name in ["remora", "lib", "busy", "victoria", "influxd", "prometheus", "page"]:
        parser.add_argument(f"--{name}", type=pathlib.Path, required=True)
    parser.add_argument("--outage", type=float, default=60, help="seconds that the receiver is stopped")
    arguments = parser.parse_args()
    folder = pathlib.Path(tempfile.mkdtemp(prefix="remora-metrics-"))
    try:
        check(arguments, folder)
    finally:
        for process in reversed(PROCESSES):
            stop(process)
    print("PASS metrics")


def check(arguments, folder):
    # VictoriaMetrics in place of GreptimeDB, at the same address.
    victoria, prefix = f"127.0.0.1:{free_port()}", "/v1/influxdb"
    def start_victoria():
        command = [arguments.victoria, f"-httpListenAddr={victoria}", f"-storageDataPath={folder / 'victoria'}"]
        return start("victoria", command + [f"-http.pathPrefix={prefix}", "-retentionPeriod=1", "-influxListenAddr="], folder)
    receiver = start_victoria()
    until("VictoriaMetrics answers", lambda: ask(f"http://{victoria}{prefix}/health"))
    url = f"http://{victoria}{prefix}/api/v2/write?db=public&precision=ms"
    interval = 2.0
    agent = Agent(arguments.remora, folder, url, interval)
    allocation = agent.api("allocations", {"percent": 50, "name": "w1", "workload": "load", "namespace": "ns", "pod": "pod-1"})
    client = dict(os.environ, REMORA_URL=allocation["url"], LD_LIBRARY_PATH=str(arguments.lib))
    start("busy", [arguments.busy, "seconds", "100000"], folder, env=client)

    # Prometheus scrapes the agent with the read-only token.
    prometheus = f"127.0.0.1:{free_port()}"
    (folder / "prometheus.yml").write_text(
        "global: {scrape_interval: 1s}\n"
        f"scrape_configs: [{{job_name: remora, authorization: {{credentials_file: '{agent.data / 'read-token'}'}}, "
        f"static_configs: [{{targets: ['{agent.address}']}}]}}]\n")
    start("prometheus", [arguments.prometheus, f"--config.file={folder / 'prometheus.yml'}", f"--web.listen-address={prometheus}",
                         f"--storage.tsdb.path={folder / 'prometheus'}"], folder)
    for query in queries(arguments.page, "promql"):
        def has_rows(query=query):
            answer = json.loads(ask(f"http://{prometheus}/api/v1/query?" + urllib.parse.urlencode({"query": query})))
            return answer["data"]["result"]
        rows = until(f"Prometheus returns rows for {query}", has_rows)
        print(f"promql    {len(rows)} rows  {query}")

    # The receiver is stopped for a while, then it accepts connections without replying. No batch of the agent may be lost.
    def times():
        lines = ask(f"http://{victoria}{prefix}/api/v1/export?" + urllib.parse.urlencode({"match[]": "tf_node_metrics_gpu_count"}))
        found = [json.loads(line) for line in lines.splitlines()]
        # A batch that was sent twice counts once: the reply to the first may have been lost.
        return sorted({time for series in found for time in series["timestamps"]})

    def figure(name):
        lines = ask(f"http://{agent.address}/metrics", token=agent.read_token).splitlines()
        return float(next(line.split()[-1] for line in lines if line.startswith(name)))

    def none_is_missing(since, made):
        arrived = times()
        return len([at for at in arrived if at > since]) >= made and len(arrived) >= figure("remora_agent_push_batches_total")
    until("rows arrive", lambda: len(times()) >= 2)

    def outage(what, seconds, begin, end):
        begin()
        began, before = time.time() * 1000, figure("remora_agent_push_batches_total")
        time.sleep(seconds)
        made = figure("remora_agent_push_batches_total") - before
        end()
        if made < seconds / interval - 2:
            sys.exit(f"FAIL: only {made:.0f} batches were made in {seconds:.0f} s")
        until("all batches of the outage arrive", lambda: none_is_missing(began, made))
        if figure("remora_agent_push_dropped_bytes_total"):
            sys.exit("FAIL: measurements were dropped")
        gaps = [after - before for before, after in zip(times(), times()[1:])]
        print(f"outage    {what} for {seconds:.0f} s: {made:.0f} batches made meanwhile, all arrived; longest gap {max(gaps) / 1000:.1f} s")
        if max(gaps) > 1000 * interval * 5:
            sys.exit("FAIL: measurements are missing")
    outage("stopped", arguments.outage, lambda: stop(receiver), start_victoria)
    receiver = PROCESSES[-1]
    outage("hanging", arguments.outage / 4, lambda: receiver.send_signal(signal.SIGSTOP), lambda: receiver.send_signal(signal.SIGCONT))
    for table in ["tf_gpu_usage_compute_percentage", "tf_worker_usage_memory_bytes", "tf_node_metrics_allocated_tflops"]:
        answer = json.loads(ask(f"http://{victoria}{prefix}/api/v1/query?" + urllib.parse.urlencode({"query": f"last_over_time({table}[5m])"})))
        rows = answer["data"]["result"]
        if not rows:
            sys.exit(f"FAIL: VictoriaMetrics has no {table}")
        print(f"victoria  {table} = {rows[0]['value'][1]} {rows[0]['metric']}")
    stop(agent.process)

    # InfluxDB accepts the same lines with their types, and runs the queries of the page.
    influx, rpc = f"127.0.0.1:{free_port()}", f"127.0.0.1:{free_port()}"
    (folder / "influx.conf").write_text(
        f'bind-address = "{rpc}"\nreporting-disabled = true\n[meta]\n  dir = "{folder}/influx/meta"\n[data]\n'
        f'  dir = "{folder}/influx/data"\n  wal-dir = "{folder}/influx/wal"\n[http]\n  bind-address = "{influx}"\n')
    start("influxd", [arguments.influxd, "-config", folder / "influx.conf"], folder)
    until("InfluxDB answers", lambda: ask(f"http://{influx}/ping") == "")
    ask(f"http://{influx}/query", urllib.parse.urlencode({"q": "CREATE DATABASE public"}).encode())
    second = folder / "second"
    second.mkdir()
    agent = Agent(arguments.remora, second, f"http://{influx}/write?db=public&precision=ms", 1.0)
    allocation = agent.api("allocations", {"percent": 50, "name": "w1", "workload": "load", "namespace": "ns"})
    client["REMORA_URL"] = allocation["url"]
    start("busy2", [arguments.busy, "seconds", "100000"], folder, env=client)
    for query in queries(arguments.page, "sql"):
        def has_rows(query=query):
            data = urllib.parse.urlencode({"q": query, "db": "public"})
            answer = json.loads(ask(f"http://{influx}/query?{data}"))
            return answer["results"][0]["series"][0]["values"]
        rows = until(f"InfluxDB returns rows for {query}", has_rows)
        print(f"influxql  {len(rows)} rows  {query}")
    stop(agent.process)


if __name__ == "__main__":
    main()
