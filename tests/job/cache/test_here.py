"""The key of a job that runs here: what changes the compiled code is in it."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from compilegate.job.cache.here import key_here

pytestmark = pytest.mark.slow

CPU = torch.device("cpu")
GRAPH = {"batch_size": 8}


def test_other_code_of_the_program_is_another_key_wherever_it_lies(tmp_path: Path) -> None:
    def key(folder: str, content: str) -> str:
        (tmp_path / folder).mkdir(exist_ok=True)
        (tmp_path / folder / "loop.py").write_text(content)
        return key_here(GRAPH, device=CPU, code=[tmp_path / folder]).digest

    assert key("one", "step()") == key("two", "step()")
    assert key("one", "step()") != key("one", "step(); step()")


def test_settings_of_the_compiler_are_in_the_key_and_places_are_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plain = key_here(GRAPH, device=CPU)
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", "/somewhere/else")
    monkeypatch.setenv("TORCHINDUCTOR_COMPILE_THREADS", "7")
    assert key_here(GRAPH, device=CPU).digest == plain.digest
    monkeypatch.setenv("TORCHINDUCTOR_FREEZING", "1")
    assert key_here(GRAPH, device=CPU).differences(plain.parts()) == [
        "TORCHINDUCTOR_FREEZING was absent and is 1"
    ]


def test_the_number_of_threads_is_a_matter_of_the_machine(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plain = key_here(GRAPH, device=CPU)
    monkeypatch.setattr("torch.get_num_threads", lambda: 61)
    assert key_here(GRAPH, device=CPU).archive_name != plain.archive_name


def test_another_cpp_compiler_is_another_key(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    compiler = tmp_path / "g++"
    compiler.write_text("#!/bin/sh\necho 'g++ 99.1'\n")
    compiler.chmod(0o755)
    plain = key_here(GRAPH, device=CPU)
    monkeypatch.setenv("CXX", str(compiler))
    (difference,) = key_here(GRAPH, device=CPU).differences(plain.parts())
    assert difference.endswith("and is g++ 99.1")
