"""`compilegate init`: a project from a table, a script, a model or nothing, which is valid."""

from __future__ import annotations

import csv
import json
import os
import random
import subprocess
import sys
import tomllib
from pathlib import Path

import numpy as np
import pytest
import yaml
from click.testing import CliRunner, Result

from compilegate.cli import main
from compilegate.init.script import read_script
from compilegate.workload import read_workload

pytestmark = pytest.mark.slow

PROJECT = Path(__file__).parents[2]
TOPICS = {"sea": "ship harbour captain anchor", "bank": "money loan credit interest"}
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


def stories(path: Path, rows: int = 200) -> Path:
    chance = random.Random(0)
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["id", "headline", "topic", "words"])
        for number in range(rows):
            topic = sorted(TOPICS)[number % 2]
            words = chance.choices(TOPICS[topic].split(), k=chance.randint(4, 9))
            writer.writerow([number, " ".join(words), topic, len(words)])
    return path


def flats(path: Path, rows: int = 120) -> Path:
    """As a spreadsheet of western Europe writes it."""
    chance = random.Random(0)
    lines = ["area;city;floor;price"]
    for number in range(rows):
        area = chance.randint(20, 200)
        floor = "" if number % 7 == 0 else str(number % 5)
        city = ("Köln", "Paris")[number % 2]
        lines.append(f"{area};{city};{floor};{area * (3.5, 9.25)[number % 2] + number / 10:.2f}")
    path.write_text("\n".join(lines) + "\n", encoding="cp1252")
    return path


def begin(folder: Path, *arguments: object, code: int = 0) -> Result:
    done = CliRunner().invoke(main, ["init", *map(str, arguments), "--project", str(folder)])
    assert done.exit_code == code, done.output
    return done


def validate(folder: Path, name: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", "from compilegate.cli import main; main()", "validate", name],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(PROJECT)},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def rows_of(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


@pytest.mark.slow
def test_a_table_with_texts_is_classified(tmp_path: Path) -> None:
    source = stories(tmp_path / "My Stories.csv")
    said = begin(tmp_path / "p", source).output
    assert "learns 'topic' (2 classes) from the texts in 'headline'" in said
    assert "a constant prediction reaches an accuracy of 0.500" in said
    declared = tomllib.loads((tmp_path / "p/workloads/my-stories.toml").read_text())
    assert declared["data"]["text"] == "headline"
    assert declared["data"]["label"] == "topic"
    assert declared["data"]["id"] == "id"
    data = tmp_path / "p/data/my-stories"
    rows = [*rows_of(data / "train.csv"), *rows_of(data / "validation.csv")]
    assert sorted(map(str, rows)) == sorted(map(str, rows_of(source)))
    assert "valid: 2 arms, " in validate(tmp_path / "p", "my-stories")


@pytest.mark.slow
def test_a_table_of_numbers_gets_a_program_that_is_the_user_s(tmp_path: Path) -> None:
    said = begin(tmp_path / "p", flats(tmp_path / "flats.csv")).output
    assert "learns 'price' (numbers) from 3 columns" in said
    assert "a constant prediction reaches a mean squared error of " in said
    workload = read_workload(tmp_path / "p/workloads/flats.toml")
    assert workload.gate.metrics["mse"].relative
    rows = rows_of(tmp_path / "p/data/flats/train.csv")
    assert {row["city"] for row in rows} == {"Köln", "Paris"}
    assert "valid: 2 arms" in validate(tmp_path / "p", "flats")


def unclear(path: Path) -> Path:
    rows = [f"{n % 7},{n % 5},{n % 3},{2000 + n // 12}-{1 + n % 12:02}-01" for n in range(60)]
    path.write_text("\n".join(["girth,height,volume,felled", *rows, ",1,2,2020-01-01"]))
    return path


def test_a_label_that_nobody_could_tell_is_refused_with_the_candidates(tmp_path: Path) -> None:
    said = begin(tmp_path / "p", unclear(tmp_path / "trees.csv"), code=2).output
    assert "'girth', 'height', 'volume'" in said
    assert not (tmp_path / "p").exists()


def test_on_a_terminal_the_label_is_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("compilegate.cli.init.on_terminal", lambda: True)
    source = unclear(tmp_path / "trees.csv")
    done = CliRunner().invoke(main, ["init", str(source), "--project", str(tmp_path)], "girth\n")
    assert done.exit_code == 0, done.output
    assert "(girth, height, volume): " in done.output
    assert "1 rows without 'girth'" in done.output
    assert "learns 'girth' (classes) from 3 columns" in done.output


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.parametrize("label", ["price", "city"])
def test_its_program_trains_and_leaves_evidence(tmp_path: Path, label: str) -> None:
    begin(tmp_path, flats(tmp_path / "flats.csv"), "--label", label)
    done = subprocess.run(
        [sys.executable, "workloads/flats/train.py", "--epochs", "2"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(PROJECT)},
    )
    assert done.returncode == 0, done.stderr
    with np.load(tmp_path / "compilegate-job/evidence/examples.npz") as examples:
        held_back = rows_of(tmp_path / "data/flats/validation.csv")
        assert len(examples["ids"]) == len(held_back)
        assert {"price": "targets", "city": "labels"}[label] in examples


@pytest.mark.slow
def test_a_script_brings_its_arguments_and_what_it_imports(tmp_path: Path) -> None:
    (tmp_path / "train_marks.py").write_text(SCRIPT)
    (tmp_path / "nets.py").write_text("import layers\n\n\nclass Net:\n    pass\n")
    (tmp_path / "layers").mkdir()
    (tmp_path / "layers/__init__.py").write_text("")
    (tmp_path / "unrelated.py").write_text("")
    (tmp_path / "images").mkdir()
    (tmp_path / "images/one.bin").write_bytes(b"1")
    script = tmp_path / "train_marks.py"
    said = begin(tmp_path / "p", script, "--data", tmp_path / "images").output
    program = tmp_path / "p/workloads/train-marks"
    copied = {path.relative_to(program).as_posix() for path in program.rglob("*.py")}
    assert copied == {"train_marks.py", "nets.py", "layers/__init__.py"}
    assert (tmp_path / "p/data/train-marks/one.bin").read_bytes() == b"1"
    declared = tomllib.loads((tmp_path / "p/workloads/train-marks.toml").read_text())
    assert declared["program"]["arguments"] == {"batch_size": "batch-size", "learning_rate": "lr"}
    assert declared["arms"]["compiled"]["batch_size"] == 48
    assert declared["arms"]["compiled"]["learning_rate"] == 0.02
    assert "train_marks.py, line 13: for x, y in loader:  ->  loop over job.steps(...)" in said
    assert "train_marks.py, line 16: job.save(model)" in said
    assert "valid: 2 arms" in validate(tmp_path / "p", "train-marks")


@pytest.mark.parametrize(
    ("line", "precision"),
    [
        ("with torch.autocast('cuda', dtype=torch.bfloat16): pass", "bf16"),
        ("context = torch.amp.autocast(device_type='cuda', dtype=torch.float16)", "fp16"),
        ("with torch.autocast('cpu'): pass", "bf16"),
        ("from torch.cuda.amp import autocast\nwith autocast(): pass", "fp16"),
        ("with torch.cuda.amp.autocast(dtype=torch.bfloat16): pass", "bf16"),
        ("accelerator = Accelerator(mixed_precision='bf16')", "bf16"),
        (
            "parser.add_argument('--mixed-precision', default='fp16')\n"
            "accelerator = Accelerator(mixed_precision=args.mixed_precision)",
            "fp16",
        ),
        ("arguments = transformers.TrainingArguments('out', bf16=True)", "bf16"),
        ("arguments = Seq2SeqTrainingArguments('out', bf16=False, fp16=True)", "fp16"),
        ("trainer = lightning.Trainer(precision='bf16-mixed')", "bf16"),
        ("accelerator = Accelerator()", None),
        ("with torch.autocast('cuda', enabled=False): pass", None),
        # Nobody knows without running it.
        ("with torch.autocast('cuda', dtype=TYPES[args.type]): pass", None),
        ("low = torch.bfloat16\nwith torch.autocast('cuda', low): pass", None),
        ("with torch.autocast('cuda', enabled=args.mixed): pass", None),
    ],
)
def test_a_script_shows_its_precision(tmp_path: Path, line: str, precision: str | None) -> None:
    (tmp_path / "train.py").write_text(f"{SCRIPT}{line}\n")
    assert read_script(tmp_path / "train.py").precision == precision


@pytest.mark.slow
def test_a_script_s_precision_is_declared(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(f"{SCRIPT}accelerator = Accelerator(mixed_precision='fp16')")
    said = begin(tmp_path / "p", tmp_path / "train.py", "--name", "mine").output
    assert "precision fp16" in said
    declared = tomllib.loads((tmp_path / "p/workloads/mine.toml").read_text())
    assert {arm["precision"] for arm in declared["arms"].values()} == {"fp16"}
    assert "valid: 2 arms" in validate(tmp_path / "p", "mine")


@pytest.mark.slow
def test_a_model_of_the_hub_reads_the_table_s_texts(tmp_path: Path) -> None:
    source = stories(tmp_path / "stories.csv")
    begin(tmp_path / "p", source, "--model", "prajjwal1/bert-tiny", "--name", "tiny")
    declared = tomllib.loads((tmp_path / "p/workloads/tiny.toml").read_text())
    assert declared["model"] == {"source": "hub", "id": "prajjwal1/bert-tiny"}
    assert "valid: 2 arms" in validate(tmp_path / "p", "tiny")


@pytest.mark.parametrize("arguments", [[], ["prajjwal1/bert-tiny"]])
def test_without_data_those_that_come_along_are_taken(tmp_path: Path, arguments: list[str]) -> None:
    begin(tmp_path, *arguments)
    (path,) = (tmp_path / "workloads").glob("*.toml")
    assert read_workload(path).data.source == "reuters-r8"


def test_nothing_is_overwritten_and_a_second_workload_joins(tmp_path: Path) -> None:
    (tmp_path / "cdk.json").write_text("mine")
    begin(tmp_path, stories(tmp_path / "stories.csv"))
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    refused = begin(tmp_path, tmp_path / "stories.csv", code=2)
    assert "workloads/stories.toml exists" in refused.output
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before
    said = begin(tmp_path, tmp_path / "stories.csv", "--name", "again").output
    assert "kept   workloads/workload.schema.json, infra/settings.toml, cdk.json" in said
    after = {path: path.read_bytes() for path in before}
    assert after == before
    assert (tmp_path / "cdk.json").read_text() == "mine"


@pytest.mark.parametrize(
    ("name", "content", "named"),
    [
        ("mine.csv", "text,label\n" + "a b c,x\n" * 40, "'label' is 'x' in every row"),
        ("mine.csv", "x,label\n" + "".join(f"{n},k{n}\n" for n in range(40)), "'label'"),
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
    assert named in begin(tmp_path / "p", source, code=2).output
    assert not (tmp_path / "p").exists()


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("project")
    begin(folder)
    return folder


def test_the_app_is_configured_as_this_repository_s(project: Path) -> None:
    ours = json.loads((PROJECT / "cdk.json").read_text())
    theirs = json.loads((project / "cdk.json").read_text())
    assert theirs["context"] == ours["context"]
    assert theirs["app"] == "python3 -m compilegate.infra.app"
    pinned = json.loads((PROJECT / "package.json").read_text())["dependencies"]["aws-cdk"]
    assert json.loads((project / "package.json").read_text())["dependencies"] == {"aws-cdk": pinned}


@pytest.mark.long
@pytest.mark.slow
def test_the_app_makes_its_stacks_from_the_project_alone(project: Path) -> None:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("CDK")}
    done = subprocess.run(
        [sys.executable, "-P", "-m", "compilegate.infra.app"],
        cwd=project,
        env={**kept, "PYTHONPATH": str(PROJECT), "CDK_OUTDIR": "cdk.out"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    made = {path.name.partition(".")[0] for path in (project / "cdk.out").glob("*.template.json")}
    workload = "compilegate-workload-news-topics"
    assert {"compilegate-foundation", "compilegate-images", workload} <= made


def test_the_images_are_those_that_come_along(project: Path) -> None:
    for image in ("gate", "training"):
        ours = {path.name: path.read_bytes() for path in (PROJECT / "containers" / image).iterdir()}
        theirs = {
            path.name: path.read_bytes() for path in (project / "containers" / image).iterdir()
        }
        assert theirs == ours


@pytest.mark.slow
def test_its_workflow_calls_what_is_there_and_passes_an_audit(project: Path) -> None:
    path = project / ".github/workflows/compilegate.yml"
    jobs = yaml.safe_load(path.read_text())["jobs"]
    assert set(jobs) == {"validate", "run"}
    bin_folder = Path(sys.executable).parent
    done = subprocess.run(
        [bin_folder / "zizmor", "--offline", "--no-progress", path],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    schema = ["--builtin-schema", "vendor.github-workflows", path]
    done = subprocess.run(
        [bin_folder / "check-jsonschema", *schema], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout
