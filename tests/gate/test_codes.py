"""All codes: each has a mistake or an oddity, a row in docs/gate.md, and sentences in one file.

`UPDATE_GOLDEN=1` writes messages.txt, which holds a sentence of each row of `test_mistakes` and
`test_notes`, by code, to be read as a whole.
"""

from __future__ import annotations

import os
import re
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from compilegate.gate.decision import Registered
from compilegate.gate.findings import Code, Note, Outcome, Reason
from compilegate.gate.judge import judge
from compilegate.gate.verdict import Verdict
from compilegate.job.evidence import EvidenceError
from tests.gate.conftest import build_execution
from tests.gate.test_decision import DROPPING, before
from tests.gate.test_mistakes import ARMS, DAMAGE, MISTAKES, damaged, statements_with
from tests.gate.test_notes import ODDITIES, OF_OTHER_VERDICTS
from tests.gate.test_printed import experiment, printed

MESSAGES = Path(__file__).parent / "messages.txt"
DOCS = Path(__file__).parents[2] / "docs" / "gate.md"
PASSING = (Code.PARITY_ALIKE, Code.SPEED_FASTER, Code.QUALITY_NOT_WORSE)
"""Codes of reasons that only ever speak for a candidate."""


def verdicts() -> Iterator[tuple[Code, Verdict]]:
    """The verdicts of all rows, each with the code that it is about."""
    for row in (*MISTAKES.values(), *ODDITIES.values()):
        if row.code is not None:
            yield row.code, row.verdict
    for code, judged in OF_OTHER_VERDICTS.items():
        yield code, judged()
    for name, (code, _) in DAMAGE.items():
        for arm in reversed(ARMS):
            yield code, damaged(name, arm)
    passed = build_execution().judge()
    for code in PASSING:
        yield code, passed
    yield Code.PRINTED_ONLY, judge(experiment(), printed())
    # A registered model that is better, on the same rows and on others, and one that is lost.
    execution = build_execution(metrics=DROPPING)
    for rows in (2000, 500):
        yield Code.REGISTERED_WORSE, execution.judge(registered=before(0.99, rows))
    lost = Registered(EvidenceError("evidence.json is missing"))
    yield Code.REGISTERED_UNREADABLE, execution.judge(registered=lost)


@cache
def found() -> dict[Code, tuple[Reason | Note, ...]]:
    """By code, what the verdicts of all rows say, of each row the first."""
    statements: dict[Code, dict[str, Reason | Note]] = defaultdict(dict)
    for code, verdict in verdicts():
        for each in statements_with(verdict, code)[:1]:
            statements[code].setdefault(each.sentence, each)
    return {code: tuple(statements[code].values()) for code in Code}


def test_the_docs_have_a_row_for_every_code_and_say_whether_it_decides() -> None:
    """`| code | decides or note | accident | what to do |`."""
    text = DOCS.read_text(encoding="utf-8")
    rows = dict(re.findall(r"^\| `([a-z]+\.[a-z_]+)` \| ([^|]*) \|", text, re.MULTILINE))
    assert sorted(rows) == sorted(Code)
    for code, statements in found().items():
        assert statements, f"no row of {code}"
        against = [it for it in statements if isinstance(it, Reason) and it.outcome != Outcome.PASS]
        if rows[code].strip().startswith("note"):
            assert all(isinstance(it, Note) for it in statements), code
        else:
            assert bool(against) is (code not in PASSING), code


def test_messages_are_those_that_were_read_as_a_whole() -> None:
    text = "".join(
        f"{code.value}\n" + "".join(f"    {each.sentence}\n" for each in found()[code]) + "\n"
        for code in Code
    )
    if os.environ.get("UPDATE_GOLDEN"):
        MESSAGES.write_text(text, encoding="utf-8")
    expected = MESSAGES.read_text(encoding="utf-8").splitlines()
    assert text.splitlines() == expected


def test_every_sentence_is_short_and_printable() -> None:
    for sentence in (each.sentence for statements in found().values() for each in statements):
        assert sentence.isprintable()
        assert len(sentence) < 420
        assert sentence[0].isalnum()
