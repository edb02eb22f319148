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

import pytest

from compilegate.gate.decision import Registered
from compilegate.gate.findings import Code, Note, Outcome, Reason
from compilegate.gate.judge import judge
from compilegate.gate.verdict import Verdict
from compilegate.job.evidence import EvidenceError
from tests.gate.conftest import build_execution
from tests.gate.test_decision import DROPPING, before
from tests.gate.test_mistakes import ARMS, DAMAGE, MISTAKES, said
from tests.gate.test_notes import ODDITIES, OF_OTHER_VERDICTS
from tests.gate.test_printed import experiment, printed

MESSAGES = Path(__file__).parent / "messages.txt"
DOCS = Path(__file__).parents[2] / "docs" / "gate.md"
PASSING = {
    Code.PARITY_ALIKE,
    Code.QUALITY_NOT_WORSE,
    Code.SPEED_FASTER,
}
"""Codes of reasons that only ever speak for a candidate."""
NEVER_DECIDE = {
    Code.EVIDENCE_UNDECLARED,
    Code.DATA_INPUTS_TRAINED_ON,
    Code.DATA_GROUPS_TRAINED_ON,
    Code.DATA_OTHER_TRAINED_ON,
    Code.MODEL_SEEDS_CLOSE,
    Code.STEPS_LOSS_FLAT,
    Code.STEPS_OTHER_END,
    Code.EXAMPLES_INPUTS_DIFFER,
    Code.EXAMPLES_LOSSES_DISAGREE,
    Code.EXAMPLES_ONE_CLASS,
    Code.METRIC_DISAGREES,
    Code.METRIC_TOO_GOOD,
    Code.RECIPE_PRECISION,
    Code.CONFOUND_HARDWARE,
    Code.CONFOUND_HARDWARE_UNKNOWN,
    Code.PRINTED_ONLY,
    Code.QUALITY_LONG_TAIL,
    Code.QUALITY_WATCHED,
    Code.SEEDS_FEW,
    Code.GROUPS_COUNTED,
    Code.EFFECT_SPLIT,
    Code.CONFIDENCE_HOLM,
    Code.MARGIN_BELOW_RESOLUTION,
    Code.SPEED_NOT_PAIRED,
    Code.SPEED_HINDERED,
}
"""Codes of what is odd and refuses nothing."""


@cache
def found() -> dict[Code, tuple[Reason | Note, ...]]:
    """By code, what the verdicts of all rows say, of each row the first."""
    all_said: dict[Code, dict[str, Reason | Note]] = defaultdict(dict)
    rows = [(it.code, it.judge()) for it in MISTAKES.values()]
    rows += [(it.code, it.judge()) for it in ODDITIES.values() if it.code is not None]
    rows += [(code, judged()) for code, judged in OF_OTHER_VERDICTS.items()]
    for code, change in DAMAGE.values():
        for arm in reversed(ARMS):
            execution = build_execution()
            if isinstance(change, dict):
                execution.alter(arm, 2, **change)
            else:
                change(execution, arm, 2)
            rows.append((code, execution.judge()))
    passed = build_execution().judge()
    rows += [(code, passed) for code in (Code.PARITY_ALIKE, Code.SPEED_FASTER)]
    rows.append((Code.QUALITY_NOT_WORSE, passed))
    rows.append((Code.PRINTED_ONLY, judged_printed()))
    rows += [(code, judged) for code, judged in against_registered()]
    for code, verdict in rows:
        for each in said(verdict, code)[:1]:
            all_said[code].setdefault(each.sentence, each)
    return {code: tuple(all_said[code].values()) for code in Code if code in all_said}


def judged_printed() -> Verdict:

    return judge(experiment(), printed())


def against_registered() -> Iterator[tuple[Code, Verdict]]:
    """A registered model that is better, on the same rows and on others, and one that is lost."""
    execution = build_execution(metrics=DROPPING)
    for rows in (2000, 500):
        yield Code.REGISTERED_WORSE, execution.judge(registered=before(0.99, rows))
    lost = Registered(EvidenceError("evidence.json is missing"))
    yield Code.REGISTERED_UNREADABLE, execution.judge(registered=lost)


def test_every_code_has_a_row() -> None:
    assert [code for code in Code if code not in found()] == []


def test_codes_that_decide_are_seen_to_and_the_others_never_do() -> None:
    for code, all_said in found().items():
        against = [it for it in all_said if isinstance(it, Reason) and it.outcome != Outcome.PASS]
        if code in NEVER_DECIDE:
            assert all(isinstance(it, Note) for it in all_said), code
        elif code in PASSING:
            assert against == [], code
        else:
            assert against, code


def test_about_fifty_codes_decide() -> None:
    assert 45 <= len(set(Code) - NEVER_DECIDE) <= 60


def test_the_docs_have_a_row_for_every_code() -> None:
    """`| code | decides or note | accident | what to do |`."""
    rows = re.findall(
        r"^\| `([a-z]+\.[a-z_]+)` \| ([^|]*) \|", DOCS.read_text(encoding="utf-8"), re.MULTILINE
    )
    names = [name for name, _ in rows]
    assert sorted(names) == sorted(code.value for code in Code)
    told = {name for name, how in rows if how.strip().startswith("note")}
    assert told == {code.value for code in NEVER_DECIDE}


def test_messages_are_those_that_were_read_as_a_whole() -> None:
    text = "".join(
        f"{code.value}\n" + "".join(f"    {each.sentence}\n" for each in found()[code]) + "\n"
        for code in Code
    )
    if os.environ.get("UPDATE_GOLDEN"):
        MESSAGES.write_text(text, encoding="utf-8")
    expected = MESSAGES.read_text(encoding="utf-8").splitlines()
    assert text.splitlines() == expected


@pytest.mark.parametrize("code", list(Code))
def test_every_sentence_is_short_and_printable(code: Code) -> None:
    for each in found()[code]:
        assert each.sentence.isprintable()
        assert len(each.sentence) < 420
        assert each.sentence[0].isalnum()


def test_a_code_of_an_earlier_edition_can_still_be_read() -> None:
    code = Code("evidence.truncated")
    assert (code.value, code.subject) == ("evidence.truncated", "evidence")
    assert code not in set(Code)
    for text in ("Evidence", "a b.c", ""):
        with pytest.raises(ValueError, match="is not a valid Code"):
            Code(text)
