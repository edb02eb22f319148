"""What the measurement of the check counts as right, wrong and missed, and its labels."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

from compilegate.check.rules.table import BY_NAME

BENCHMARKS = Path(__file__).parents[2] / "benchmarks" / "check"
HEADER = "source,version,path,half,rule,line,label\n"
SCRIPT = """import torch
from torch import nn

model = nn.Linear(2, 1)
torch.compile(model)
model = torch.compile(model, mode="reduce_overhead")
model(torch.randn(1, 2))
"""


@pytest.fixture
def program(monkeypatch):
    """The program, as a module."""
    monkeypatch.syspath_prepend(BENCHMARKS)
    return importlib.import_module("precision_and_recall")


@pytest.fixture
def sources(tmp_path):
    """A folder with one script of somebody's repository."""
    script = tmp_path / "some" / "one" / "train.py"
    script.parent.mkdir(parents=True)
    script.write_text(SCRIPT, encoding="utf-8")
    return tmp_path


def test_findings_are_counted_against_labels(program, sources, tmp_path):
    labels = tmp_path / "labels.csv"
    labels.write_text(
        HEADER
        + "some/one,abc,train.py,development,compiled-discarded,5,expected\n"
        + "some/one,abc,train.py,development,orig-mod-keys,7,expected\n",
        encoding="utf-8",
    )
    counts, mistakes, absent = program.measured(program.read_labels(labels), sources)
    assert absent == []
    assert (counts["compiled-discarded"].precision, counts["compiled-discarded"].recall) == (1, 1)
    assert (counts["orig-mod-keys"].precision, counts["orig-mod-keys"].recall) == (None, 0)
    assert counts["compile-options"].precision == 0
    assert [line.split()[0] for line in mistakes] == ["not", "missed:"]


def test_recall_is_told_only_where_all_places_were_looked_for(program, sources, tmp_path):
    labels = tmp_path / "labels.csv"
    labels.write_text(
        HEADER
        + "some/one,abc,train.py,held-out,compiled-discarded,5,expected-later\n"
        + "some/one,abc,train.py,held-out,compile-options,6,allowed\n"
        + "some/one,abc,train.py,held-out,*,0,no-error\n",
        encoding="utf-8",
    )
    counts, mistakes, _ = program.measured(program.read_labels(labels), sources)
    assert counts["compiled-discarded"].precision == 1
    assert counts["compiled-discarded"].recall is None
    assert counts["compile-options"].precision is None
    assert len(mistakes) == 2
    assert all(line.startswith("an error, in a good script") for line in mistakes)


def test_a_page_is_not_written_from_half_of_the_sources(program, tmp_path, capsys):
    page = tmp_path / "page.md"
    page.write_text(f"a {program.START}\n{program.END} b", encoding="utf-8")
    assert program.main([str(tmp_path), "--write", str(page)]) == 1
    assert page.read_text(encoding="utf-8") == f"a {program.START}\n{program.END} b"
    assert "not complete" in capsys.readouterr().out


def test_the_labels_name_rules_that_there_are(program):
    scripts = program.read_labels()
    rules = {label.rule for script in scripts for label in script.labels}
    assert rules - {"*"} <= set(BY_NAME)
    assert {script.half for script in scripts} == set(program.HALVES)
    assert len(scripts) >= 40


def test_each_source_has_a_command_that_gets_it(program):
    scripts = program.read_labels()
    commands = program.fetch_commands(scripts)
    assert len(commands) == len({(each.source, each.version) for each in scripts})
    assert all(each.version in "\n".join(commands) for each in scripts)
