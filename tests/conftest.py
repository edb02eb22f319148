"""What all tests share."""

from hypothesis import settings

# How long an example takes says nothing about the code: the machine may be busy.
settings.register_profile("compilegate", deadline=None)
settings.load_profile("compilegate")
