"""Changes of a synthetic execution, with all that follows from them."""

from __future__ import annotations

import dataclasses

import numpy as np

SEEDS = (1, 2, 3)
ARMS = ("baseline", "fast")


def change_speed(execution, arm, seed, **fields):
    speed = dataclasses.replace(execution.record(arm, seed).evidence.speed, **fields)
    execution.change_evidence(arm, seed, speed=speed)


def change_compiler(execution, arm, seed, **fields):
    compiler = dataclasses.replace(execution.record(arm, seed).evidence.compiler, **fields)
    execution.change_evidence(arm, seed, compiler=compiler)


def change_recipe(execution, arm, seed, **values):
    recipe = {**execution.record(arm, seed).evidence.recipe, **values}
    execution.change_evidence(arm, seed, recipe=recipe)


def declare(execution, arm, **values):
    arms = dict(execution.experiment.arms)
    arms[arm] = arms[arm].model_copy(update=values)
    execution.experiment = execution.experiment.model_copy(update={"arms": arms})


def set_seconds(execution, arm, seed, seconds):
    execution.change_steps(arm, seed, seconds=np.asarray(seconds, dtype=float))
