"""The registered model is unpacked, scored by the user's own script, and noted."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from compilegate.gate.evidence import read_evidence
from compilegate.job.evidence import Origin, outputs_digest

pytestmark = pytest.mark.slow

PROJECT = Path(__file__).parents[3]
SCRIPT = """
import argparse, numpy as np
from pathlib import Path
from compilegate.job.evidence import Examples, write_examples
parser = argparse.ArgumentParser()
for name in ("--model-dir", "--data-dir", "--output-dir"):
    parser.add_argument(name, type=Path)
args = parser.parse_args()
right = float((args.model_dir / "sub" / "model.txt").read_text())
rows = (args.data_dir / "rows.txt").read_text().split()
scores = np.tile([right, 1.0 - right], (len(rows), 1))
labels = np.zeros(len(rows), dtype=np.int64)
write_examples(args.output_dir, Examples(np.array(rows), labels, scores, -np.log(scores[:, 0])))
"""


def run(folder: Path) -> subprocess.CompletedProcess[str]:
    (folder / "score.py").write_text(SCRIPT)
    (folder / "data").mkdir()
    (folder / "data" / "rows.txt").write_text("a b c")
    (folder / "in").mkdir(exist_ok=True)
    return subprocess.run(
        [sys.executable, "-m", "compilegate.job.launch.champion", "score", "in", "data", "out"],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": f"{PROJECT}{os.pathsep}{folder}"},
        capture_output=True,
        text=True,
        check=False,
    )


def model(folder: Path, member: tarfile.TarInfo, content: bytes = b"0.75") -> None:
    archive = folder / "in" / "model" / "model.tar.gz"
    archive.parent.mkdir(parents=True)
    with tarfile.open(archive, "w:gz") as stored:
        member.size = len(content) if member.isfile() else 0
        stored.addfile(member, io.BytesIO(content))


def test_its_examples_become_evidence_of_the_champion(tmp_path: Path) -> None:
    model(tmp_path, tarfile.TarInfo("sub/model.txt"))
    done = run(tmp_path)
    assert (done.returncode, done.stdout) == (0, "the registered model was scored on 3 examples\n")
    record = read_evidence(tmp_path / "out" / "evidence")
    assert (record.evidence.arm, record.evidence.origin) == ("champion", Origin.SCORED)
    assert record.examples is not None
    assert record.examples.ids.tolist() == ["a", "b", "c"]
    assert record.evidence.digests["outputs"] == outputs_digest(record.examples)
    assert len(record.evidence.digests["model"]) == 64
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["evidence"]


def test_before_any_model_is_registered_the_evidence_says_so(tmp_path: Path) -> None:
    assert run(tmp_path).returncode == 0
    record = read_evidence(tmp_path / "out" / "evidence")
    assert (record.evidence.origin, record.examples) == (Origin.ABSENT, None)


@pytest.mark.parametrize(
    ("name", "kind"), [("../model.txt", tarfile.REGTYPE), ("a", tarfile.SYMTYPE)]
)
def test_an_archive_that_reaches_out_of_its_folder_is_refused(
    tmp_path: Path, name: str, kind: bytes
) -> None:
    member = tarfile.TarInfo(name)
    member.type, member.linkname = kind, "/etc/passwd"
    model(tmp_path, member)
    done = run(tmp_path)
    assert done.returncode == 1
    assert done.stderr.startswith("error: the registered model cannot be scored: model.tar.gz: ")
    assert not (tmp_path / "out" / "evidence").exists()
