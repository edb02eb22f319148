"""The report as one HTML page that needs nothing from anywhere: no script, no font, no network."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from compilegate.gate.findings import Outcome
from compilegate.gate.observations import Observations
from compilegate.gate.verdict import CandidateVerdict, MetricJudgement, Verdict
from compilegate.report import cost, formats
from compilegate.report.about import About, facts_of, with_data
from compilegate.report.charts import (
    SeedPanel,
    arm_colours,
    break_even_chart,
    length_chart,
    loss_charts,
    seed_charts,
    step_time_chart,
    timeline_chart,
)
from compilegate.report.glance import JUDGED_IN_CELLS, Cell, glance
from compilegate.report.glossary import GLOSSARY
from compilegate.report.page.forests import pictures
from compilegate.report.page.rendering import environment
from compilegate.report.remedies import remedies
from compilegate.report.repayment import BreakEven, break_even_of

_REASONS_AT_A_GLANCE = 2
"""That no cell tells."""


@dataclass(frozen=True)
class _CandidateView:
    verdict: CandidateVerdict
    decisive: tuple[tuple[str, Cell], ...]
    """(respect, cell) of what made it what it is."""
    told: tuple[str, ...]
    """Reasons that no cell tells, in sentences."""
    saved: str | None
    """What a retraining saves, where it passed."""
    remedy: str | None
    """What to do first, where it did not."""
    break_even_chart: Markup | None
    break_even: BreakEven | None


@dataclass(frozen=True)
class _SeedsOfMetric:
    metric: str
    panels: tuple[tuple[str, Markup], ...]
    """(candidate, chart)."""


def render_html(verdict: Verdict, observations: Observations, about: About | None = None) -> str:
    """The whole page. Everything that comes from outside is escaped."""
    about = with_data(about, observations)
    colours, lines = arm_colours(observations), glance(verdict)
    return (
        environment()
        .get_template("page.html.jinja")
        .render(
            verdict=verdict,
            observations=observations,
            about=about,
            facts=facts_of(about),
            candidates=[
                _candidate(
                    item,
                    verdict,
                    [(line.name, line.cells[number - 1]) for line in lines],
                    colours.get(item.arm, ""),
                    f"candidate-{number}",
                )
                for number, item in enumerate(verdict.candidates, start=1)
            ],
            pictures=pictures(verdict, colours),
            glance=lines,
            seeds=_seeds(verdict, observations, colours),
            losses=loss_charts(observations, identity="loss"),
            step_times=step_time_chart(observations, title="Step times", identity="step-times"),
            lengths=length_chart(observations, title="Lengths of documents", identity="lengths"),
            timeline=timeline_chart(
                about.spans, colours, title="When each job ran", identity="timeline"
            ),
            environment=environment_rows(observations),
            arm_colours=colours,
            glossary=GLOSSARY,
        )
    )


def environment_rows(observations: Observations) -> list[tuple[str, list[str]]]:
    """(name, one value per arm) of everything that any arm recorded about where it ran."""
    names = sorted({name for arm in observations.arms for name in arm.environment})
    return [
        (name, [arm.environment.get(name, formats.NOTHING) for arm in observations.arms])
        for name in names
    ]


def _candidate(
    candidate: CandidateVerdict,
    verdict: Verdict,
    cells: Sequence[tuple[str, Cell]],
    colour: str,
    identity: str,
) -> _CandidateView:
    speed, passed = candidate.speed, candidate.outcome is Outcome.PASS
    figures = () if verdict.cost is None else verdict.cost.candidates
    saved = next((cost.saved(it.saved) for it in figures if it.arm == candidate.arm), None)
    return _CandidateView(
        verdict=candidate,
        decisive=tuple((name, cell) for name, cell in cells if cell.outcome is candidate.outcome),
        told=_told_by_no_cell(candidate),
        saved=saved if passed else None,
        remedy=None if passed else next(iter(remedies(verdict, candidate)), None),
        break_even_chart=None
        if speed is None
        else break_even_chart(
            speed,
            colour=colour,
            title=f"Compile time against time saved, {candidate.arm}",
            identity=f"{identity}-break-even",
        ),
        break_even=None if speed is None else break_even_of(speed),
    )


def _told_by_no_cell(candidate: CandidateVerdict) -> tuple[str, ...]:
    """What decided it and stands in no cell of its own: a failed training, a confound."""
    told = [
        reason.sentence
        for reason in candidate.reasons
        if reason.outcome is candidate.outcome
        and reason.outcome is not Outcome.PASS
        and reason.code.subject not in JUDGED_IN_CELLS
    ]
    return tuple(told[:_REASONS_AT_A_GLANCE])


def _seeds(
    verdict: Verdict, observations: Observations, colours: Mapping[str, str]
) -> list[_SeedsOfMetric]:
    """For each metric that was compared, a panel for each candidate that has it."""
    values: dict[tuple[str, str], dict[int, float]] = {}
    for item in observations.replicates:
        for metric, value in item.metrics.items():
            values.setdefault((item.arm, metric), {})[item.seed] = value
    compared = {
        it.metric: it for one in verdict.candidates for it in one.metrics if it.part is None
    }
    found = []
    for number, (metric, judged) in enumerate(compared.items(), start=1):
        panels = [
            _seed_panel(arm, judged, values, observations.baseline, colours)
            for arm in (it.arm for it in verdict.candidates)
            if values.get((arm, metric))
        ]
        charts = seed_charts(panels, identity=f"seeds-{number}")
        named = tuple(zip((panel.arm for panel in panels), charts, strict=True))
        if named:
            found.append(_SeedsOfMetric(metric, named))
    return found


def _seed_panel(
    arm: str,
    judged: MetricJudgement,
    values: Mapping[tuple[str, str], Mapping[int, float]],
    baseline: str,
    colours: Mapping[str, str],
) -> SeedPanel:
    its = values.get((baseline, judged.metric), {})
    return SeedPanel(
        arm=arm,
        colour=colours.get(arm, ""),
        metric=judged.metric,
        candidate=values[arm, judged.metric],
        baseline=its,
        limit=sum(its.values()) / len(its) + judged.limit
        if its and judged.limit is not None
        else None,
        higher_is_better=judged.direction == "higher",
    )
