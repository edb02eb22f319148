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
from transformers import AutoModelForSequenceClassification, AutoTokenizer

CONTENT_TYPES = ("application/json", "application/jsonlines", "text/plain")
DOCUMENTS_AT_ONCE = 32


def model_fn(model_dir: str) -> tuple[Any, Any]:
    """The model in float32, as the gate judged it, and its tokenizer."""
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = AutoModelForSequenceClassification.from_pretrained(model_dir).float().to(device)
    model.eval()
    return model, AutoTokenizer.from_pretrained(model_dir)


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


def predict_fn(documents: list[str], model: tuple[Any, Any]) -> list[dict[str, float]]:
    """The probability of each class, by its name, for each document."""
    classifier, tokenizer = model
    found: list[list[float]] = []
    for start in range(0, len(documents), DOCUMENTS_AT_ONCE):
        encoded = tokenizer(
            documents[start : start + DOCUMENTS_AT_ONCE],
            padding=True,
            truncation=True,
            return_tensors="pt",
        )
        with torch.no_grad():
            logits = classifier(
                input_ids=encoded["input_ids"].to(classifier.device),
                attention_mask=encoded["attention_mask"].to(classifier.device),
            ).logits
        found += logits.double().softmax(dim=-1).cpu().tolist()
    names = [classifier.config.id2label[index] for index in range(classifier.config.num_labels)]
    # Without strict: older images have a Python that does not know it.
    return [dict(zip(names, each)) for each in found]  # noqa: B905


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
