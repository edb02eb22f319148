"""The doctor as a job: looks at the image and the instance that it runs in.

It writes what it found into the job's output, and prints the text: the log of the job alone tells
as much. It succeeds whatever it finds, since a machine that lacks something is an answer.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from compilegate.job.doctor.examining import examine
from compilegate.job.doctor.words import text_of
from compilegate.job.files import write_json, write_text
from compilegate.job.names import DOCTOR_FILE, DOCTOR_TEXT_FILE, OUTPUT_DATA_VARIABLE


def main() -> int:
    """Examine, write and print."""
    found = examine(os.environ, trying=True)
    folder, text = Path(os.environ.get(OUTPUT_DATA_VARIABLE, ".")), text_of(found)
    write_json(folder / DOCTOR_FILE, found.document)
    write_text(folder / DOCTOR_TEXT_FILE, text)
    print(text, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
