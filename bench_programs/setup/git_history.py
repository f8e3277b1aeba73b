#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""git's input: a repository of 1,500 commits to 200 text files, the same every time.

git_history.py DIRECTORY    makes DIRECTORY/history.git unless it is there
"""

import random
import subprocess
import sys
from pathlib import Path

FILES, COMMITS = 200, 1500


def stream() -> bytes:
    generator = random.Random(1992)
    files = {
        f"folder{i % 14}/file{i}": [f"line {line} of {i}" for line in range(60)]
        for i in range(FILES)
    }
    out = []
    for commit in range(COMMITS):
        out.append("commit refs/heads/main")
        out.append(f"committer A <a@example.org> {10**9 + commit * 60} +0000")
        out.append(f"data {len(str(commit))}\n{commit}")
        for path in generator.sample(sorted(files), FILES if commit == 0 else 4):
            lines = files[path]
            lines[generator.randrange(len(lines))] = f"{generator.getrandbits(60):x} in {commit}"
            lines.insert(generator.randrange(len(lines)), f"new in {commit}")
            text = "\n".join(lines) + "\n"
            out.append(f"M 644 inline {path}\ndata {len(text)}\n{text}")
    return ("\n".join(out) + "\n").encode()


def main() -> None:
    if len(sys.argv) != 2:
        sys.exit("usage: git_history.py DIRECTORY")
    repository = Path(sys.argv[1]) / "history.git"
    if repository.exists():
        return
    unfinished = repository.with_suffix(".part")
    subprocess.run(["git", "init", "--quiet", "--bare", "-b", "main", unfinished], check=True)
    importer = ["git", "-C", str(unfinished), "fast-import", "--quiet"]
    subprocess.run(importer, input=stream(), check=True)
    unfinished.rename(repository)


if __name__ == "__main__":
    main()
