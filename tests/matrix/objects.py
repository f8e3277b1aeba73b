# SPDX-License-Identifier: MIT
"""Objects of many sizes and lifetimes: for a Python whose every object comes from malloc."""

import collections
import hashlib
import json
import pickle
import re

words = [f"{index * 7919 % 10007:x}" for index in range(40000)]
groups: dict[str, list[str]] = collections.defaultdict(list)
for word in words:
    groups["".join(sorted(word))].append(word)
text = json.dumps(groups, sort_keys=True)
again = pickle.loads(pickle.dumps(json.loads(text)))
print(len(groups), len(text), hashlib.sha256(text.encode()).hexdigest(), again == groups)
print(sum(1 for _ in re.finditer(r"[a-f]\d+[a-f]", text)))
print(len(str(3**9000)), sum(len(str(number**9)) for number in range(3000)))
