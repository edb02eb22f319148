"""The root of this project's errors: who catches `CompilegateError` misses none.

It is defined where a training script can reach it, which imports nothing but `compilegate.job`.
"""

from compilegate.job.errors import CompilegateError

__all__ = ["CompilegateError"]
