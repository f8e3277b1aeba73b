# SPDX-License-Identifier: MIT
"""python3's load: objects, strings and dictionaries that come and go. words.py PASSES FILE"""

import json
import sys
from collections import defaultdict


class Entry:
    """A word with what was found out about it."""

    def __init__(self, word: str) -> None:
        self.word = word
        self.key = "".join(sorted(word.lower()))
        self.neighbours: list["Entry"] = []


def one_pass(words: list[str]) -> int:
    groups: defaultdict[str, list[Entry]] = defaultdict(list)
    for word in words:
        entry = Entry(word)
        group = groups[entry.key]
        entry.neighbours = group[-3:]
        group.append(entry)
    summary = {key: [e.word for e in group] for key, group in groups.items() if len(group) > 1}
    text = json.dumps(summary, sort_keys=True)
    return len(text) + sum(len(e.neighbours) for group in groups.values() for e in group)


def main() -> None:
    passes, path = int(sys.argv[1]), sys.argv[2]
    with open(path, encoding="utf-8") as file:
        words = file.read().split()
    print(sum(one_pass(words) for _ in range(passes)))


if __name__ == "__main__":
    main()
