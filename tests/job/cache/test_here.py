"""The key of a job that runs here: what changes the compiled code is in it."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest
import torch

from compilegate.job.cache import CacheKey, key_here

pytestmark = pytest.mark.slow


def key(**named: Any) -> CacheKey:
    return key_here({"batch_size": 8}, device=torch.device("cpu"), **named)


def test_other_code_of_the_program_is_another_key_wherever_it_lies(tmp_path: Path) -> None:
    def digest(folder: str, content: str) -> str:
        (tmp_path / folder).mkdir(exist_ok=True)
        (tmp_path / folder / "loop.py").write_text(content)
        return key(code=[tmp_path / folder]).digest

    assert digest("one", "step()") == digest("two", "step()")
    assert digest("one", "step()") != digest("one", "step(); step()")


def test_settings_and_the_cpp_compiler_are_in_the_key_and_places_are_not(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    plain = key()
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", "/somewhere/else")
    monkeypatch.setenv("TORCHINDUCTOR_COMPILE_THREADS", "7")
    assert key().digest == plain.digest
    monkeypatch.setenv("TORCHINDUCTOR_FREEZING", "1")
    compiler = tmp_path / "g++"
    compiler.write_text("#!/bin/sh\necho 'g++ 99.1'\n")
    compiler.chmod(0o755)
    monkeypatch.setenv("CXX", str(compiler))
    setting, library = key().differences(dataclasses.asdict(plain))
    assert setting == "TORCHINDUCTOR_FREEZING was absent and is 1"
    assert library.endswith("and is g++ 99.1")


def test_the_number_of_threads_is_a_matter_of_the_machine() -> None:
    plain, threads = key(), torch.get_num_threads()
    torch.set_num_threads(threads + 1)
    try:
        assert key().archive_name != plain.archive_name
    finally:
        torch.set_num_threads(threads)
