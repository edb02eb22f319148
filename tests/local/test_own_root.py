"""`/opt/ml` is where the program says, and nothing that it writes lands outside its sandbox."""

from __future__ import annotations

import os
import sys
import tempfile
import textwrap
import threading
from pathlib import Path
from typing import Any

import pytest

from compilegate.execution.events import PathsChosen
from compilegate.execution.status import ExecutionStatus
from compilegate.local.errors import StepError
from compilegate.local.jobs.attempt import HOST_CHANGED, check_unchanged, stamps
from compilegate.local.jobs.launcher import Bind, JobCommand, RunningJob, View
from compilegate.local.jobs.sandbox import (
    OWN_ROOT_VARIABLE,
    SHARED_VARIABLE,
    choose_root,
)
from tests.local.conftest import Workbench

pytestmark = pytest.mark.slow

HARDCODED = """
    import os
    base = "/opt" + "/ml/processing/out"
    os.makedirs(base, exist_ok=True)
    open(base + "/f", "w").write("x")
"""


@pytest.fixture
def own_root(tmp_path: Path) -> None:
    """Jobs have a root of their own; without it these programs would write to this machine."""
    chosen = choose_root(tmp_path / "home")
    if not chosen.own:
        pytest.skip(chosen.sentence)


@pytest.mark.usefixtures("own_root")
def test_a_program_that_names_opt_ml_itself_is_stored_and_writes_nowhere_else(bench: Any) -> None:
    before = Path("/opt/ml").exists()
    result = bench.run(bench.processing("job", HARDCODED, outputs=["out"]), shared=())
    assert Path("/opt/ml").exists() is before
    assert result.status is ExecutionStatus.SUCCEEDED, result.failure
    assert bench.store.exists("s3://bucket/job/out/f")


def test_an_execution_says_how_its_jobs_find_opt_ml(
    bench: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.run(bench.processing("job"))
    monkeypatch.setenv(OWN_ROOT_VARIABLE, "0")
    bench.run(bench.processing("job"))
    told = [event for event in bench.events if isinstance(event, PathsChosen)]
    assert not told[1].own_root
    assert f"jobs share this machine's root, because {OWN_ROOT_VARIABLE} is 0: " in told[1].sentence


def test_without_a_root_of_its_own_a_program_that_wrote_to_the_machines_opt_ml_fails(
    tmp_path: Path,
) -> None:
    (tmp_path / "kept").write_text("there before")
    before = stamps(tmp_path.rglob("*"))
    check_unchanged(before, tmp_path.rglob("*"), HOST_CHANGED)
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "weights").write_text("lost")
    with pytest.raises(StepError, match=f"wrote to {tmp_path}.* outside its sandbox"):
        check_unchanged(before, tmp_path.rglob("*"), HOST_CHANGED)


@pytest.mark.parametrize("rewriting", [False, True])
def test_a_home_with_spaces_is_as_good_as_any(tmp_path: Path, rewriting: bool) -> None:
    bench = Workbench(tmp_path / "my project" / "a home")
    step = bench.processing("job", outputs=["out"])
    script = 'echo hi > /opt/ml/processing/out/f; python3 -c "print(1)" >> /opt/ml/processing/out/f'
    step["Arguments"]["AppSpecification"]["ContainerEntrypoint"] = ["/bin/sh", "-c", script]
    result = bench.run(step, own_root=False if rewriting else None)
    assert result.status is ExecutionStatus.SUCCEEDED, result.failure
    assert bench.store.read("s3://bucket/job/out/f") == b"hi\n1\n"
    assert not list(tmp_path.glob("my"))


@pytest.mark.usefixtures("own_root")
def test_what_a_job_writes_beside_its_folders_stays_in_its_sandbox(bench: Any) -> None:
    code = """
        import os
        for path in ("/opt/ml/mine/x", "/of_its_own/y", "/tmp/z"):
            os.makedirs(os.path.dirname(path), exist_ok=True)
            open(path, "w").write("here")
    """
    result = bench.run(bench.processing("job", code), shared=())
    assert result.status is ExecutionStatus.SUCCEEDED, result.failure
    sandbox = result.steps["job"].log.parent
    assert (sandbox / "root/of_its_own/y").read_text() == "here"
    assert sorted(path.name for path in (sandbox / "root").iterdir()) == ["of_its_own"]
    assert not Path("/of_its_own").exists()
    assert not Path("/opt/ml/mine").exists()
    assert not Path("/tmp/z").exists()


@pytest.mark.usefixtures("own_root")
def test_a_folder_of_this_machine_at_a_jobs_path_may_go_while_it_runs(
    bench: Any, tmp_path: Path
) -> None:
    """Somebody's /opt/ml: the kernel ends what is mounted on a folder that is removed."""
    # Not below /tmp, which every job has for itself.
    theirs = Path(tempfile.mkdtemp(dir=Path(__file__).parent))
    gate = tmp_path / "shared" / "gate"
    gate.parent.mkdir()
    os.mkfifo(gate)

    def remove() -> None:
        with gate.open("w") as opened:  # as soon as the job waits for it
            theirs.rmdir()
            opened.write("gone")

    code = f"""
        open({str(gate)!r}).read()
        open({str(theirs / "f")!r}, "w").write("kept")
    """
    step = bench.processing("job", code)
    output = {"S3Uri": "s3://bucket/out", "LocalPath": str(theirs)}
    step["Arguments"]["ProcessingOutputConfig"]["Outputs"] = [
        {"OutputName": "out", "S3Output": output}
    ]
    threading.Thread(target=remove, daemon=True).start()
    result = bench.run(step, shared=(gate.parent,))
    assert result.status is ExecutionStatus.SUCCEEDED, result.failure
    assert bench.store.read("s3://bucket/out/f") == b"kept"
    assert not theirs.exists()


@pytest.mark.usefixtures("own_root")
def test_the_rest_of_the_machine_is_read_only_to_a_job(bench: Any) -> None:
    outside = Path(__file__).with_name("written_by_a_job")
    code = f"open({str(outside)!r}, 'w')"
    result = bench.run(bench.processing("job", code), shared=())
    assert result.status is ExecutionStatus.FAILED
    assert any("Read-only file system" in line for line in result.steps["job"].failure.last_lines)
    assert not outside.exists()


def test_a_declared_path_may_be_anywhere(bench: Any) -> None:
    folders = ["/usr/local/data/x", "/tmp/data", "/data", "/data/in"]
    step = bench.processing("job", "import sys; [open(f + '/f', 'w') for f in sys.argv[1:]]")
    step["Arguments"]["AppSpecification"]["ContainerArguments"] = folders
    step["Arguments"]["ProcessingOutputConfig"]["Outputs"] = [
        {"OutputName": f"o{i}", "S3Output": {"S3Uri": f"s3://bucket/{i}", "LocalPath": folder}}
        for i, folder in enumerate(folders)
    ]
    result = bench.run(step)
    assert result.status is ExecutionStatus.SUCCEEDED, result.failure
    assert all(bench.store.exists(f"s3://bucket/{i}/f") for i in range(len(folders)))


def test_a_job_keeps_its_user(bench: Any) -> None:
    result = bench.run(bench.processing("job", "import os; print(os.getuid(), os.getgid())"))
    assert result.steps["job"].log.read_text().split() == [str(os.getuid()), str(os.getgid())]


def test_a_training_script_without_a_first_line_is_run_by_a_shell(bench: Any) -> None:
    script = '\n\nprintf "%s|" "$@" \n'
    step = bench.training(
        "train", script, program="launcher.sh", hyperparameters={"text": '"it\'s a; b"'}
    )
    result = bench.run(step)
    assert result.status is ExecutionStatus.SUCCEEDED, result.failure
    assert result.steps["train"].log.read_text() == "--text|it's a; b|"


def test_this_interpreter_is_what_a_jobs_python_stands_on(bench: Any) -> None:
    result = bench.run(bench.processing("job", "import sys; print(sys.base_prefix, sys.prefix)"))
    base, prefix = result.steps["job"].log.read_text().split()
    assert base == sys.base_prefix
    assert prefix != sys.prefix


def test_a_root_that_cannot_be_made_says_what_and_why(tmp_path: Path) -> None:
    (tmp_path / "root").mkdir()
    gone = tmp_path / "gone"
    command = JobCommand(
        argv=["/bin/true"],
        working_directory="/",
        environment={},
        cpus=(),
        max_seconds=60,
        grace_seconds=0,
        view=View(tmp_path / "root", [Bind(gone, "/data")]),
    )
    end = RunningJob().run(command, tmp_path / "log.txt", print)
    assert end.reason == "not started"
    assert end.error.startswith("its own root could not be made: at ")
    assert not end.succeeded


@pytest.mark.usefixtures("own_root")
def test_a_job_finds_its_host_by_name(bench: Any) -> None:
    code = "import socket; print(socket.gethostbyname('algo-1'))"
    result = bench.run(bench.processing("job", code))
    assert result.steps["job"].log.read_text() == "127.0.0.1\n"


@pytest.mark.usefixtures("own_root")
@pytest.mark.parametrize("by_variable", [False, True], ids=["option", "variable"])
def test_a_job_writes_to_shared_folders_and_nowhere_else(
    bench: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, by_variable: bool
) -> None:
    shared, other = tmp_path / "shared", tmp_path / "other"
    shared.mkdir()
    other.mkdir()
    if by_variable:
        monkeypatch.setenv(SHARED_VARIABLE, f"{shared}{os.pathsep}{tmp_path / 'absent'}")
    code = f"open({str(shared / 'written')!r}, 'w').write('x')"
    options = {"shared": () if by_variable else (shared,)}
    result = bench.run(bench.processing("job", code), **options)
    assert result.status is ExecutionStatus.SUCCEEDED, result.steps["job"].failure
    assert (shared / "written").read_text() == "x"
    code = f"open({str(other / 'written')!r}, 'w').write('x')"
    result = bench.run(bench.processing("job", code), **options)
    assert result.status is ExecutionStatus.FAILED
    assert not (other / "written").exists()


@pytest.mark.slow
@pytest.mark.usefixtures("own_root")
def test_the_script_of_a_framework_processor_unpacks_installs_and_runs(bench: Any) -> None:
    """As the SDK's FrameworkProcessor writes it."""
    script = textwrap.dedent(
        """
        #!/bin/bash

        cd /opt/ml/processing/input/code/
        tar -xzf sourcedir.tar.gz

        # Exit on any error. SageMaker uses error code to mark failed job.
        set -e

        if [[ -f 'requirements.txt' ]]; then
            # Some py3 containers has typing, which may breaks pip install
            pip uninstall --yes typing

            pip install -r requirements.txt
        fi

        python prepare.py "$@"
        """
    )
    code = """
        import sys, packaging
        print("told", *sys.argv[1:])
        open("/opt/ml/processing/out/f", "w").write("made")
    """
    source = bench.source(code, "prepare.py", **{"requirements.txt": "packaging\n"})
    bench.put("s3://bucket/fp/sourcedir.tar.gz", bench.store.read(source))
    bench.put("s3://bucket/fp/runproc.sh", script)
    step = bench.processing("job", outputs=["out"], arguments=["--rate", "1"])
    step["Arguments"]["AppSpecification"]["ContainerEntrypoint"] = [
        "/bin/bash",
        "/opt/ml/processing/input/entrypoint/runproc.sh",
    ]
    step["Arguments"]["ProcessingInputs"] = [
        {
            "InputName": name,
            "S3Input": {"S3Uri": uri, "LocalPath": f"/opt/ml/processing/input/{name}"},
        }
        for name, uri in {
            "code": "s3://bucket/fp/sourcedir.tar.gz",
            "entrypoint": "s3://bucket/fp/runproc.sh",
        }.items()
    ]
    result = bench.run(step, shared=())
    assert result.status is ExecutionStatus.SUCCEEDED, result.steps["job"].failure
    assert result.steps["job"].log.read_text().splitlines()[-1] == "told --rate 1"
    assert bench.store.read("s3://bucket/job/out/f") == b"made"
