"""Checks everything in deploy/ with hadolint, helm, Kubernetes' schemas and systemd.

Environment: REMORA (the program), PROVIDER (the library), DEPLOY (the folder), SCRATCH (a folder for downloads). Prints one line per check.
"""

import base64
import glob
import json
import os
import secrets
import shutil
import ssl
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import urllib.request

import kubernetes_validate
import yaml

from helm import helm

DEPLOY = os.environ["DEPLOY"]
SCRATCH = os.environ["SCRATCH"]
REMORA = os.environ["REMORA"]
PROVIDER = os.environ["PROVIDER"]
BIN = os.path.dirname(sys.executable)
# The oldest supported version, and the newest whose schemas the package has.
KUBERNETES = ["1.29", "1.37"]
# Typical chart settings; the first is the default.
VALUES = {
    "as it is": [],
    "for AMD GPUs": ["--values", "values-amd.yaml"],
    "for NVIDIA GPUs": ["--values", "values-nvidia.yaml"],
    "with a board": ["--set", "board.enabled=true", "--set", "board.databaseSecret=db"],
    "with everything": [
        "--values", "values-amd.yaml", "--set", "board.enabled=true", "--set", "agent.push.url=http://db:4000/write",
        "--set", "agent.software[0].model=mi210", "--set", "agent.software[0].memory=17179869184", "--set", "agent.software[0].count=2",
        "--set", "agent.prometheus.serviceMonitor=true", "--set", "agent.hostNetwork=false",
        "--set", "agent.networkPolicy.workersFrom[0].namespaceSelector.matchLabels.gpus=yes",
    ],
    "with a certificate and tokens of the operator": [
        "--set", "agent.tls.secretName=agent-tls", "--set", "agent.tokensSecret=agent-tokens", "--set", "agent.prometheus.serviceMonitor=true",
    ],
    "without TLS and with open metrics": [
        "--set", "agent.tls.enabled=false", "--set", "agent.workerTls=off", "--set", "agent.openMetrics=true",
        "--set", "agent.prometheus.annotations=true", "--set", "agent.networkPolicy.enabled=false",
    ],
}
# Custom resources of the Prometheus operator, for which Kubernetes has no schema.
OTHERS = ["ServiceMonitor"]

failed = 0


def say(claim, problem=""):
    global failed
    failed += bool(problem)
    print(f"FAILED  {claim}: {problem.strip()}" if problem else f"ok      {claim}", flush=True)


def run(*command, **more):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=120, **more)
    return done.returncode, done.stdout


def images():
    for path in sorted(glob.glob(DEPLOY + "/images/*.Dockerfile")):
        code, text = run(BIN + "/hadolint", "--no-color", "--failure-threshold", "info", path)
        say(f"hadolint: {os.path.basename(path)}", code and text)
    script = DEPLOY + "/images/install-rocm.sh"
    for arguments, word in [
        ([], "usage"), (["seven"], "no version"), (["7.10.0", "mi300x"], "no family"), (["7.10.0", "gfx94X-dcgpu", "beta"], "no channel"),
        (["7.10.0", "gfx94X/../../x"], "letters"), (["7.10.0;id"], "letters"),
    ]:
        code, text = run("sh", script, *arguments)
        say(f"install-rocm {' '.join(arguments)} is refused", "" if code == 1 and word in text else text or "it was not")
    with tempfile.TemporaryDirectory() as folder:
        os.makedirs(folder + "/tree/lib")
        open(folder + "/tree/lib/libamdhip64.so.7", "w").close()
        archive = folder + "/therock-dist-linux-gfx90X-dcgpu-7.10.0.tar.gz"
        with tarfile.open(archive, "w:gz") as tar:
            tar.add(folder + "/tree", ".")
        environment = {**os.environ, "ROCM_TARBALLS": "file://" + folder, "ROCM_PREFIX": folder + "/opt"}
        code, text = run("sh", script, "7.10.0", "gfx90X-dcgpu", env=environment)
        there = os.path.exists(folder + "/opt/rocm/lib/libamdhip64.so.7")
        say("install-rocm installs an archive and leads /opt/rocm there", (code or not there) and text)
        code, text = run("sh", script, "7.10.0", "gfx90X-dcgpu", env={**environment, "ROCM_SHA256": "0" * 64})
        say("install-rocm refuses an archive with another sum", "" if code == 1 and "not the one" in text else text)
        code, text = run("sh", script, "7.11.0", "gfx90X-dcgpu", env=environment)
        say("install-rocm says what is missing", "" if code == 1 and "there is nothing at" in text else text)


def chart():
    program, folder = helm(SCRATCH), DEPLOY + "/helm/remora"
    code, text = run(program, "lint", "--strict", folder)
    say("helm lint", code and text)
    code, text = run(program, "template", "test", folder, "--set", "agent.port=0")
    say("an invalid value is rejected", "" if code and "agent" in text else text)
    code, text = run(program, "template", "test", folder, "--set", "agent.prometheus.annotations=true")
    say("annotations without open metrics are rejected", "" if code and "openMetrics" in text else text or "they were not")
    for title, arguments in VALUES.items():
        arguments = [folder + "/" + word if word.endswith(".yaml") else word for word in arguments]
        code, text = run(program, "template", "test", folder, "--namespace", "remora", *arguments)
        if code:
            say(f"the chart {title}", text)
            continue
        objects = [one for one in yaml.safe_load_all(text) if one]
        known = [one for one in objects if one["kind"] not in OTHERS]
        problems = [problem for version in KUBERNETES for one in known for problem in schema(one, version)]
        kinds = ", ".join(sorted(one["kind"] for one in objects))
        say(f"the chart {title} is valid for Kubernetes {' and '.join(KUBERNETES)} ({kinds})", "; ".join(problems))
        problems = list(security(objects, "operator" in title, "without TLS" not in title))
        say(f"the chart {title} has secure settings", "; ".join(problems))
        for one in objects:
            if one["kind"] == "ConfigMap":
                say(f"the agent accepts the configuration of the chart {title}", agent(one["data"]["agent.toml"]))


def security(objects, given, guarded):
    """Yields the security problems of the agent's settings."""
    (agents,) = [one["spec"]["template"]["spec"] for one in objects if one["kind"] == "DaemonSet"]
    (container,) = agents["containers"]
    scheme = "HTTPS" if guarded else "HTTP"
    for probe, path in [("startupProbe", "/healthz"), ("livenessProbe", "/healthz"), ("readinessProbe", "/readyz")]:
        found = container[probe]["httpGet"]
        if (found["path"], found["scheme"]) != (path, scheme):
            yield f"{probe} is {found}"
    pods = [one["spec"]["template"]["spec"] for one in objects if one["kind"] in ("DaemonSet", "StatefulSet")]
    for pod in pods:
        if not pod["securityContext"].get("runAsNonRoot") or pod["securityContext"]["seccompProfile"]["type"] != "RuntimeDefault":
            yield f"a pod has {pod['securityContext']}"
        for one in pod["containers"] + pod.get("initContainers", []):
            context = one["securityContext"]
            if context["allowPrivilegeEscalation"] or not context["readOnlyRootFilesystem"] or context["capabilities"]["drop"] != ["ALL"]:
                yield f"container {one['name']} has {context}"
            if context.get("capabilities", {}).get("add") not in (None, ["CHOWN"]) or context.get("privileged"):
                yield f"container {one['name']} has privileges: {context}"
    (config,) = [tomllib.loads(one["data"]["agent.toml"]) for one in objects if one["kind"] == "ConfigMap"]
    if config["open_metrics"] == guarded or ("tls_self_signed" in config or "tls_cert" in config) != guarded:
        yield f"the agent has {config}"
    stored = [one for one in objects if one["kind"] == "Secret"]
    if given == bool(stored):
        yield f"{len(stored)} secrets"
    for one in stored:
        tokens = [base64.b64decode(one["data"][name]) for name in ("api-token", "read-token")]
        if min(map(len, tokens)) < 32 or tokens[0] == tokens[1]:
            yield "weak tokens"
    policies = [one["spec"] for one in objects if one["kind"] == "NetworkPolicy"]
    if guarded != bool(policies):
        yield f"{len(policies)} policies"
    for policy in policies:
        api, workers = policy["ingress"]
        if not api["from"] or [port["port"] for port in api["ports"]] != [container["ports"][0]["containerPort"]]:
            yield f"the interface is open to {api}"
        if workers["ports"][0]["endPort"] <= workers["ports"][0]["port"]:
            yield f"workers have {workers}"
        if not agents.get("hostNetwork") and not workers.get("from"):
            yield "workersFrom is not passed on"
    for one in objects:
        if one["kind"] == "ServiceMonitor":
            (endpoint,) = one["spec"]["endpoints"]
            if endpoint["scheme"] != "https" or endpoint["authorization"]["credentials"]["key"] != "read-token":
                yield f"Prometheus scrapes {endpoint}"
            if given == ("insecureSkipVerify" in endpoint["tlsConfig"]):
                yield f"Prometheus checks certificates by {endpoint['tlsConfig']}"


def schema(one, version):
    try:
        kubernetes_validate.validate(one, version, strict=True)
    except Exception as error:
        yield f"{one['kind']} {one['metadata']['name']} in {version}: {error}"


def agent(text):
    """Starts a real agent with this configuration and the built provider library, which reports a software GPU instead of real ones."""
    config = tomllib.loads(text)
    with tempfile.TemporaryDirectory() as folder:
        values = {"provider": PROVIDER}
        for name in ["api-token", "read-token"]:
            values[name.replace("-", "_") + "_file"] = folder + "/given-" + name
            with open(os.open(folder + "/given-" + name, os.O_CREAT | os.O_WRONLY, 0o600), "w") as file:
                file.write(secrets.token_urlsafe(32))
        if "tls_cert" in config:
            values |= {"tls_cert": folder + "/tls.crt", "tls_key": folder + "/tls.key"}
            code, problem = run(
                "openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2",
                "-subj", "/CN=agent", "-out", values["tls_cert"], "-keyout", values["tls_key"],
            )
            if code:
                return problem
        replaced = lambda key, line: f'{key} = "{values[key]}"' if key in values else line
        lines = [replaced(line.split(" = ")[0], line) for line in text.splitlines()]
        path = folder + "/agent.toml"
        with open(path, "w") as file:
            file.write("\n".join(lines))
        command = [REMORA, "agent", "--config", path, "--data", folder, "--listen", "127.0.0.1:0", "--worker-host", "127.0.0.1", "--ready"]
        environment = {**os.environ, "REMORA_SOFTWARE_GPUS": "mi300x"}
        child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)
        try:
            line = child.stdout.readline().strip()
            if not line.startswith("listening on "):
                return child.communicate(timeout=10)[1]
            # The certificate is self-signed; only TLS itself is tested.
            context = ssl._create_unverified_context()
            with urllib.request.urlopen(line.removeprefix("listening on ") + "/healthz", timeout=10, context=context) as answer:
                answer.read()
        finally:
            child.terminate()
            child.wait(20)
    return "" if config["listen"].startswith("0.0.0.0:") else "it would only listen on the loopback interface"


def samples():
    for path in sorted(glob.glob(DEPLOY + "/samples/*.yaml") + glob.glob(DEPLOY + "/helm/remora/*.yaml") + [DEPLOY + "/images/metadata.yaml"]):
        code, text = run(BIN + "/yamllint", "--strict", "--config-file", os.path.dirname(__file__) + "/yamllint.yaml", path)
        say(f"yamllint: {os.path.basename(path)}", code and text)
    with open(DEPLOY + "/samples/client-pod.yaml") as file:
        say("the client sample is valid for Kubernetes", "; ".join(schema(yaml.safe_load(file), KUBERNETES[0])))
    with open(DEPLOY + "/helm/remora/values.schema.json") as file:
        json.load(file)


def units():
    if shutil.which("systemd-analyze") is None:
        return say("systemd units", "systemd-analyze is missing: apt-get install systemd")
    with tempfile.TemporaryDirectory() as folder:
        paths = []
        for path in sorted(glob.glob(DEPLOY + "/systemd/*.service")):
            name = os.path.basename(path).replace("@.", "@test.")
            with open(path) as file:
                # systemd-analyze checks that the programs exist.
                text = file.read().replace("/usr/bin/remora", REMORA)
            paths.append(os.path.join(folder, name))
            with open(paths[-1], "w") as file:
                file.write(text)
        for path in paths:
            code, text = run("systemd-analyze", "verify", "--man=no", "--recursive-errors=no", path)
            say(f"systemd-analyze: {os.path.basename(path)}", (code or text.strip()) and text)


images()
chart()
samples()
units()
print(f"{failed} failed" if failed else "all checks passed")
sys.exit(1 if failed else 0)
