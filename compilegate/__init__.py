"""Train with a graph compiler; ship the result only when the evidence says it is as good."""
