"""The launcher of the old images hands everything on, and ends as what it started ended."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[3]
AWS_S = """
import argparse, importlib.util, os, subprocess, sys

def words(arguments):
    # Truths become flags, and the rest goes through a shell.
    for name, value in zip(arguments[::2], arguments[1::2]):
        if value == "True":
            yield name
        elif value != "False":
            yield from (name, value)

if os.environ.get("SPAWNED"):
    script, *sys.argv[1:] = sys.argv[1:]
    specification = importlib.util.spec_from_file_location("started", script)
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    module._mp_fn(0)
else:
    parser = argparse.ArgumentParser()
    parser.add_argument("--training_script")
    known, rest = parser.parse_known_args()
    how = [] if os.environ["STYLE"] == "runs" else ["-m", "torch_xla.distributed.sm_dist"]
    command = [sys.executable, *how, known.training_script, *words(rest)]
    sys.exit(subprocess.call(" ".join(command), shell=True, env={**os.environ, "SPAWNED": "1"}))
"""
"""What is known of AWS's, which is in its images only."""
SCRIPT = """
import json, os, sys
from beside import NAME

def main():
    gpus = os.environ.get("GPU_NUM_DEVICES")
    print(json.dumps([sys.argv, NAME, gpus]))
    sys.exit(5)

def _mp_fn(index):
    main()

if __name__ == "__main__":
    main()
"""
DECLARED = {
    "seed": 7,
    "fp16": True,
    "verbose": False,
    "title": "two words; $HOME",
    "note": "",
    "quote": "it's",
    "n": 2,
    "sizes": {"b": 1, "a": 2},
}
PASSED = [
    *("--fp16", "True", "-n", "2", "--note", "", "--quote", "it's", "--seed", "7"),
    *("--sizes", "a=2,b=1", "--title", "two words; $HOME", "--verbose", "False"),
]


@pytest.fixture
def code(tmp_path: Path) -> Path:
    """A folder with a program, with AWS's launcher where Python finds it, and with the product.

    The product is linked, since AWS's launcher goes through a shell and this clone's path may have
    a space, as no path in an image has.
    """
    (tmp_path / "compilegate").symlink_to(ROOT / "compilegate")
    package = tmp_path / "torch_xla" / "distributed"
    package.mkdir(parents=True)
    for folder in (package.parent, package):
        (folder / "__init__.py").touch()
    (package / "sm_dist.py").write_text(AWS_S)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "train.py").write_text(SCRIPT)
    (tmp_path / "mine" / "beside.py").write_text("NAME = 'beside'\n")
    return tmp_path


def launched(
    code: Path, *arguments: str, style: str = "calls", **told: str
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "compilegate/job/launch/sm_dist.py", *arguments],
        cwd=code,
        env={
            "PYTHONPATH": str(code),
            "PATH": os.environ["PATH"],
            "STYLE": style,
            **told,
        },
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize("style", ["calls", "runs"])
def test_a_script_gets_what_was_declared_truths_included_and_its_exit_status_comes_back(
    code: Path, style: str
) -> None:
    """However AWS's launcher starts what it is given."""
    hyperparameters = json.dumps({**DECLARED, "training_script": "mine/train.py"})
    # The toolkit passes the same as arguments, in which nothing tells True from "True".
    done = launched(code, *PASSED, style=style, SM_HPS=hyperparameters)
    assert done.returncode == 5, done.stderr
    arguments, beside, gpus = json.loads(done.stdout)
    assert arguments == ["mine/train.py", *PASSED]
    assert (beside, gpus) == ("beside", None)


def test_without_the_toolkit_s_variable_the_arguments_are_passed_as_they_are(code: Path) -> None:
    own = ["--fp16", "True", "--verbose", "False", "--title", "two words; $HOME"]
    done = launched(code, *own, "--training_script", "mine/train.py")
    assert json.loads(done.stdout)[0] == ["mine/train.py", *own]


@pytest.mark.parametrize(
    ("told", "gpus"),
    [
        ({"SM_NUM_GPUS": "4"}, "4"),
        ({"SM_NUM_GPUS": "4", "GPU_NUM_DEVICES": "2"}, "2"),
        ({"SM_NUM_GPUS": "0"}, None),
    ],
    ids=str,
)
def test_torch_xla_is_told_the_number_of_gpus_where_the_image_does_not_say(
    code: Path, told: dict[str, str], gpus: str | None
) -> None:
    done = launched(code, "--training_script", "mine/train.py", **told)
    assert json.loads(done.stdout)[2] == gpus


def test_a_script_without_the_function_that_is_called_hears_of_it(code: Path) -> None:
    (code / "mine" / "train.py").write_text("print('trained')\n")
    done = launched(code, "--training_script", "mine/train.py")
    assert done.returncode == 1
    assert "mine/train.py has no function _mp_fn(index)" in done.stderr


def test_no_script_is_a_sentence(code: Path) -> None:
    done = launched(code, "--seed", "7")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "error: the hyperparameter training_script is missing\n"
