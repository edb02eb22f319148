"""Steps that call something: a Lambda's handler, or the command that stands for a step."""
