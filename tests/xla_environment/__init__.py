"""The environment of containers/xla for the tests: made by `make xla-env`, found here.

    python -m tests.xla_environment            # make it, unless it is there
    python -m tests.xla_environment --whole    # with torch's CUDA libraries, 7 GB

It lies below the folder that COMPILEGATE_TEST_ENVIRONMENTS names (default: .cache/test-environments
in the repository), under a digest of its requirements.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
REQUIREMENTS = ROOT / "containers" / "xla" / "requirements.txt"


def folder() -> Path:
    """Where it is, or would be."""
    named = os.environ.get("COMPILEGATE_TEST_ENVIRONMENTS")
    base = Path(named) if named else ROOT / ".cache" / "test-environments"
    return base / f"xla-{hashlib.sha256(REQUIREMENTS.read_bytes()).hexdigest()[:12]}"


def interpreter() -> Path | None:
    """Its Python; None where it was not made."""
    found = folder()
    return found / "bin" / "python" if (found / "complete").is_file() else None
