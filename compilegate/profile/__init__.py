"""What a profile means: where a step's time goes, what holds it up, and the most that each compiler
could save. Pure, but for reading the file.

`compilegate.job.profiling` writes the profile in the training process; `analysis_of` is all that
follows from it, and `text_of` renders it.
"""

from compilegate.profile.analysis import Analysis, analysis_of
from compilegate.profile.reading import ProfileError, read_profile
from compilegate.profile.text import text_of

__all__ = ["Analysis", "ProfileError", "analysis_of", "read_profile", "text_of"]
