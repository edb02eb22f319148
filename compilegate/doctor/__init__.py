"""`compilegate doctor NAME`: the examination of `compilegate.job.doctor` as jobs, one for each
image and instance of a workload.

    from compilegate.doctor import doctor_definition

    definition = doctor_definition(read_definition(text)[0])
"""

from compilegate.doctor.answers import Answer, AnswerError, read_answer
from compilegate.doctor.definition import PROGRAM, doctor_definition, step_name

__all__ = [
    "PROGRAM",
    "Answer",
    "AnswerError",
    "doctor_definition",
    "read_answer",
    "step_name",
]
