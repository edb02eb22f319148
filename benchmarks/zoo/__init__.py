"""A zoo of a hundred architectures that nobody here designed: is the parity probe right on each?

    python -m benchmarks.zoo [--only PART] [--precision bf16] [--processes 2] [--check]

Each is trained for ten steps by an ordinary loop with the five lines (`script`), once as its
compiler has it and three times with an error planted in the compiled code (`planted`). What is true
of each compiler is found without the project's code (`truth`). Rows are kept one by one, so a run
that was stopped goes on; docs/zoo.md is made of them (`page`).
"""
