"""The article's three workloads, its debug run, its benchmark and its arithmetic."""

from __future__ import annotations

import pytest

from compilegate.advice import Range, Verdict, advise, facts_of
from compilegate.advice.outcome import WEEKS_PER_YEAR
from compilegate.workload import read_workload
from tests.advice.declared import NOW, bert, diffusion, experience, facts, trees

COMPILERS = ("training-compiler", "torch-compile", "cuda-graphs", "neuron")
KNOWN = 'runs_per_week = 3\nhours = 6\nbottleneck = "compute"'


def test_bert_is_to_be_enabled_and_measured(tmp_path):
    advice = advise(facts(bert(tmp_path, KNOWN)))
    found = advice.option("training-compiler")
    assert found.verdict is Verdict.ENABLE
    assert advice.best is found
    assert found.outcome is not None
    # Six hours become about four; the article hopes for 3.5 to 4.
    assert found.outcome.saved_hours is not None
    ends = [6 - hours for hours in (found.outcome.saved_hours.high, found.outcome.saved_hours.low)]
    assert 3.5 < ends[0] < 4.0 < ends[1] < 6.0
    # $34K a year by the article, which takes a lower price for an hour.
    assert found.outcome.saved_usd_per_year is not None
    assert found.outcome.saved_usd_per_year.holds(34_000)


def test_stable_diffusion_is_to_be_benchmarked(tmp_path):
    told = "runs_per_week = 1\nhours = 18"
    advice = advise(facts(diffusion(tmp_path, told), frozenset({"torch", "diffusers"})))
    for name in ("training-compiler", "torch-compile"):
        assert advice.option(name).verdict is Verdict.BENCHMARK
    assert {each.name for each in advice.missing} >= {"bottleneck", "shapes"}


@pytest.mark.parametrize("name", COMPILERS)
def test_trees_are_left_alone_by_every_compiler(tmp_path, name):
    told = "runs_per_week = 7\nhours = 1.5\nusd_per_hour = 2.8"
    advice = advise(facts(trees(tmp_path, told), frozenset({"xgboost"})))
    assert advice.option(name).verdict is Verdict.OFF
    assert "no graph" in advice.option(name).reason
    levers = {each.name for each in advice.options if each.verdict is not Verdict.OFF}
    assert {"tree-method", "lightgbm"} <= levers


def test_the_levers_of_trees_that_are_in_use_are_not_advised(tmp_path):
    told = "runs_per_week = 7\nhours = 1.5\nusd_per_hour = 2.8"
    path = trees(tmp_path, told, 'tree_method = "hist"')
    assert advise(facts(path, frozenset({"xgboost"}))).option("tree-method").in_use


@pytest.mark.parametrize("name", COMPILERS)
def test_a_debug_run_of_a_quarter_of_an_hour_stays_off(tmp_path, name):
    told = 'runs_per_week = 30\nhours = 0.25\nbottleneck = "compute"'
    found = advise(facts(bert(tmp_path, told))).option(name)
    assert found.verdict is Verdict.OFF
    if name == "training-compiler":
        assert "15 minutes" in found.reason
        assert found.outcome is not None
        assert found.outcome.saved_hours is not None
        assert found.outcome.saved_hours.low < 0  # it may take longer


def test_the_worked_benchmark_enables_the_larger_batch(tmp_path):
    known = facts(bert(tmp_path, KNOWN))
    measured = [
        experience(option="training-compiler", arm="compiled", speedup=Range(1.37, 1.41)),
        experience(option="training-compiler", arm="compiled-48", speedup=Range(1.52, 1.56)),
    ]
    found = advise(known, measured).option("training-compiler")
    assert found.verdict is Verdict.ENABLE
    assert "compiled-48" in found.basis_sentence


def test_forty_per_cent_faster_is_less_than_forty_per_cent_of_the_time(tmp_path):
    # "A 40% speedup on a $20 run nightly is $300 a year": it is 365 x $20 x 28.6%.
    known = facts(
        bert(
            tmp_path,
            "runs_per_week = 7\nhours = 1\nusd_per_hour = 20",
            machines="",
            instance_type="ml.g5.xlarge",
        )
    )
    measured = experience(
        speedup=Range(1.4, 1.4), compile_seconds=Range(0.0, 0.0), instance_type="ml.g5.xlarge"
    )
    outcome = advise(known, [measured]).option("torch-compile").outcome
    assert outcome is not None
    assert outcome.saved_share.low == pytest.approx(1 - 1 / 1.4)
    assert outcome.saved_usd_per_year is not None
    assert outcome.saved_usd_per_year.low == pytest.approx(2085.7, abs=0.1)
    assert pytest.approx(365) == 7 * WEEKS_PER_YEAR


def test_what_costs_next_to_nothing_is_not_worth_a_benchmark(tmp_path):
    told = 'runs_per_week = 1\nhours = 1\nbottleneck = "compute"'
    path = bert(tmp_path, told, machines="", instance_type="ml.g5.xlarge")
    found = advise(facts(path)).option("training-compiler")
    assert found.verdict is Verdict.OFF
    assert "even at best" in found.reason


def test_a_job_that_waits_for_data_mends_its_loader_first(tmp_path):
    told = 'runs_per_week = 3\nhours = 6\nbottleneck = "data"'
    advice = advise(facts(bert(tmp_path, told)))
    assert advice.option("training-compiler").verdict is Verdict.OFF
    assert advice.best is advice.option("data-loading")


def test_a_job_without_a_gpu_stays_off_until_an_execution_says_otherwise(tmp_path):
    told = 'runs_per_week = 7\nhours = 6\nbottleneck = "compute"\nusd_per_hour = 1'
    known = facts(bert(tmp_path, told, machines="", instance_type="ml.m5.xlarge"))
    assert advise(known).option("torch-compile").verdict is Verdict.OFF
    here = experience(instance_type="ml.m5.xlarge", accelerator=None)
    assert advise(known, [here]).option("torch-compile").verdict is Verdict.ENABLE


def test_the_price_of_another_region_will_do_where_it_decides_nothing(tmp_path):
    path = bert(tmp_path, KNOWN)
    there = facts_of(read_workload(path), region="eu-north-1", now=NOW)
    assert not there.usd_per_hour.known
    found = advise(there).option("training-compiler")
    assert found.verdict is Verdict.ENABLE
    assert "of another region" in found.considerations[-1].sentence


def test_no_change_is_what_the_others_are_held_against(tmp_path):
    for path, libraries in (
        (bert(tmp_path, KNOWN), frozenset[str]()),
        (trees(tmp_path, "runs_per_week = 7\nhours = 1.5"), frozenset({"xgboost"})),
    ):
        advice = advise(facts(path, libraries))
        quo = advice.option("status-quo")
        assert quo.verdict is Verdict.REFERENCE
        assert quo.basis is None
        assert quo.reason.startswith("all other options are held against it")
        assert [each.name for each in advice.options if each.verdict is Verdict.REFERENCE] == [
            "status-quo"
        ]


def test_trees_are_asked_for_the_length_of_a_run_too(tmp_path):
    advice = advise(facts(trees(tmp_path, "runs_per_week = 7"), frozenset({"xgboost"})))
    dollars = next(each for each in advice.missing if each.name == "dollars")
    assert "how long a run takes" in dollars.sentence
    assert "hours" in dollars.find_out


def test_facts_that_decide_nothing_alone_are_asked_for_last(tmp_path):
    path = trees(tmp_path, "runs_per_week = 7\nhours = 1.5\nusd_per_hour = 2.8")
    asked = [each.name for each in advise(facts(path, frozenset({"xgboost"}))).missing]
    assert asked == ["epochs", "resumes"]
    with path.open("a", encoding="utf-8") as file:
        file.write("epochs = 2\nresumes = true\n")
    assert advise(facts(path, frozenset({"xgboost"}))).missing == ()


def test_what_is_no_compiler_has_a_reason_of_its_own_at_trees(tmp_path):
    path = trees(tmp_path, "runs_per_week = 7\nhours = 1.5\nusd_per_hour = 2.8")
    advice = advise(facts(path, frozenset({"xgboost"})))
    assert "serves neural networks" in advice.option("data-loading").reason


def test_what_people_say_against_their_programs_imports_decides_nothing(tmp_path):
    told = 'runs_per_week = 7\nhours = 1.5\nusd_per_hour = 2.8\nframework = "pytorch"'
    found = facts(trees(tmp_path, told), frozenset({"xgboost"})).framework
    assert not found.known
    assert "but the program imports xgboost" in found.source
    built_in = facts(bert(tmp_path, f'{KNOWN}\nframework = "xgboost"')).framework
    assert built_in.value == "pytorch"
    assert "although" in built_in.source


def test_a_tensorflow_program_is_not_offered_what_takes_torch(tmp_path):
    path = diffusion(tmp_path, "runs_per_week = 1\nhours = 18")
    arm = '[arms.compiled]\ncompiler = "training-compiler"\nbatch_size = 4\nlearning_rate = 1e-5\n'
    same = 'precision = "fp16"\ninstance_type = "ml.p3.2xlarge"\n\n'
    text = path.read_text(encoding="utf-8").replace("[gate.metrics", f"{arm}{same}[gate.metrics", 1)
    path.write_text(text, encoding="utf-8")
    found = facts(path, frozenset({"tensorflow"}))
    assert found.framework.value == "tensorflow"
    assert advise(found).option("torch-compile").verdict is Verdict.OFF


@pytest.mark.parametrize(
    ("libraries", "told", "framework"),
    [
        ({"transformers", "sklearn"}, "", "pytorch"),
        ({"transformers", "xgboost"}, "", "pytorch"),
        ({"timm", "sklearn"}, "", "pytorch"),
        ({"sklearn"}, "", "scikit-learn"),
        ({"sklearn", "ours"}, 'framework = "pytorch"', "pytorch"),
    ],
    ids=["trainer", "both", "timm", "sklearn alone", "said"],
)
def test_metrics_from_scikit_learn_make_no_framework(tmp_path, libraries, told, framework):
    path = diffusion(tmp_path, f"hours = 18\n{told}")
    assert facts(path, frozenset(libraries)).framework.value == framework
    assert facts(path, frozenset(libraries)).framework.known == ("transformers" not in libraries)
