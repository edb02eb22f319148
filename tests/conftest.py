"""What all tests share."""

from hypothesis import settings

# How long an example takes says nothing about the code: the machine may be busy.
settings.register_profile("compilegate", deadline=None)
settings.load_profile("compilegate")

# One server that stands in for AWS, for the tests of every room that speaks to it.
pytest_plugins = ["tests.aws_server.fixtures"]
