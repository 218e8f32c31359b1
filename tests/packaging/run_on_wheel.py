"""Run the tests against the built wheel: `run_on_wheel.py [arguments of pytest]`.

A fresh environment holds the wheel; the libraries come from the environment that runs this file.
The tests are copied, with their imports rewritten as the wheel's are, to a folder where the
repository's packages cannot be found.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from hatch_build import IGNORED, INNER, rewrite_tree  # noqa: E402

MODULE_IN_STRING = re.compile(rf"""(["'])({"|".join(INNER)})\.([a-z_]+)[\w.]*\1""")
COPIED = (
    "tests",
    "examples",
    "demo",
    "docs",
    "benchmarks",
    "pyproject.toml",
    "README.md",
    "ARCHITECTURE.md",
)


def build_wheel(folder: Path) -> Path:
    """Build the wheel into `folder`, without a network."""
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    return next(folder.glob("*.whl"))


def install(wheel: Path, folder: Path) -> Path:
    """Install `wheel` alone into a new environment in `folder`; returns its Python."""
    venv.create(folder, symlinks=True, with_pip=False)
    python = folder / "bin" / "python"
    pip = [
        sys.executable,
        "-m",
        "pip",
        "--python",
        str(python),
        "--quiet",
        "--disable-pip-version-check",
    ]
    subprocess.run([*pip, "install", "--no-deps", "--no-index", str(wheel)], check=True)
    # A path in a .pth file is not searched for .pth files in turn: the editable install there stays
    # unseen.
    site = next(folder.glob("lib/python*/site-packages"))
    (site / "libraries.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return python


def copy_tests(folder: Path) -> None:
    """Copy the tests and what they read to `folder`, with imports as in the wheel."""
    for name in COPIED:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, folder / name, ignore=IGNORED)
        elif (ROOT / name).is_file():
            shutil.copy2(ROOT / name, folder)
    shutil.rmtree(folder / "tests" / "packaging")  # its subject is the repository
    rewrite_tree(folder)
    for path in (folder / "tests").rglob("*.py"):
        path.write_text(MODULE_IN_STRING.sub(_renamed, path.read_text("utf-8")), "utf-8")


def _renamed(found: re.Match[str]) -> str:
    """Tests name modules in strings, too, to set their constants; a string that only looks alike
    stays."""
    head = ROOT / found[2] / found[3]
    return (
        f"{found[1]}sqlengine.{found[0][1:]}"
        if head.is_dir() or head.with_suffix(".py").is_file()
        else found[0]
    )


def main(arguments: list[str]) -> int:
    with tempfile.TemporaryDirectory(prefix="sqlengine-wheel-tests-") as temporary:
        folder = Path(temporary)
        python = install(build_wheel(folder / "dist"), folder / "environment")
        work = folder / "work"
        work.mkdir()
        copy_tests(work)
        if (ROOT.parent / "shared").is_dir():
            # Beside the tests, as in the repository.
            (folder / "shared").symlink_to(ROOT.parent / "shared")
        environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
        return subprocess.run(
            [python, "-m", "pytest", "tests", *arguments], cwd=work, env=environment
        ).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
