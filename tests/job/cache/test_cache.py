"""The compile cache's archives and its key."""

from __future__ import annotations

import dataclasses
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from compilegate.job.cache import (
    CacheFolder,
    CacheKey,
    CompileCache,
    Lookups,
    SourceJob,
    UnusableCacheError,
    key_here,
    read_archive,
)
from compilegate.job.evidence import CompileCacheRecord

KEY = CacheKey(
    graph={"model": "bert", "batch_size": 32},
    libraries={"torch": "2.13.0", "triton": None},
    hardware={"cpu": "one"},
)
CONTENT = {"ab/kernel.so": b"machine code" * 50, "fxgraph/ls/entry": b"a graph", "one.py": b""}
MOST_BYTES = 1_000_000
NONE_FOUND, ALL_FOUND = Lookups(0, 2), Lookups(2, 0)


def parts(key: CacheKey) -> dict[str, Any]:
    return dataclasses.asdict(key)


@pytest.mark.parametrize(
    ("found", "differences"),
    [
        ({**parts(KEY), "hardware": {"cpu": "two"}}, ["cpu was two and is one"]),
        ({**parts(KEY), "libraries": {}}, ["torch was absent", "triton was absent and is null"]),
        ({**parts(KEY), "graph": {"model": "bert", "batch_size": 32.0}}, ["batch_size was 32.0"]),
        (json.loads(json.dumps(parts(KEY), sort_keys=True)), []),
    ],
)
def test_differences_are_named_with_both_values(found: Any, differences: list[str]) -> None:
    named = KEY.differences(found)
    assert len(named) == len(differences)
    assert all(each.startswith(start) for each, start in zip(named, differences, strict=True))
    assert (CacheKey(**found).digest == KEY.digest) == (not differences)


class Place:
    """A folder of archives, and jobs on them."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.archives, self.jobs = folder, folder / "archives", 0
        self.archive = self.archives / KEY.archive_name

    def job(
        self,
        *,
        key: CacheKey = KEY,
        most_bytes: int = MOST_BYTES,
        lookups: Lookups = NONE_FOUND,
        makes: dict[str, bytes] = CONTENT,
    ) -> tuple[CompileCacheRecord, dict[str, bytes]]:
        """What a job of so many lookups records, and what it found loaded."""
        self.jobs += 1
        working = self.folder / f"job-{self.jobs}"
        working.mkdir()
        folder = CacheFolder(working, left_out=("locks",))
        cache = CompileCache(self.archives, most_bytes, key, folder)
        cache.load()
        loaded = contents(folder)
        for name, content in makes.items():
            (working / name).parent.mkdir(parents=True, exist_ok=True)
            (working / name).write_bytes(content)
        return cache.save(lookups, SourceJob("job-1", 25.0, 25.5)), loaded


def contents(folder: CacheFolder) -> dict[str, bytes]:
    return {name: path.read_bytes() for name, path in folder.files().items()}


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def test_the_first_job_is_cold_and_the_second_finds_what_it_left(place: Place) -> None:
    first, nothing = place.job(
        makes={**CONTENT, "locks/x.lock": b"", "locks/y": b"1", "ab/half.tmp": b"2"}
    )
    second, loaded = place.job(lookups=ALL_FOUND, makes={})
    assert (first.state, nothing) == ("cold", {})
    assert first.saved_bytes == place.archive.stat().st_size
    assert (second.state, loaded) == ("warm", CONTENT)
    assert (second.loaded_bytes, second.saved_bytes) == (first.saved_bytes, 0)
    assert (second.cold_compile_seconds, second.cold_first_step_seconds) == (25.0, 25.5)
    assert "made by job-1" in second.reason
    assert first.key == second.key == KEY.digest


@pytest.mark.parametrize(
    ("lookups", "makes", "words"),
    [
        (Lookups(1, 1), {}, "1 of 2 compiled graphs were found in it."),
        (Lookups(0, 0), {}, "0 of 0 compiled graphs were found in it."),
    ],
)
def test_a_cache_that_lacks_something_is_cold_and_is_made_whole(
    place: Place, lookups: Lookups, makes: dict[str, bytes], words: str
) -> None:
    place.job()
    record, _ = place.job(lookups=lookups, makes=makes)
    assert (record.state, record.cold_compile_seconds) == ("cold", None)
    assert words in record.reason
    assert record.saved_bytes > 0
    assert place.job(lookups=ALL_FOUND, makes={})[1] == {**CONTENT, **makes}


def test_the_cache_of_another_release_is_ignored_with_the_difference_and_replaced(
    place: Place,
) -> None:
    place.job(key=dataclasses.replace(KEY, libraries={"torch": "2.12.0", "triton": None}))
    record, loaded = place.job()
    assert (record.state, loaded) == ("ignored", {})
    assert "it is for another job: torch was 2.12.0 and is 2.13.0." in record.reason
    assert place.job(lookups=ALL_FOUND, makes={})[0].state == "warm"


def test_a_cache_above_the_limit_is_neither_kept_nor_loaded(place: Place) -> None:
    record, _ = place.job(most_bytes=1_000)
    assert (record.state, record.saved_bytes) == ("cold", 0)
    assert "bytes, of at most 1,000." in record.reason
    assert list(place.archives.iterdir()) == []
    place.job()
    record, loaded = place.job(most_bytes=1_000)
    assert (record.state, loaded) == ("ignored", {})


def test_the_archives_of_other_machines_make_room_oldest_first(place: Place) -> None:
    names = []
    for cpu in ("one", "two", "three"):
        key = dataclasses.replace(KEY, hardware={"cpu": cpu})
        place.archives.mkdir(exist_ok=True)
        (place.archives / ".0123456789abcdef.zip.part").write_bytes(b"half of it")
        record, _ = place.job(key=key, most_bytes=3_000)
        names.append(key.archive_name)
    assert sorted(path.name for path in place.archives.iterdir()) == sorted(names[1:])
    assert f"{names[0]} made room for it." in record.reason


def test_a_folder_that_cannot_be_written_costs_the_cache_and_not_the_job(place: Place) -> None:
    place.archives.write_text("a file where the folder should be")
    record, _ = place.job()
    assert (record.state, record.saved_bytes) == ("cold", 0)
    assert "This job's was not kept: " in record.reason


@pytest.mark.slow
def test_any_damage_is_either_harmless_padding_or_noticed(place: Place) -> None:
    place.job()
    intact, target = place.archive.read_bytes(), place.folder / "target"

    @settings(max_examples=200)
    @given(position=st.integers(0, len(intact) - 1), bit=st.none() | st.integers(0, 7))
    def damage(position: int, bit: int | None) -> None:
        flipped = b"" if bit is None else bytes([intact[position] ^ 1 << bit])
        rest = b"" if bit is None else intact[position + 1 :]
        place.archive.write_bytes(intact[:position] + flipped + rest)
        shutil.rmtree(target, ignore_errors=True)
        target.mkdir()
        try:
            read_archive(place.archive, target, key=KEY, most_bytes=MOST_BYTES)
        except UnusableCacheError:
            assert list(target.iterdir()) == []
        else:
            assert contents(CacheFolder(target)) == CONTENT

    damage()


@pytest.mark.parametrize(
    "archive", [b"", b"not an archive at all" * 100], ids=["empty", "something else"]
)
def test_what_is_not_an_archive_of_ours_is_ignored(place: Place, archive: bytes) -> None:
    place.archives.mkdir()
    place.archive.write_bytes(archive)
    record, loaded = place.job()
    assert (record.state, loaded) == ("ignored", {})
    assert "is damaged" in record.reason


def key(**named: Any) -> CacheKey:
    return key_here({"batch_size": 8}, device=torch.device("cpu"), **named)


def test_other_code_of_the_program_is_another_key_wherever_it_lies(tmp_path: Path) -> None:
    def digest(folder: str, content: str) -> str:
        (tmp_path / folder).mkdir(exist_ok=True)
        (tmp_path / folder / "loop.py").write_text(content)
        return key(code=[tmp_path / folder]).digest

    assert digest("one", "step()") == digest("two", "step()")
    assert digest("one", "step()") != digest("one", "step(); step()")


def test_settings_compiler_and_threads_are_in_the_key_and_places_are_not(
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
    setting, library = key().differences(parts(plain))
    assert setting == "TORCHINDUCTOR_FREEZING was absent and is 1"
    assert library.endswith("and is g++ 99.1")
    threads = torch.get_num_threads()
    torch.set_num_threads(threads + 1)
    try:
        assert key().archive_name != plain.archive_name
    finally:
        torch.set_num_threads(threads)
