"""`/opt/ml` is where the program says, and nothing that it writes lands outside its sandbox."""

from __future__ import annotations

import json
import os
import sys
import tempfile
import threading
from pathlib import Path

import pytest

from compilegate.execution.events import PathsChosen
from compilegate.local.errors import StepError
from compilegate.local.jobs.attempt import HOST_CHANGED, check_unchanged, stamps
from compilegate.local.jobs.sandbox import (
    OWN_ROOT_VARIABLE,
    SHARED_VARIABLE,
    Sandbox,
    choose_root,
)
from tests.local.conftest import FOLDER, Json, Workbench, changed, log_of

pytestmark = pytest.mark.slow


@pytest.fixture
def own_root(tmp_path: Path) -> None:
    """Jobs have a root of their own; without it these programs would write to this machine."""
    own, sentence = choose_root(tmp_path / "home")
    if not own:
        pytest.skip(sentence)


ANYWHERE = """
import json, os, subprocess, sys, tempfile
source, *folders = sys.argv[1:]
for folder in [*folders, os.environ["TARGET"]]:
    with open(folder + "/f", "w") as file:
        file.write(open(source.removeprefix("--in=") + "/x").read())
for name in ("HOME", "TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR"):
    os.makedirs(os.environ[name], exist_ok=True)
    assert os.listdir(os.environ[name]) == [], name
assert len(tempfile.gettempdir()) < 40
child = "import os, signal; os.setsid(); print(os.getpid(), flush=True); signal.pause()"
process = subprocess.Popen(
    [sys.executable, "-c", child], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
)
print(json.dumps({
    "user": [os.getuid(), os.getgid()],
    "base": sys.base_prefix,
    "prefix": sys.prefix,
    "file": tempfile.mkstemp()[1],
    "child": int(process.stdout.readline()),
}))
"""
BY_SHELL = """
echo hi > /opt/ml/processing/out/f; python3 -c "print(1)" >> /opt/ml/processing/out/f
"""


@pytest.mark.parametrize("rewriting", [False, True])
def test_declared_paths_may_be_anywhere_and_a_job_leaves_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rewriting: bool
) -> None:
    """In a home with spaces; the job keeps its user and what its interpreter stands on."""
    if rewriting:
        monkeypatch.setenv(OWN_ROOT_VARIABLE, "0")
    bench = Workbench(tmp_path / "my project" / "a home")
    bench.put("s3://bucket/in/x", "hello")
    folders = ["/usr/local/data/x", "/tmp/data", "/data", "/data/in"]
    outputs = "ProcessingOutputConfig.Outputs"
    members: Json = {f"{outputs}.{i}.S3Output.LocalPath": it for i, it in enumerate(folders)}
    members["Environment"] = {"TARGET": f"{FOLDER}/t"}
    anywhere = bench.processing(
        "anywhere",
        ANYWHERE,
        inputs={"in": "s3://bucket/in"},
        outputs=list("0123t"),
        arguments=[f"--in={FOLDER}/in", *folders],
    )
    by_shell = changed(
        bench.processing("by-shell", outputs=["out"]),
        {"AppSpecification.ContainerEntrypoint": ["/bin/sh", "-c", BY_SHELL]},
    )
    # A script without a first line that names its interpreter.
    script = '\n\nprintf "%s|" "$@" \n'
    text = {"text": '"it\'s a; b"'}
    train = bench.training("train", script, program="launcher.sh", hyperparameters=text)
    result = bench.succeed(changed(anywhere, members), by_shell, train)
    assert all(bench.store.read(f"s3://bucket/anywhere/{it}/f") == b"hello" for it in "0123t")
    assert bench.store.read("s3://bucket/by-shell/out/f") == b"hi\n1\n"
    assert log_of(result, "train") == "--text|it's a; b|"
    assert not list(tmp_path.glob("my"))

    seen = json.loads(log_of(result, "anywhere"))
    assert seen["user"] == [os.getuid(), os.getgid()]
    assert seen["base"] == sys.base_prefix
    assert seen["prefix"] != sys.prefix
    assert not Path(f"/proc/{seen['child']}").exists()
    file = Path(seen["file"])
    assert not file.exists()
    assert not list(result.folder.rglob(file.name))
    if rewriting:
        (chosen,) = [event for event in bench.events if isinstance(event, PathsChosen)]
        assert not chosen.own_root
        assert f"share this machine's root, because {OWN_ROOT_VARIABLE} is 0: " in chosen.sentence


@pytest.mark.usefixtures("own_root")
def test_a_job_writes_to_its_sandbox_and_to_shared_folders_and_nowhere_else(
    bench: Workbench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    by_option, by_variable, other = (tmp_path / name for name in ("option", "variable", "other"))
    for folder in (by_option, by_variable, other):
        folder.mkdir()
    monkeypatch.setenv(SHARED_VARIABLE, f"{by_variable}{os.pathsep}{tmp_path / 'absent'}")
    outside = [str(other / "x"), str(Path(__file__).with_name("written_by_a_job"))]
    code = f"""
        import os, socket
        inside = ["/opt" + "/ml/processing/out/f", "/opt" + "/ml/mine/x", "/of_its_own/y", "/tmp/z"]
        for path in [*inside, {str(by_option / "x")!r}, {str(by_variable / "x")!r}]:
            os.makedirs(os.path.dirname(path), exist_ok=True)
            open(path, "w").write("here")
        for path in {outside!r}:
            try:
                open(path, "w")
            except OSError as error:
                print(error.strerror)
        print(socket.gethostbyname("algo-1"))
    """
    before = Path("/opt/ml").exists()
    result = bench.succeed(bench.processing("job", code, outputs=["out"]), shared=(by_option,))
    assert bench.store.read("s3://bucket/job/out/f") == b"here"
    assert log_of(result, "job").splitlines() == [
        "No such file or directory",  # what is in this machine's /tmp is not there at all
        "Read-only file system",
        "127.0.0.1",
    ]
    assert [(folder / "x").exists() for folder in (by_option, by_variable, other)] == [
        *(True, True, False)
    ]
    log = result.steps["job"].log
    assert log is not None
    assert (log.parent / "root/of_its_own/y").read_text() == "here"
    assert sorted(path.name for path in (log.parent / "root").iterdir()) == ["of_its_own"]
    assert Path("/opt/ml").exists() is before
    assert not any(
        Path(path).exists() for path in (outside[1], "/of_its_own", "/opt/ml/mine", "/tmp/z")
    )


def test_only_container_paths_are_rewritten() -> None:
    sandbox = Sandbox(Path("/job"), ["/data"])
    root = sandbox.alias.name
    for text, rewritten in {
        "/opt/ml/model": f"{root}/opt/ml/model",
        "--out=/opt/ml/x": f"--out={root}/opt/ml/x",
        "/opt/ml/a:/opt/ml/b": f"{root}/opt/ml/a:{root}/opt/ml/b",
        '{"dir": "/opt/ml/x"}': f'{{"dir": "{root}/opt/ml/x"}}',
        "/data,/data/in": f"{root}/data,{root}/data/in",
    }.items():
        assert sandbox.rewrite(text) == rewritten
        assert Sandbox(Path("/job"), ["/data"], own_root=True).rewrite(text) == text
    others = ["/opt/mlflow", "/opt/ml-data", "/database", "s3://bucket/opt/ml", "/mnt/opt/ml", ""]
    assert [sandbox.rewrite(text) for text in others] == others


def test_a_job_that_wrote_to_this_machines_opt_ml_fails(tmp_path: Path) -> None:
    before = stamps(tmp_path.rglob("*"))
    check_unchanged(before, tmp_path.rglob("*"), HOST_CHANGED)
    (tmp_path / "weights").write_text("lost")
    with pytest.raises(StepError, match=f"wrote to {tmp_path}.* outside its sandbox"):
        check_unchanged(before, tmp_path.rglob("*"), HOST_CHANGED)


@pytest.mark.usefixtures("own_root")
def test_somebodys_folder_at_a_jobs_path_may_go(bench: Workbench, tmp_path: Path) -> None:
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
    step = changed(
        bench.processing("job", code, outputs=["out"]),
        {"ProcessingOutputConfig.Outputs.0.S3Output.LocalPath": str(theirs)},
    )
    threading.Thread(target=remove, daemon=True).start()
    bench.succeed(step, shared=(gate.parent,))
    assert bench.store.read("s3://bucket/job/out/f") == b"kept"
    assert not theirs.exists()


@pytest.mark.usefixtures("own_root")
def test_the_script_of_a_framework_processor_unpacks_installs_and_runs(bench: Workbench) -> None:
    """As the SDK's FrameworkProcessor writes it, an empty line first."""
    script = """
#!/bin/bash
cd /opt/ml/processing/input/code/
tar -xzf sourcedir.tar.gz
set -e
if [[ -f 'requirements.txt' ]]; then
    pip uninstall --yes typing
    pip install -r requirements.txt
fi
python prepare.py "$@"
"""
    code = 'import sys, packaging; open("/opt/ml/processing/out/f", "w").write(sys.argv[2])'
    source = bench.source({"prepare.py": code, "requirements.txt": "packaging\n"})
    bench.put("s3://bucket/fp/sourcedir.tar.gz", bench.store.read(source))
    bench.put("s3://bucket/fp/runproc.sh", script)
    inputs = {"code": "s3://bucket/fp/sourcedir.tar.gz", "entrypoint": "s3://bucket/fp/runproc.sh"}
    step = bench.processing("job", inputs=inputs, outputs=["out"], arguments=["--rate", "made"])
    command = ["/bin/bash", f"{FOLDER}/input/entrypoint/runproc.sh"]
    members: Json = {"AppSpecification.ContainerEntrypoint": command}
    for index, name in enumerate(inputs):
        members[f"ProcessingInputs.{index}.S3Input.LocalPath"] = f"{FOLDER}/input/{name}"
    bench.succeed(changed(step, members), shared=())
    assert bench.store.read("s3://bucket/job/out/f") == b"made"
