"""Write train.csv and validation.csv: 2,000 and 480 stories of Reuters R8.

Takes the folder with R8's train.jsonl and validation.jsonl, which any execution of news-topics
leaves in the cache.
"""

import csv
import json
import random
import sys
from pathlib import Path

COUNTS = {"train": 2000, "validation": 480}

if __name__ == "__main__":
    order = random.Random(8)
    trained_on: set[str] = set()
    for name, count in COUNTS.items():
        lines = (Path(sys.argv[1]) / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()
        stories = [json.loads(line) for line in lines]
        order.shuffle(stories)
        if name == "train":
            trained_on = {story["text"] for story in stories[:count]}
        else:
            new = {it["text"]: it for it in stories if it["text"] not in trained_on}
            stories = list(new.values())
        with (Path(__file__).parent / f"{name}.csv").open("w", newline="") as file:
            rows = csv.writer(file)
            rows.writerow(["id", "text", "label", "length"])
            for number, story in enumerate(stories[:count]):
                length = "long" if len(story["text"].split()) > 60 else "short"
                rows.writerow([f"{name}-story-{number:04d}", story["text"], story["label"], length])
