"""A plan in words: for the terminal, and as Markdown for a pull request. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from compilegate.account.plan.changes import FieldChange
from compilegate.account.plan.cost import JobCost, Total
from compilegate.account.plan.planning import Plan
from compilegate.account.plan.quotas import QuotaAnswer
from compilegate.account.plan.storage import GIGABYTE, usd_a_month
from compilegate.cli.terminal.errors import aligned
from compilegate.report import formats
from compilegate.report.cost import dollars

LONGEST_VALUE = 160
_COLUMNS = ("STEP", "INSTANCE", "WOULD", "TOOK LAST", "USUALLY", "AT MOST", "WHY")
_MARKS = {"forbids": "FORBIDDEN", "limits": "limited", "unknown": "unknown", "allows": "ok"}


def plan_text(plan: Plan) -> str:
    """The plan for the terminal."""
    lines = [f"{plan.pipeline} in {plan.region}", "", _definition_sentence(plan)]
    lines += [f"  {line}" for line in _change_lines(plan)]
    lines += ["", _cache_sentence(plan)]
    lines += [f"  {line}" for line in aligned([_COLUMNS, *_rows(plan)])]
    lines += ["", *_cost_sentences(plan), "", _quota_sentence(plan)]
    lines += [f"  {_MARKS[quota.answer]}: {quota.sentence}" for quota in _worst_first(plan)]
    return "\n".join(lines)


def plan_markdown(plan: Plan) -> str:
    """The plan as Markdown; its first line marks the comment so that it can be found again."""
    lines = [f"<!-- compilegate aws plan {plan.pipeline} -->"]
    lines += [f"### Plan of `{plan.pipeline}` in {plan.region}", "", _definition_sentence(plan)]
    changes = list(_change_lines(plan))
    if changes:
        lines += ["", "```diff", *changes, "```"]
    lines += ["", _cache_sentence(plan), "", _table_row(_COLUMNS)]
    lines += [_table_row(["---"] * len(_COLUMNS)), *map(_table_row, _rows(plan))]
    lines += ["", "  \n".join(_cost_sentences(plan)), "", _quota_sentence(plan), ""]
    lines += [
        f"- **{_MARKS[quota.answer]}**: {_escaped(quota.sentence)}" for quota in _worst_first(plan)
    ]
    return "\n".join(lines)


def _definition_sentence(plan: Plan) -> str:
    changes = plan.changes
    if not plan.deployed:
        return f"Definition: not deployed yet, {len(changes.added)} steps would be new"
    if changes.none:
        return "Definition: the same as the deployed one"
    changed = sum(len(change.steps) for change in changes.changed)
    return (
        f"Definition: {len(changes.added)} steps added, {len(changes.removed)} removed, "
        f"{changed} changed, {len(changes.parameters)} changes of parameters"
    )


def _change_lines(plan: Plan) -> Iterator[str]:
    """In the form of a diff: each line begins with `+`, `-` or `!`."""
    if not plan.deployed:
        return
    changes = plan.changes
    for name in changes.removed:
        yield f"- {name}"
    for name in changes.added:
        yield f"+ {name}"
    for change in changes.changed:
        yield f"! {', '.join(change.steps)}"
        yield from _field_lines(change.fields)
    for title, fields in (("parameters", changes.parameters), ("definition", changes.other)):
        if fields:
            yield f"! {title}"
            yield from _field_lines(fields)


def _field_lines(fields: Sequence[FieldChange]) -> Iterator[str]:
    for field in fields:
        if field.before is not None:
            yield f"-   {field.path}: {_cut(field.before)}"
        if field.after is not None:
            yield f"+   {field.path}: {_cut(field.after)}"


def _cache_sentence(plan: Plan) -> str:
    served = sum(prediction.served for prediction in plan.predictions)
    return (
        f"Step cache: {served} of {len(plan.predictions)} jobs would come from it "
        "(a prediction: SageMaker does not show its cache)"
    )


def _rows(plan: Plan) -> list[tuple[str, ...]]:
    whys = {prediction.step: prediction.why for prediction in plan.predictions}
    return [_row(job, whys[job.step]) for job in plan.cost.jobs]


def _row(job: JobCost, why: str) -> tuple[str, ...]:
    return (
        job.step,
        job.instance_type,
        "be cached" if job.served else "run",
        formats.NOTHING if job.usual_seconds is None else formats.seconds(job.usual_seconds),
        formats.NOTHING if job.usual_usd is None else dollars(job.usual_usd),
        formats.NOTHING if job.most_usd is None else dollars(job.most_usd),
        why,
    )


def _cost_sentences(plan: Plan) -> list[str]:
    cost = plan.cost
    return [
        f"Cost, usually: {_amount(cost.usual, 'that would run, each as long as its last run')}",
        f"Cost, at most: {_amount(cost.most, 'at their maximum runtimes, nothing cached')}",
        *(f"Unknown: {reason}" for reason in cost.unknown),
        *_storage_sentences(plan),
        *([] if plan.network is None else [plan.network.sentence]),
    ]


def _storage_sentences(plan: Plan) -> list[str]:
    if plan.storage_unknown is not None:
        return [f"Storage: not known ({plan.storage_unknown})"]
    if plan.storage is None:
        return []
    storage = plan.storage
    said = [
        f"Storage: {_stored(storage.total)}, of which {_stored(storage.permanent)} never expire"
    ]
    if storage.growth:
        said.append(
            f"Storage, in a year: {_stored(storage.growth)} more, if each of "
            f"{storage.starts_a_year} scheduled starts registers a model like the last"
        )
    return said


def _stored(size: int) -> str:
    return f"{size / GIGABYTE:,.2f} GB ({usd_a_month(size):,.2f} USD a month)"


def _amount(total: Total, of_what: str) -> str:
    if total.of == 0:
        return "nothing, no job would run"
    if total.counted == 0:
        return f"unknown, for all of the {total.of} jobs {of_what}"
    counted = f"the {total.of}" if total.complete else f"{total.counted} of the {total.of}"
    more = "" if total.complete else "; the others are unknown"
    return f"{dollars(total.usd)} for {counted} jobs {of_what}{more}"


def _quota_sentence(plan: Plan) -> str:
    if plan.quotas_unknown is not None:
        return f"Quotas: not known ({plan.quotas_unknown})"
    counts = Counter(quota.answer for quota in plan.quotas)
    of = len(plan.quotas)
    if counts["forbids"]:
        said = f"Quotas: {counts['forbids']} of {of} forbid this execution"
    elif counts["limits"]:
        said = f"Quotas: {counts['limits']} of {of} let fewer jobs run in parallel than could"
    else:
        said = f"Quotas: {counts['allows']} of {of} allow this execution"
    return f"{said}, {counts['unknown']} unknown" if counts["unknown"] else said


def _worst_first(plan: Plan) -> list[QuotaAnswer]:
    return sorted(plan.quotas, key=lambda quota: list(_MARKS).index(quota.answer))


def _cut(value: str) -> str:
    """One line, cut to a readable length."""
    line = value.replace("\n", "\\n")
    return line if len(line) <= LONGEST_VALUE else f"{line[: LONGEST_VALUE - 3]}..."


def _table_row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(map(_escaped, cells))} |"


def _escaped(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;")
