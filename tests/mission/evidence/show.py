"""Show what today's gate decides of entries, and keep their files.

python -m tests.mission.evidence.show [PART OF A NAME] [FOLDER]
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from tests.mission.evidence.corpus import CORPUS, agrees
from tests.mission.evidence.gate import judge


def main(part: str = "", folder: str | None = None) -> None:
    """Judge the entries whose names hold this part, and print decisions and codes."""
    with tempfile.TemporaryDirectory() as temporary:
        for name, entry in CORPUS.items():
            if part not in name:
                continue
            try:
                found = judge(entry.execution(), Path(folder or temporary) / name)
            except Exception as error:  # noqa: BLE001 - a crash of the gate is shown as well
                print(f"{name}: {type(error).__name__}: {error}   <- not right")
                continue
            wrong = "" if agrees(entry, found) else "   <- not right"
            print(f"{name}: {found.candidates} registers {found.registered}{wrong}")
            for arm, codes in found.codes.items():
                for code, sentence in zip(codes, found.reasons[arm], strict=True):
                    print(f"    {arm}: {code}: {sentence[:160]}")


if __name__ == "__main__":
    main(*sys.argv[1:])
