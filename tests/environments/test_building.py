"""An environment that cannot be made says why in one sentence, and leaves nothing behind."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.environments import BuildError, NotOfferedError, interpreter, make, pip_install

pytestmark = pytest.mark.slow

PYTHON = """#!/bin/sh
case "$2" in
  venv) mkdir -p "$3/bin" && cp "$0" "$3/bin/python" ;;
  pip) for line in 5 4 3 2 1; do
         echo "WARNING: Retrying (Retry(total=$line)) after connection {connection}" >&2
       done
       {ends} ;;
esac
"""
"""As much of an interpreter as is asked: it makes an environment, and its pip is out of luck."""


def python(folder: Path, *, connection: str, ends: str) -> Path:
    program = folder / "python"
    program.write_text(PYTHON.format(connection=connection, ends=ends))
    program.chmod(0o755)
    return program


@pytest.mark.parametrize(
    ("connection", "ends", "kind", "sentence"),
    [
        (
            "broken by 'NewConnectionError'",
            "echo 'ERROR: No matching distribution found for torch==1.13.1' >&2; exit 1",
            NotOfferedError,
            "light could not be made: pip install torch==1.13.1: No matching distribution found "
            "for torch==1.13.1; the package index could not be reached",
        ),
        (
            "took long",
            "echo 'ERROR: [Errno 28] No space left on device' >&2; exit 1",
            BuildError,
            "light could not be made: pip install torch==1.13.1: [Errno 28] No space left on "
            "device",
        ),
        (
            "took long",
            "exit 1",
            BuildError,
            "light could not be made: pip install torch==1.13.1: it said nothing",
        ),
    ],
    ids=["no index", "no space", "no reason"],
)
def test_what_failed_is_one_sentence_without_pips_warnings(
    tmp_path: Path, connection: str, ends: str, kind: type[BuildError], sentence: str
) -> None:
    place = tmp_path / "light"
    with pytest.raises(BuildError) as caught:
        make(
            place,
            python(tmp_path, connection=connection, ends=ends),
            lambda place: pip_install(place, ["torch==1.13.1"]),
        )
    assert (type(caught.value), str(caught.value)) == (kind, sentence)
    assert not place.exists()


def test_one_that_was_made_to_its_end_is_not_made_again(tmp_path: Path) -> None:
    place = tmp_path / "light"
    lucky = python(tmp_path, connection="took long", ends="exit 0")
    assert interpreter(place) is None
    made = make(place, lucky, lambda place: pip_install(place, ["torch==1.13.1"]))
    assert made == interpreter(place) == place / "bin" / "python"
    lucky.unlink()
    assert make(place, lucky, lambda place: pip_install(place, ["torch==1.13.1"])) == made
