"""Training Compiler proves that it is on, or the job ends with the reason.

The compiler itself is in AWS's images only, and never ran here: what is tested is what is checked
of it.
"""

from __future__ import annotations

import pytest

from compilegate.job.compilers.aws import debug_mode, require_configured
from compilegate.job.errors import CompilerError

CONFIGURED, PARAMETERS = "SM_TRAINING_COMPILER_CONFIGURED", "SM_FRAMEWORK_PARAMS"
SWITCHED_ON = '{"sagemaker_training_compiler_enabled":true}'


def test_a_compiler_is_on_where_it_set_its_variable_and_else_the_reason_is_named() -> None:
    require_configured({CONFIGURED: "1"})
    with pytest.raises(CompilerError, match="holds no switch of it; the request must"):
        require_configured({})
    with pytest.raises(CompilerError, match="the image has a torch_xla that is not AWS's"):
        require_configured({CONFIGURED: "0", PARAMETERS: SWITCHED_ON})


def test_debug_mode_is_read_as_the_toolkit_writes_it() -> None:
    name = "sagemaker_training_compiler_debug_mode"
    for parameters in (f'{{"{name}":true}}', f'{{"{name}":"true"}}'):
        assert debug_mode({PARAMETERS: parameters})
    for parameters in (f'{{"{name}":false}}', "{}", "", "not JSON"):
        assert not debug_mode({PARAMETERS: parameters})
