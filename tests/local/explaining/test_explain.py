"""`compilegate pipeline explain`: each step, what it waits for, what runs it, why it is refused."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest
from click.testing import CliRunner
from compilegate.cli.pipeline.explain import command
from hypothesis import given
from hypothesis import strategies as st

from compilegate.local.explaining.drawing import svg
from compilegate.local.explaining.explanation import ExplainedStep, Explanation
from compilegate.local.explaining.text import text_lines

GOLDEN = Path(__file__).parent


def definition(bench: Any) -> str:
    said = {"Get": "Steps.check.Outcome"}
    return bench.definition(
        bench.processing("prepare", outputs=["o"]),
        bench.processing("train", DependsOn=["prepare"]),
        {"Name": "check", "Type": "QualityCheck", "Arguments": {}, "DependsOn": ["train"]},
        {"Name": "beam", "Type": "Teleport", "Arguments": {}},
        bench.condition(
            "good",
            bench.equals(1, 1),
            then=[bench.processing("deploy", arguments=[said])],
            otherwise=[bench.fail("bad", "no <good>")],
            DependsOn=["train"],
        ),
    )


def explained(bench: Any, tmp_path: Path, *options: str) -> Any:
    file = tmp_path / "pipeline.json"
    file.write_text(definition(bench))
    common = [str(file), "--image", "*=here", "--home", str(bench.home)]
    return CliRunner().invoke(command, [*common, *options], catch_exceptions=False)


def same_as_golden(name: str, found: str) -> None:
    path = GOLDEN / name
    if os.environ.get("UPDATE_GOLDEN"):
        path.write_text(found, encoding="utf-8")
    assert path.read_text(encoding="utf-8") == found


def test_text_and_picture_are_those_that_were_kept(bench: Any, tmp_path: Path) -> None:
    picture = tmp_path / "steps.svg"
    result = explained(bench, tmp_path, "--svg", str(picture))
    assert result.exit_code == 2
    same_as_golden("explained.txt", result.output.replace(str(picture), "steps.svg"))
    same_as_golden("explained.svg", picture.read_text(encoding="utf-8"))


def test_nothing_is_started_or_written(bench: Any, tmp_path: Path) -> None:
    explained(bench, tmp_path)
    assert not bench.home.exists()


def test_what_is_left_out_is_not_refused(bench: Any, tmp_path: Path) -> None:
    result = explained(bench, tmp_path, "--skip", "beam", "--command", "check=true")
    assert result.exit_code == 0, result.output
    assert "left out: --skip" in result.output
    assert "the command true" in result.output


texts = st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"]), max_size=60)


@pytest.mark.slow
@given(st.lists(texts, min_size=1, max_size=6, unique=True), st.data())
def test_every_picture_is_xml_with_a_box_for_each_step(names: list[str], data: Any) -> None:
    others = st.lists(st.sampled_from(names), max_size=2)
    steps = tuple(
        ExplainedStep(
            name=name,
            type="Training",
            waits_for=tuple(data.draw(others)),
            condition=data.draw(st.none() | st.sampled_from(names)),
            taken_when=data.draw(st.booleans()),
            where=data.draw(texts),
            left_out=None,
            refused=tuple(data.draw(st.lists(texts, max_size=2))),
        )
        for name in names
    )
    explanation = Explanation(steps, ())
    root = ET.fromstring(svg(explanation))  # noqa: S314  our own
    assert len(root.findall("{http://www.w3.org/2000/svg}g")) == len(names)
    assert all(any(name in line for line in text_lines(explanation)) for name in names)


@pytest.mark.parametrize("content", [b"", b"[]", b'{"Steps": 3}', b"\xff\xfe"])
def test_what_is_no_definition_is_told_in_a_sentence(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "x.json"
    file.write_bytes(content)
    result = CliRunner().invoke(command, [str(file), "--home", str(tmp_path / "home")])
    assert result.exit_code == 2
    assert "refused" in result.output or "cannot be read" in result.output


def waiting(name: str, *waits_for: str) -> ExplainedStep:
    return ExplainedStep(name, "Training", waits_for, None, None, "here", None, ())


SVG = "{http://www.w3.org/2000/svg}"


@pytest.mark.slow
@given(st.data())
def test_a_line_that_passes_a_column_goes_behind_none_of_its_boxes(data: Any) -> None:
    names = [f"s{number}" for number in range(data.draw(st.integers(1, 8)))]
    steps = [
        waiting(name, *(data.draw(st.sets(st.sampled_from(names[:at]))) if at else ()))
        for at, name in enumerate(names)
    ]
    root = ET.fromstring(svg(Explanation(tuple(steps), ())))  # noqa: S314  our own
    sizes = [
        [int(box.attrib[key]) for key in ("x", "y", "width", "height")]
        for box in root.iter(f"{SVG}rect")
    ]
    lanes = [
        (int(x), int(y), int(end))
        for path in root.iter(f"{SVG}path")
        for x, y, end in re.findall(r" (\d+) (\d+)H(\d+)", path.attrib["d"])
    ]
    for x, y, end in lanes:
        assert all(
            end <= left or left + width <= x or y < top or top + height < y
            for left, top, width, height in sizes
        )
        assert y < int(root.attrib["height"])


def test_a_name_is_cut_where_its_box_ends() -> None:
    drawn = svg(Explanation((waiting("W" * 90), waiting("s" * 37), waiting("名" * 30)), ()))
    assert f">{'W' * 18}…</text>" in drawn
    assert f">{'s' * 37}</text>" in drawn
    assert f">{'名' * 18}…</text>" in drawn
