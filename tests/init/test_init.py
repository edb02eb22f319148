"""`compilegate init`: a project from a table, a script, a model or nothing, which is valid."""

from __future__ import annotations

import csv
import json
import os
import subprocess
import sys
import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from click.testing import CliRunner

from compilegate.cli import main
from compilegate.init.script import read_script
from compilegate.workload import read_workload

pytestmark = pytest.mark.slow

PROJECT = Path(__file__).parents[2]
MAIN = "from compilegate.cli import main; main()"
SCRIPT = """
import argparse
import torch
from nets import Net

parser = argparse.ArgumentParser()
parser.add_argument("--batch-size", type=int, default=48)
parser.add_argument("--lr", type=float, default=0.02)
args = parser.parse_args()
model = Net()
optimizer = torch.optim.SGD(model.parameters(), lr=args.lr)
for epoch in range(2):
    for x, y in loader:
        model(x).sum().backward()
        optimizer.step()
torch.save(model.state_dict(), "model.pt")
"""


def table(path: Path, header: str, rows: Iterable[str], encoding: str = "utf-8") -> Path:
    path.write_text("\n".join([header, *rows, ""]), encoding=encoding)
    return path


def stories(path: Path) -> Path:
    kinds = ("ship harbour captain anchor {},sea", "money loan credit interest {},bank")
    rows = (f"{n},{kinds[n % 2].format(n % 50)},{n % 7}" for n in range(200))
    return table(path, "id,headline,topic,words", rows)


def flats(path: Path) -> Path:
    """As a spreadsheet of western Europe writes it."""
    cities = (("Köln", 3.5), ("Paris", 9.25))
    areas = [20 + 37 * n % 180 for n in range(120)]
    rows = (
        f"{area};{cities[n % 2][0]};{n % 5 if n % 7 else ''};{area * cities[n % 2][1] + n / 10:.2f}"
        for n, area in enumerate(areas)
    )
    return table(path, "area;city;floor;price", rows, "cp1252")


def trees(path: Path) -> Path:
    """Whose label nobody can tell, and one row lacks."""
    rows = [f"{n % 7},{n % 5},{n % 3},{2000 + n // 12}-{1 + n % 12:02}-01" for n in range(60)]
    return table(path, "girth,height,volume,felled", [*rows, ",1,2,2020-01-01"])


def begin(folder: Path, *arguments: object, code: int = 0, answer: str = "") -> str:
    command = ["init", *map(str, arguments), "--project", str(folder)]
    done = CliRunner().invoke(main, command, answer)
    assert done.exit_code == code, done.output
    return done.output


def run(folder: Path, *command: object, **environment: str) -> None:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("CDK")}
    done = subprocess.run(
        list(map(str, command)),
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        env={**kept, "PYTHONPATH": str(PROJECT), **environment},
    )
    assert done.returncode == 0, done.stdout + done.stderr


def valid(folder: Path, name: str) -> dict[str, Any]:
    """The workload's file, which `validate` takes."""
    run(folder, sys.executable, "-c", MAIN, "validate", name)
    return tomllib.loads((folder / f"workloads/{name}.toml").read_text())


def rows_of(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


@pytest.mark.parametrize("model", [None, "prajjwal1/bert-tiny"])
def test_a_table_with_texts_is_classified(tmp_path: Path, model: str | None) -> None:
    source = stories(tmp_path / "My Stories.csv")
    written = begin(tmp_path / "p", source, *(["--model", model] if model else []))
    assert "accuracy of 0.500" in written
    declared = valid(tmp_path / "p", "my-stories")
    columns = {key: declared["data"][key] for key in ("text", "label", "id")}
    assert columns == {"text": "headline", "label": "topic", "id": "id"}
    assert declared["model"].get("id") == model
    data = tmp_path / "p/data/my-stories"
    rows = [*rows_of(data / "train.csv"), *rows_of(data / "validation.csv")]
    assert sorted(map(str, rows)) == sorted(map(str, rows_of(source)))


@pytest.mark.parametrize(
    ("label", "wanted"),
    [("price", "targets"), pytest.param("city", "labels", marks=pytest.mark.long)],
)
def test_a_table_without_texts_gets_a_program_that_trains_and_leaves_evidence(
    tmp_path: Path, label: str, wanted: str
) -> None:
    begin(tmp_path, flats(tmp_path / "flats.csv"), "--label", label)
    metrics = valid(tmp_path, "flats")["gate"]["metrics"]
    assert metrics.keys() == {{"targets": "mse", "labels": "accuracy"}[wanted]}
    held_back = rows_of(tmp_path / "data/flats/validation.csv")
    assert {row["city"] for row in held_back} == {"Köln", "Paris"}
    run(tmp_path, sys.executable, "workloads/flats/train.py", "--epochs", 2)
    with np.load(tmp_path / "compilegate-job/evidence/examples.npz") as examples:
        assert len(examples["ids"]) == len(held_back)
        assert wanted in examples


def test_an_unclear_label_is_a_question_on_a_terminal_and_a_refusal_without_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = trees(tmp_path / "trees.csv")
    assert "'girth', 'height', 'volume'" in begin(tmp_path / "p", source, code=2)
    assert not (tmp_path / "p").exists()
    monkeypatch.setattr("compilegate.cli.init.on_terminal", lambda: True)
    written = begin(tmp_path / "p", source, answer="girth\n")
    assert "(girth, height, volume): " in written
    assert "1 rows without 'girth'" in written


def test_a_script_brings_its_arguments_and_what_it_imports(tmp_path: Path) -> None:
    (tmp_path / "layers").mkdir()
    (tmp_path / "images").mkdir()
    for name, text in {
        "train_marks.py": f"{SCRIPT}accelerator = Accelerator(mixed_precision='fp16')\n",
        "nets.py": "import layers\n\n\nclass Net:\n    pass\n",
        "layers/__init__.py": "",
        "unrelated.py": "",
        "images/one.bin": "1",
    }.items():
        (tmp_path / name).write_text(text)
    written = begin(tmp_path / "p", tmp_path / "train_marks.py", "--data", tmp_path / "images")
    program = tmp_path / "p/workloads/train-marks"
    copied = {path.relative_to(program).as_posix() for path in program.rglob("*.py")}
    assert copied == {"train_marks.py", "nets.py", "layers/__init__.py"}
    assert (tmp_path / "p/data/train-marks/one.bin").read_bytes() == b"1"
    declared = valid(tmp_path / "p", "train-marks")
    assert declared["program"]["arguments"] == {"batch_size": "batch-size", "learning_rate": "lr"}
    for arm in declared["arms"].values():
        numbers = arm["batch_size"], arm["learning_rate"], arm["precision"]
        assert numbers == (48, 0.02, "fp16")
    for line in (11, 13, 16):  # the optimizer, the loop, the model that is saved
        assert f"train_marks.py, line {line}: " in written


@pytest.mark.parametrize(
    ("line", "precision"),
    [
        ("with torch.autocast('cuda', dtype=torch.bfloat16): pass", "bf16"),
        ("context = torch.amp.autocast(device_type='cuda', dtype=torch.float16)", "fp16"),
        ("with torch.autocast('cpu'): pass", "bf16"),
        ("from torch.cuda.amp import autocast\nwith autocast(): pass", "fp16"),
        ("parser.add_argument('--mixed-precision', default='fp16')\n"
         "accelerator = Accelerator(mixed_precision=args.mixed_precision)", "fp16"),
        ("parser.add_argument('--bf16')\nTrainingArguments('out', bf16=True)", "bf16"),
        ("arguments = Seq2SeqTrainingArguments('out', bf16=False, fp16=True)", "fp16"),
        ("trainer = lightning.Trainer(precision='bf16-mixed')", "bf16"),
        ("accelerator = Accelerator()", None),
        ("with torch.autocast('cuda', enabled=False): pass", None),
        # Nobody knows without running it.
        ("with torch.autocast('cuda', dtype=TYPES[args.type]): pass", None),
        ("low = torch.bfloat16\nwith torch.autocast('cuda', low): pass", None),
        ("with torch.autocast('cuda', enabled=args.mixed): pass", None),
    ],
)  # fmt: skip
def test_a_script_shows_its_precision(tmp_path: Path, line: str, precision: str | None) -> None:
    (tmp_path / "train.py").write_text(f"{SCRIPT}{line}\n")
    assert read_script(tmp_path / "train.py").settings.get("precision") == precision


def test_without_data_those_that_come_along_are_taken(tmp_path: Path, project: Path) -> None:
    begin(tmp_path, "prajjwal1/bert-tiny")
    for path in (tmp_path / "workloads/bert-tiny.toml", project / "workloads/news-topics.toml"):
        assert read_workload(path).data.source == "reuters-r8"


def test_nothing_is_overwritten_and_a_second_workload_joins(tmp_path: Path) -> None:
    (tmp_path / "cdk.json").write_text("mine")
    begin(tmp_path, stories(tmp_path / "stories.csv"))
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    begin(tmp_path, tmp_path / "stories.csv", code=2)
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before
    begin(tmp_path, tmp_path / "stories.csv", "--name", "Again!")
    assert {path: path.read_bytes() for path in before} == before
    assert read_workload(tmp_path / "workloads/again.toml").name == "again"


@pytest.mark.parametrize(
    ("name", "content", "named"),
    [
        ("mine.csv", "text,label\n" + "a b c,x\n" * 40, "'label' has 1 "),
        ("mine.csv", "x,label\n" + "".join(f"{n / 7},k{n}\n" for n in range(40)), "'label' has 40"),
        ("train.py", "x = 1\nif x\n", "train.py: line 2"),
        ("mine.xlsx", "", "mine.xlsx"),
        ("mine", None, "config.json"),
    ],
)
def test_what_cannot_be_begun_with_is_refused_and_nothing_written(
    tmp_path: Path, name: str, content: str | None, named: str
) -> None:
    source = tmp_path / name
    source.mkdir() if content is None else source.write_text(content)
    assert named in begin(tmp_path / "p", source, code=2)
    assert not (tmp_path / "p").exists()


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("project")
    begin(folder)
    return folder


def test_the_app_and_the_images_are_this_repository_s(project: Path) -> None:
    ours, theirs = (json.loads((of / "cdk.json").read_text()) for of in (PROJECT, project))
    assert theirs["context"] == ours["context"]
    ours, theirs = (json.loads((of / "package.json").read_text()) for of in (PROJECT, project))
    assert theirs["dependencies"] == {"aws-cdk": ours["dependencies"]["aws-cdk"]}
    for image in ("gate", "training"):
        ours, theirs = (
            {path.name: path.read_bytes() for path in (of / "containers" / image).iterdir()}
            for of in (PROJECT, project)
        )
        assert theirs == ours


@pytest.mark.long
def test_the_app_makes_its_stacks_from_the_project_alone(project: Path) -> None:
    run(project, sys.executable, "-P", "-m", "compilegate.infra.app", CDK_OUTDIR="cdk.out")
    made = {path.name.partition(".")[0] for path in (project / "cdk.out").glob("*.template.json")}
    workload = "compilegate-workload-news-topics"
    assert {"compilegate-foundation", "compilegate-images", workload} <= made


def test_its_workflow_calls_what_is_there_and_passes_an_audit(project: Path) -> None:
    path = project / ".github/workflows/compilegate.yml"
    assert set(yaml.safe_load(path.read_text())["jobs"]) == {"validate", "run"}
    programs = Path(sys.executable).parent
    run(project, programs / "zizmor", "--offline", "--no-progress", path)
    schema = ("--builtin-schema", "vendor.github-workflows")
    run(project, programs / "check-jsonschema", *schema, path)
