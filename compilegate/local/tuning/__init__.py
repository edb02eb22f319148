"""Tuning steps: training jobs with hyperparameters that a search chooses, and the best of them.

search.py    ranges and strategies: what to try next
job.py       a CreateHyperParameterTuningJob request, its trials, what they came to
"""
