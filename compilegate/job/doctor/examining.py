"""One examination of the machine that this process runs on."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Mapping

from compilegate.job.doctor.facts import Facts
from compilegate.job.doctor.judging import Examination, examination_of
from compilegate.job.doctor.looking.frameworks import (
    VARIABLES,
    examine_torch,
    examine_xla,
    installed_packages,
    neuron_devices,
)
from compilegate.job.doctor.looking.gpus import examine_driver
from compilegate.job.doctor.looking.host import examine_host, processor_time
from compilegate.job.doctor.looking.timing import time_cpu
from compilegate.job.doctor.looking.toolchain import examine_toolchain
from compilegate.job.doctor.looking.trial import tried
from compilegate.job.machine.environment import image, instance_type


def examine(variables: Mapping[str, str] = os.environ, *, trying: bool = False) -> Examination:
    """Look at everything, in some seconds; nothing is changed.

    `trying` has every compiler that lacks nothing compile a small model as well, each in a process
    of its own, which takes up to a minute each. `variables` are the environment's.
    """
    driver = examine_driver(variables)  # before anything here uses a GPU
    since = processor_time()
    timing = time_cpu()
    host = examine_host(since)
    torch, timings = examine_torch()
    facts = Facts(
        host=host,
        toolchain=examine_toolchain(variables),
        driver=driver,
        torch=torch,
        xla=examine_xla(),
        packages=installed_packages(),
        neuron_devices=neuron_devices(),
        timings=(timing, *timings),
        instance_type=instance_type(variables),
        image=image(variables),
        variables={name: variables[name] for name in VARIABLES if name in variables},
    )
    found = examination_of(facts)
    return _with_trials(found) if trying else found


def _with_trials(found: Examination) -> Examination:
    """The same, with a trial of every compiler that lacks nothing; one that traces whole steps on a
    device of its own has no counterpart in eager mode to compare with, and is left out."""
    trials = tuple(
        tried(each.label, each.compiler, each.backend, each.runs_on)
        for each in found.compilers
        if each.runs_on in ("cpu", "gpu") and "torch_xla" not in each.needs
    )
    return examination_of(replace(found.facts, tried=trials))
