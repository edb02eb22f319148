"""The server that processes are forked from imports this."""

from benchmarks.zoo import hundred

hundred.import_all()
