"""Archives of the compile cache: whole, of this key and of bounded size, or not used at all."""

from __future__ import annotations

import dataclasses
import io
import json
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compilegate.job.cache import CacheFolder, CacheKey, ColdFigures, CompileCache, Lookups
from compilegate.job.cache.archive import UnusableCacheError, read_archive
from compilegate.job.digests import settings_digest
from compilegate.job.evidence import CompileCacheRecord

KEY = CacheKey(graph={"batch_size": 32}, libraries={"torch": "2.13.0"}, hardware={"cpu": "one"})
CONTENT = {"ab/kernel.so": b"machine code" * 50, "fxgraph/ls/entry": b"a graph", "one.py": b""}
FIGURES = ColdFigures(compile_seconds=25.0, first_step_seconds=25.5)
MOST_BYTES = 1_000_000
NONE_FOUND, ALL_FOUND = Lookups(0, 2), Lookups(2, 0)


@dataclasses.dataclass(frozen=True)
class Place:
    """The archives, and a function that runs a job of so many lookups on them."""

    archives: Path
    job: Callable[..., tuple[CompileCacheRecord, dict[str, bytes]]]

    @property
    def archive(self) -> Path:
        return self.archives / KEY.archive_name


def run_job(
    archives: Path,
    folder: Path,
    *,
    key: CacheKey = KEY,
    most_bytes: int = MOST_BYTES,
    lookups: Lookups = NONE_FOUND,
    makes: dict[str, bytes] = CONTENT,
) -> tuple[CompileCacheRecord, dict[str, bytes]]:
    """What a job with that key records, and what it found loaded."""
    folder.mkdir()
    cache = CompileCache(
        archives, most_bytes, key, CacheFolder(folder, left_out=("locks",), binaries=(".so",))
    )
    cache.load()
    loaded = {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }
    for name, content in makes.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    return cache.keep(lookups, FIGURES, "job-1"), loaded


@pytest.fixture
def place(tmp_path: Path) -> Place:
    count = iter(range(100))
    archives = tmp_path / "archives"
    return Place(
        archives, lambda **options: run_job(archives, tmp_path / f"job-{next(count)}", **options)
    )


def test_the_first_job_is_cold_and_the_second_finds_what_it_left(place: Place) -> None:
    first, nothing = place.job()
    second, loaded = place.job(lookups=ALL_FOUND, makes={})
    assert (first.state, nothing) == ("cold", {})
    assert first.saved_bytes == place.archive.stat().st_size
    assert (second.state, loaded) == ("warm", CONTENT)
    assert (second.loaded_bytes, second.saved_bytes) == (first.saved_bytes, 0)
    assert (second.cold_compile_seconds, second.cold_first_step_seconds) == (25.0, 25.5)
    assert "made by job-1" in second.reason
    assert first.key == second.key == KEY.digest


def test_the_same_content_gives_the_same_files_whatever_lies_beside_it(place: Place) -> None:
    place.job(makes={**CONTENT, "locks/x.lock": b"", "locks/y": b"1", "ab/half.tmp": b"2"})
    _, loaded = place.job(lookups=ALL_FOUND)
    assert loaded == CONTENT


@pytest.mark.parametrize(
    ("lookups", "makes", "words"),
    [
        (Lookups(1, 1), {}, "1 of 2 compiled graphs were found in it."),
        (Lookups(0, 0), {}, "0 of 0 compiled graphs were found in it."),
        (ALL_FOUND, {"new.so": b"1"}, "found in it, and 1 shared libraries were made anew."),
    ],
)
def test_a_cache_that_lacks_something_is_cold_and_is_made_whole(
    place: Place, lookups: Lookups, makes: dict[str, bytes], words: str
) -> None:
    place.job()
    record, _ = place.job(lookups=lookups, makes=makes)
    assert record.state == "cold"
    assert words in record.reason
    assert record.cold_compile_seconds is None
    assert record.saved_bytes > 0
    assert place.job(lookups=ALL_FOUND, makes={})[1] == {**CONTENT, **makes}


def test_the_cache_of_another_release_is_ignored_with_the_difference_and_replaced(
    place: Place,
) -> None:
    place.job(key=dataclasses.replace(KEY, libraries={"torch": "2.12.0"}))
    record, loaded = place.job()
    assert (record.state, loaded) == ("ignored", {})
    assert "it is for another job: torch was 2.12.0 and is 2.13.0." in record.reason
    assert place.job(lookups=ALL_FOUND, makes={})[0].state == "warm"


def test_a_cache_above_the_limit_is_neither_kept_nor_loaded(place: Place) -> None:
    record, _ = place.job(most_bytes=5_000)
    assert (record.state, record.saved_bytes) == ("cold", 0)
    assert "This job's was not kept: it has 10,240 bytes, of at most 5,000." in record.reason
    assert list(place.archives.iterdir()) == []
    place.job()
    record, loaded = place.job(most_bytes=5_000)
    assert (record.state, loaded) == ("ignored", {})
    assert "it has 10,240 bytes, of at most 5,000" in record.reason


def test_the_archives_of_other_machines_make_room_oldest_first(place: Place) -> None:
    names = []
    for cpu in ("one", "two", "three"):
        key = dataclasses.replace(KEY, hardware={"cpu": cpu})
        record, _ = place.job(key=key, most_bytes=25_000)
        names.append(key.archive_name)
    assert sorted(path.name for path in place.archives.iterdir()) == sorted(names[1:])
    assert f"{names[0]} made room for it." in record.reason


def test_an_archive_that_was_left_half_written_is_removed(place: Place) -> None:
    place.archives.mkdir()
    (place.archives / ".0123456789abcdef.tar.part").write_bytes(b"half of it")
    place.job()
    assert list(place.archives.iterdir()) == [place.archive]


def test_a_folder_that_cannot_be_written_costs_the_cache_and_not_the_job(place: Place) -> None:
    place.archives.write_text("a file where the folder should be")
    record, _ = place.job()
    assert (record.state, record.saved_bytes) == ("cold", 0)
    assert "This job's was not kept: " in record.reason


@pytest.mark.slow
def test_any_flipped_byte_is_either_harmless_padding_or_noticed(tmp_path: Path) -> None:
    archives = tmp_path / "archives"
    run_job(archives, tmp_path / "first")
    archive = archives / KEY.archive_name
    intact = archive.read_bytes()
    target = tmp_path / "target"

    @settings(max_examples=150)
    @given(position=st.integers(0, len(intact) - 1), bit=st.integers(0, 7))
    def flip(position: int, bit: int) -> None:
        damaged = bytearray(intact)
        damaged[position] ^= 1 << bit
        archive.write_bytes(damaged)
        assert_whole_or_refused(archive, target)

    @settings(max_examples=50)
    @given(length=st.integers(0, len(intact) - 1))
    def truncate(length: int) -> None:
        archive.write_bytes(intact[:length])
        assert_whole_or_refused(archive, target)

    flip()
    truncate()


def assert_whole_or_refused(archive: Path, target: Path) -> None:
    target.mkdir(exist_ok=True)
    try:
        read_archive(archive, target, key=KEY, most_bytes=MOST_BYTES)
    except UnusableCacheError:
        assert list(target.iterdir()) == []
        return
    found = CacheFolder(target).files()
    assert {name: path.read_bytes() for name, path in found.items()} == CONTENT
    for path in found.values():
        path.unlink()
    for path in target.iterdir():
        if path.is_dir():
            for inner in sorted(path.rglob("*"), reverse=True):
                inner.rmdir()
            path.rmdir()


def origin(**figures: Any) -> dict[str, Any]:
    return {
        "job": "x",
        "created": "",
        "compile_seconds": None,
        "first_step_seconds": None,
        **figures,
    }


def forged(files: Any, members: list[tuple[tarfile.TarInfo, bytes]], **content: Any) -> bytes:
    """An archive by someone who knows the format: a manifest with the right digest."""
    body = {
        "format": 1,
        "key": KEY.parts(),
        "origin": origin(),
        "files": files,
        **content,
    }
    text = json.dumps({"content": body, "sha256": settings_digest(body)}).encode()
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        for member, payload in [(tarfile.TarInfo("manifest.json"), text), *members]:
            if payload:
                member.size = len(payload)
            archive.addfile(member, io.BytesIO(payload))
    return packed.getvalue()


def entry(name: str, **fields: Any) -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    for key, value in fields.items():
        setattr(member, key, value)
    return member


EVIL = {"bytes": 4, "sha256": "a2a85e03ba71b9fcd9a0d0e5d4d2e6ad5a5e2f1c7ea03d54d1b8e2a3b8ff3f0c"}


@pytest.mark.parametrize(
    ("member", "words"),
    [
        (entry("../evil"), "../evil leads outside"),
        (entry("/evil"), "/evil leads outside"),
        (entry("a/../../evil"), "leads outside"),
        (entry("a//evil"), "leads outside"),
        (entry("evil", type=tarfile.SYMTYPE, linkname="/etc/passwd"), "not a plain file"),
        (entry("evil", type=tarfile.LNKTYPE, linkname="manifest.json"), "not a plain file"),
        (entry("evil", type=tarfile.FIFOTYPE), "not a plain file"),
        (entry("evil", type=tarfile.DIRTYPE), "not a plain file"),
        (entry("evil"), "is not what was written"),
    ],
    ids=lambda value: f"{value.name} {value.type!r}" if isinstance(value, tarfile.TarInfo) else "",
)
def test_a_forged_member_is_refused_and_nothing_is_written(
    place: Place, tmp_path: Path, member: tarfile.TarInfo, words: str
) -> None:
    place.archives.mkdir()
    payload = b"evil" if member.isreg() else b""
    place.archive.write_bytes(forged({member.name: EVIL}, [(member, payload)]))
    record, loaded = place.job()
    assert (record.state, loaded) == ("ignored", {})
    assert words in record.reason
    assert not list(tmp_path.rglob("evil"))


@pytest.mark.parametrize(
    ("archive", "words"),
    [
        (b"", "it is damaged"),
        (b"not a tar at all" * 100, "it is damaged"),
        (forged({}, [(entry("more"), b"1")]), "more is not in its manifest"),
        (forged({"absent": EVIL}, []), "absent is missing"),
        (forged({}, [], format=2), "it is of format 2, this job reads 1"),
        (forged({}, [], key="mine"), "its key has no graph"),
        (forged({}, [], origin={"job": "x"}), "its manifest.json is incomplete"),
        (forged({}, [], origin=origin(compile_seconds=-1)), "its manifest.json is incomplete"),
        (forged({}, [], origin=origin(compile_seconds="fast")), "its manifest.json is incomplete"),
        (forged([1], []), "its manifest.json is incomplete"),
    ],
)
def test_what_is_not_an_archive_of_ours_is_ignored_with_the_reason(
    place: Place, archive: bytes, words: str
) -> None:
    place.archives.mkdir()
    place.archive.write_bytes(archive)
    record, loaded = place.job()
    assert (record.state, loaded) == ("ignored", {})
    assert words in record.reason
