"""Serves a classifier of documents that the built-in program trained.

A request is JSON, `{"inputs": ["a document", "another"]}` or `{"inputs": "one document"}`; or
`text/plain` with a document on each line. The answer has one object for each document:

    {"label": "grain", "score": 0.93, "scores": {"grain": 0.93, "trade": 0.07}}

Documents are cut to the length that the model was trained with, as in its evaluation.
"""

from __future__ import annotations

import json
from typing import Any

import torch
from transformers import AutoModelForSequenceClassification, AutoTokenizer, pipeline

CONTENT_TYPES = ("application/json", "application/jsonlines", "text/plain")
DOCUMENTS_AT_ONCE = 32


def model_fn(model_dir: str) -> Any:
    """The model in float32, as the gate judged it, with its tokenizer."""
    return pipeline(
        "text-classification",
        model=AutoModelForSequenceClassification.from_pretrained(model_dir).float(),
        tokenizer=AutoTokenizer.from_pretrained(model_dir),
        device=0 if torch.cuda.is_available() else -1,
    )


def input_fn(body: Any, content_type: str) -> list[str]:
    """The documents of a request, in order."""
    text = body.decode("utf-8") if isinstance(body, bytes) else body
    if content_type == "text/plain":
        return [line for line in text.splitlines() if line.strip()]
    if content_type == "application/jsonlines":
        return [_document(json.loads(line)) for line in text.splitlines() if line.strip()]
    if content_type != "application/json":
        allowed = ", ".join(CONTENT_TYPES)
        raise ValueError(f"content type {content_type!r} is not supported, allowed: {allowed}")
    request = json.loads(text)
    inputs = request.get("inputs") if isinstance(request, dict) else request
    documents = [inputs] if isinstance(inputs, str) else inputs
    if not isinstance(documents, list):
        raise ValueError('the request has no documents, allowed: {"inputs": ["a document", ...]}')
    return [_document(each) for each in documents]


def predict_fn(documents: list[str], model: Any) -> list[dict[str, float]]:
    """The probability of each class, by its name, for each document."""
    options = {"function_to_apply": "softmax", "batch_size": DOCUMENTS_AT_ONCE}
    found = model(documents, top_k=None, truncation=True, **options)
    return [{each["label"]: each["score"] for each in scores} for scores in found]


def output_fn(prediction: list[dict[str, float]], accept: str) -> str:
    """The answer as JSON, or as one line of JSON for each document."""
    answers = []
    for scores in prediction:
        label = max(scores, key=lambda each: scores[each])
        answers.append({"label": label, "score": scores[label], "scores": scores})
    if accept == "application/jsonlines":
        return "".join(json.dumps(each) + "\n" for each in answers)
    return json.dumps(answers)


def _document(entry: Any) -> str:
    document = entry.get("inputs") if isinstance(entry, dict) else entry
    if not isinstance(document, str):
        raise ValueError(f"a document is {type(entry).__name__}, allowed: text")
    return document
