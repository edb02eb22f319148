"""Every rule, in one table. A new family of rules is a line here."""

from __future__ import annotations

from compilegate.check.rules.keras import graphs
from compilegate.check.rules.rule import Rule
from compilegate.check.rules.sagemaker import entry_points, jobs, preprocessing, tested
from compilegate.check.rules.shapes import batches, forward, padding
from compilegate.check.rules.steps import machinery, reading_out, recording
from compilegate.check.rules.torch_compile import table as torch_compile
from compilegate.check.rules.trainer import arguments
from compilegate.check.rules.xla import barriers, devices, distributed

RULES: tuple[Rule, ...] = (
    *reading_out.RULES,
    *recording.RULES,
    *machinery.RULES,
    *padding.RULES,
    *batches.RULES,
    *forward.RULES,
    *barriers.RULES,
    *devices.RULES,
    *distributed.RULES,
    *arguments.RULES,
    *graphs.RULES,
    *jobs.RULES,
    *entry_points.RULES,
    *tested.RULES,
    *preprocessing.RULES,
    *torch_compile.RULES,
)

BY_NAME = {each.name: each for each in RULES}
