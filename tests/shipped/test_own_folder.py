"""Compilegate installed into an empty environment outside of the clone, as README says it, and
every kind of beginning taken to its verdict there."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from tests.shipped.clone import Place, clone_at
from tests.shipped.pages import blocks, follow

pytestmark = [pytest.mark.slow, pytest.mark.timeout(2700), pytest.mark.long]

DATA = "Your own data"
PAGES = ["docs/first-workload.md", "docs/own-script.md"]
DECIDED = re.compile(r"^decided: Release (baseline|compiled), seed \d+: .*\bRegistered: ", re.M)
WORDS = {"sea": "ship harbour captain anchor", "bank": "money loan credit interest"}


def file_of(page: str, name: str) -> str:
    """A file that a page has its reader save."""
    (found,) = [block.text for block in blocks(page) if block.path == name]
    return found


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Place:
    """A folder with an environment of its own, in which README's commands for own data ran."""
    folder = tmp_path_factory.mktemp("own")
    clone = clone_at(folder / "clone")
    place = Place(folder / "team", {**os.environ, "CLONE": str(clone.folder)})
    place.folder.mkdir()
    page = file_of("docs/first-workload.md", "make_reviews.py")
    (place.folder / "make_reviews.py").write_text(page, encoding="utf-8")
    place.run("python3 make_reviews.py")
    assert follow("README.md", place.folder, place.run, [DATA]) == 1
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    programs = str(place.folder / ".venv" / "bin")
    return Place(
        place.folder,
        {
            **environment,
            "PATH": os.pathsep.join([programs, environment["PATH"]]),
            "PYTHONUNBUFFERED": "1",
            "OMP_NUM_THREADS": "1",
        },
    )


def elsewhere(place: Place, folder: Path, **more: str) -> Place:
    """The same environment in another folder."""
    folder.mkdir(parents=True, exist_ok=True)
    return Place(folder, {**place.environment, **more})


def test_the_package_comes_from_its_own_environment(installed: Place) -> None:
    found = installed.run("python -P -c 'import compilegate; print(compilegate.__file__)'")
    assert Path(found.strip()).is_relative_to(installed.folder / ".venv")


def test_readme_s_table_comes_to_its_verdict(installed: Place) -> None:
    (package,) = (installed.folder / ".compilegate" / "registry" / "reviews").glob("*.json")
    arm = json.loads(package.read_text(encoding="utf-8"))["CustomerMetadataProperties"]["arm"]
    again = installed.run("compilegate run reviews")
    assert f"decided: Nothing is new: the model of {arm}, seed 1, is" in again
    assert "taken from the cache" in again


def test_readme_s_script_shows_what_readme_says(installed: Place, tmp_path: Path) -> None:
    """README's five lines stand in the script of the tutorial, once its diff is applied."""
    place = elsewhere(installed, tmp_path)
    page = "docs/own-script.md"
    for name in ("make_data.py", "workloads/marks/train.py", "five-lines.diff"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(file_of(page, name), encoding="utf-8")
    place.run("python make_data.py; patch -p0 -i five-lines.diff; cp workloads/marks/train.py .")
    assert follow("README.md", tmp_path, place.run, ["Your own script"]) == 1


@pytest.mark.parametrize("page", PAGES)
def test_a_page_holds_line_by_line(installed: Place, tmp_path: Path, page: str) -> None:
    place = elsewhere(installed, tmp_path)
    assert follow(page, tmp_path, place.run) >= 4


# Each kind of beginning.


def stories(folder: Path) -> None:
    """A table of texts."""
    rows = [
        f"{' '.join(WORDS[topic].split()[number % 3 :])} {number % 11},{topic}"
        for number in range(400)
        for topic in [sorted(WORDS)[number % 2]]
    ]
    (folder / "stories.csv").write_text("\n".join(["headline,topic", *rows]) + "\n")


def flats(folder: Path) -> None:
    """A table of numbers."""
    rows = [f"{20 + n % 90},{n % 5},{(20 + n % 90) * 4 + 7 * (n % 5)}" for n in range(600)]
    (folder / "flats.csv").write_text("\n".join(["area,floor,price", *rows]) + "\n")


def script(folder: Path) -> None:
    """A training script that knows nothing of Compilegate until its five lines are in it."""
    page = "docs/own-script.md"
    for name in ("make_data.py", "workloads/marks/train.py", "five-lines.diff"):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(file_of(page, name), encoding="utf-8")


def checkpoint(folder: Path) -> None:
    """A folder with a small model of transformers, as one downloads it; and a table of texts."""
    stories(folder)
    (folder / "make_model.py").write_text(MODEL, encoding="utf-8")


MODEL = """
from tokenizers import Tokenizer, models, pre_tokenizers
import torch
from transformers import BertConfig, BertModel, PreTrainedTokenizerFast

torch.manual_seed(0)  # a few weights learn nothing in so short a training
words = sorted({word for line in open("stories.csv") for word in line.replace(",", " ").split()})
special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
vocabulary = {word: number for number, word in enumerate([*special, *words])}
tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
PreTrainedTokenizerFast(
    tokenizer_object=tokenizer, unk_token="[UNK]", pad_token="[PAD]", cls_token="[CLS]",
    sep_token="[SEP]", mask_token="[MASK]",
).save_pretrained("small-bert")
BertModel(
    BertConfig(
        vocab_size=len(vocabulary), hidden_size=32, num_hidden_layers=1, num_attention_heads=2,
        intermediate_size=64, max_position_embeddings=128,
    )
).save_pretrained("small-bert")
"""

BEGINNINGS: Mapping[str, tuple[Callable[[Path], object], str, str]] = {
    "texts": (stories, "compilegate init stories.csv", "stories"),
    "numbers": (flats, "compilegate init flats.csv --label price", "flats"),
    "script": (
        script,
        "python make_data.py; mv workloads/marks/train.py marks.py; rm -r workloads/marks\n"
        "compilegate init marks.py --data workloads/marks-data --name marks\n"
        "sed 's#workloads/marks/train.py#workloads/marks/marks.py#' five-lines.diff | patch -p0",
        "marks",
    ),
    "model": (
        checkpoint,
        "python make_model.py; compilegate init stories.csv --model $PWD/small-bert",
        "stories",
    ),
    "nothing": (lambda folder: None, "compilegate init", "news-topics"),
}


@pytest.mark.parametrize("kind", BEGINNINGS)
def test_a_beginning_is_valid_and_comes_to_its_verdict(
    installed: Place, tmp_path: Path, kind: str
) -> None:
    make, begin, name = BEGINNINGS[kind]
    make(tmp_path)
    place = elsewhere(installed, tmp_path)
    place.run(begin)
    assert f"workloads/{name}.toml: valid: 2 arms" in place.run(f"compilegate validate {name}")
    said = place.run(f"compilegate run {name}")
    assert DECIDED.search(said), said
    (package,) = (tmp_path / ".compilegate" / "registry" / name).glob("*.json")
    assert json.loads(package.read_text(encoding="utf-8"))["ModelPackageGroupName"] == name
