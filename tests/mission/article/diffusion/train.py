"""What the script of the article imports."""

import diffusers  # noqa: F401
import torch  # noqa: F401
