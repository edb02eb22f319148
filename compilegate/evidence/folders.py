"""Reads the evidence of one execution.

The folder holds one subfolder per replicate, named ``ARM--SEED``, with either an unpacked
``evidence/`` or SageMaker's ``output.tar.gz``, which has ``evidence/`` inside. These subfolders may
also lie one level deeper, as they do when several jobs gathered the evidence.
"""

from __future__ import annotations

import gzip
import tarfile
import tempfile
import zlib
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path, PurePosixPath

from compilegate.evidence.reading import read_evidence
from compilegate.evidence.rows import sharing
from compilegate.job.evidence import EvidenceError, EvidenceRecord, Examples
from compilegate.job.names import EVIDENCE_FOLDER, OUTPUT_ARCHIVE

MOST_UNPACKED_BYTES = 2 * 1024**3
"""How large a replicate's evidence may be; scores of a million examples fit easily."""
MOST_ARCHIVE_BYTES = 64 * 1024**3
"""How large an archive may be when unpacked: other files in it have to be read over, too."""
MOST_MEMBERS = 10_000
AT_ONCE = 2
"""Replicates that are read at the same time; each takes memory of its own until it is shared."""

Replicate = tuple[str, int]
"""An (arm, seed)."""


class MissingEvidenceError(EvidenceError):
    """There is no evidence of a replicate at all."""


class UndeclaredEvidenceError(EvidenceError):
    """There is evidence of a seed that the experiment does not declare."""


class TruncatedEvidenceError(EvidenceError):
    """The evidence of a replicate ends early or its archive is damaged."""


def folder_name(arm: str, seed: int) -> str:
    """The subfolder of one replicate."""
    return f"{arm}--{seed}"


def read_records(
    folder: Path, declared: Sequence[Replicate]
) -> dict[Replicate, EvidenceRecord | EvidenceError]:
    """The evidence of each declared replicate, or the error that reading it met.

    An error here is evidence too: the gate turns it into a fail with that reason. So is a seed
    that the experiment does not declare: who leaves out seeds after they were trained can choose.
    """

    def read(replicate: Replicate) -> EvidenceRecord | EvidenceError:
        try:
            return read_replicate(_place(folder, folder_name(*replicate)))
        except EvidenceError as error:
            return error

    # Threads, since it is mostly decompression, which does not hold the interpreter.
    with ThreadPoolExecutor(AT_ONCE) as readers:
        read_in_order = zip(declared, readers.map(read, declared), strict=True)
        records = dict(_sharing_columns(read_in_order))
    arms = {arm for arm, _ in declared}
    for arm, seed in sorted(replicates_in(folder) - set(records)):
        if arm in arms:
            records[arm, seed] = UndeclaredEvidenceError(
                f"{folder_name(arm, seed)} is there, and the experiment does not declare that "
                "seed: declare all seeds that were trained"
            )
    return records


def _sharing_columns(
    read: Iterable[tuple[Replicate, EvidenceRecord | EvidenceError]],
) -> Iterator[tuple[Replicate, EvidenceRecord | EvidenceError]]:
    """The same records; columns that are equal to those of the first are held once."""
    first: Examples | None = None
    for replicate, record in read:
        if isinstance(record, EvidenceError) or record.examples is None:
            yield replicate, record
            continue
        first = first or record.examples
        yield replicate, replace(record, examples=sharing(record.examples, first))


def replicates_in(folder: Path) -> set[Replicate]:
    """The (arm, seed) that each subfolder is called after, whatever is in it."""
    found = set()
    for place in (*folder.glob("*--*"), *folder.glob("*/*--*")):
        arm, _, seed = place.name.rpartition("--")
        if place.is_dir() and seed.isdecimal() and folder_name(arm, int(seed)) == place.name:
            found.add((arm, int(seed)))
    return found


def _place(folder: Path, name: str) -> Path:
    """Where the replicate's subfolder lies. Raises EvidenceError when there is more than one."""
    direct = folder / name
    places = [place for place in (direct, *sorted(folder.glob(f"*/{name}"))) if place.is_dir()]
    if len(places) > 1:
        found = " and ".join(place.relative_to(folder).as_posix() for place in places)
        raise EvidenceError(f"the evidence is there more than once: {found}")
    return places[0] if places else direct


def read_replicate(folder: Path) -> EvidenceRecord:
    """Read one replicate's subfolder. Raises EvidenceError for anything that is not evidence."""
    with tempfile.TemporaryDirectory(prefix="evidence-") as unpacked:
        return read_evidence(_opened(folder, Path(unpacked)))


def open_evidence(folder: Path, replicate: Replicate, unpacked: Path) -> Path:
    """The evidence folder of one replicate of an execution, in `unpacked` where it was packed.

    Raises EvidenceError.
    """
    return _opened(_place(folder, folder_name(*replicate)), unpacked)


def _opened(folder: Path, unpacked: Path) -> Path:
    archive = folder / OUTPUT_ARCHIVE
    if (folder / EVIDENCE_FOLDER).is_dir():
        if archive.exists():
            raise EvidenceError(
                f"the evidence is there more than once: {folder.name} holds {EVIDENCE_FOLDER}/ "
                f"and {OUTPUT_ARCHIVE}"
            )
        return folder / EVIDENCE_FOLDER
    if not archive.is_file():
        raise MissingEvidenceError(
            f"there is no evidence: {folder.name} holds neither {EVIDENCE_FOLDER}/ "
            f"nor {OUTPUT_ARCHIVE}"
        )
    _unpack(archive, unpacked)
    if not (unpacked / EVIDENCE_FOLDER).is_dir():
        raise MissingEvidenceError(f"{OUTPUT_ARCHIVE} holds no {EVIDENCE_FOLDER}/ folder")
    return unpacked / EVIDENCE_FOLDER


def _unpack(archive: Path, target: Path) -> None:
    """Unpack the plain files of `evidence/` and nothing else."""
    try:
        with gzip.open(archive) as stream:
            with tarfile.open(fileobj=stream, mode="r:") as stored:
                for member in _evidence_members(stored):
                    # No owner, no times: a time that no system has must not end the gate.
                    member.mtime = 0
                    stored.extract(member, target, filter="data")
            # The checksum stands at the end of the stream, after what tarfile reads.
            while stream.read(1 << 20):
                if stream.tell() > MOST_ARCHIVE_BYTES:
                    raise _too_large()
    except (tarfile.TarError, EOFError, OSError, ValueError, zlib.error) as error:
        raise TruncatedEvidenceError(f"{archive.name} is truncated or damaged: {error}") from error


def _evidence_members(archive: tarfile.TarFile) -> Iterator[tarfile.TarInfo]:
    """The members to unpack. Raises EvidenceError when they are not plain files, or too large."""
    of_evidence = of_all = 0
    for count, member in enumerate(archive, start=1):
        path = PurePosixPath(member.name)
        of_all += member.size
        if of_all > MOST_ARCHIVE_BYTES:
            raise _too_large()
        if count > MOST_MEMBERS:
            raise EvidenceError(f"{OUTPUT_ARCHIVE} has more than {MOST_MEMBERS} members")
        if path.parts[:1] != (EVIDENCE_FOLDER,) or member.isdir():
            continue
        if not member.isfile() or ".." in path.parts:
            raise EvidenceError(f"{OUTPUT_ARCHIVE}: {member.name[:80]!r} is not a plain file")
        of_evidence += member.size
        if of_evidence > MOST_UNPACKED_BYTES:
            raise EvidenceError(
                f"{OUTPUT_ARCHIVE}: {EVIDENCE_FOLDER}/ is larger than {MOST_UNPACKED_BYTES} bytes"
            )
        yield member


def _too_large() -> EvidenceError:
    return EvidenceError(f"{OUTPUT_ARCHIVE} unpacks to more than {MOST_ARCHIVE_BYTES} bytes")
