# SPDX-License-Identifier: MIT
"""How well `allotrope leaks` agrees with memcheck's definitely and indirectly lost blocks.

    python3 tests/measure/leaks.py [PROGRAM...]

Blocks are counted by the function that allocates them, by its object where it has no name. Of each
function what both call lost is true. What memcheck calls possibly lost counts for neither.
"""

import collections
import json
import os
import shutil
import subprocess
import sys
import tempfile
import xml.etree.ElementTree
from pathlib import Path
from typing import Iterable

SOURCE = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(SOURCE / "analysis"))
os.environ.setdefault("ALLOTROPE_BUILD_DIR", str(SOURCE))

from allotrope.features.sites.measure import LIBRARY_NAMES  # noqa: E402
from allotrope.system.symbols import brief  # noqa: E402

Counts = collections.Counter[str]

MADE = Path(__file__).with_name("leaky.cc")
# A shape, how many blocks, and of how many in a hundred the root is lost.
MADE_SHAPES = (
    *("lists 1000 30", "lists 20000 5", "rings 1000 50", "trees 5000 40", "graph 2000 20"),
    *("graph 20000 60", "strings 1000 50", "maps 2000 30", "threads 1000 50"),
)
PYTHON_WORDS = ["-c", "import json, re; print(len(json.dumps(list(range(20000)))))"]
CRT = "/usr/lib/x86_64-linux-gnu/crt1.o"
CC1 = subprocess.run(
    ["gcc", "-print-prog-name=cc1"], capture_output=True, text=True, check=False
).stdout.strip()
LINKED = "-lc -pie --unresolved-symbols=ignore-all"
REAL = {
    "bash": ["bash", "-c", "declare -A a; for i in 1 2 3; do a[x$i]=$i; f() { echo $i; }; f; done"],
    "dash": ["dash", "-c", "for i in 1 2 3 4 5; do x=${i}0; export y=$x; done; echo $y"],
    "gawk": ["gawk", 'BEGIN { for (i = 0; i < 2000; i++) a[i] = i ""; print length(a) }'],
    "sed": ["sed", "-n", "s/a/b/p", "/etc/passwd"],
    "grep": ["grep", "-E", "(r|s).*o+t", "/etc/passwd"],
    "find": ["find", "/usr/include/linux", "-name", "u*.h"],
    "sqlite3": [
        "sqlite3",
        ":memory:",
        "create table t(a); insert into t values(1); select * from t",
    ],
    "perl": ["perl", "-e", "for (1..2000) { my $x = {}; $x->{x} = $x } print 1"],
    "python3": ["/usr/bin/python3", *PYTHON_WORDS],
    "lua": ["lua5.4", "-e", "local t = {} for i = 1, 5000 do t[i] = {i} end print(#t)"],
    "gcc -###": ["gcc", "-###", "-O2", "-c", "/dev/null", "-o", "/dev/null"],
    "cc1": [
        CC1,
        "-quiet",
        "-O2",
        str(SOURCE / "bench_programs" / "planted_leak.c"),
        "-o",
        "/dev/null",
    ],
    "as": ["as", "-o", "/dev/null", "/dev/null"],
    "ld": ["ld", "-r", "-o", "/dev/null", CRT],
    "objdump": ["objdump", "-d", CRT],
    "readelf": ["readelf", "-a", CRT],
    "gdb": ["gdb", "-batch", "-ex", "info line main", "/usr/bin/gawk"],
    "ruby": ["ruby", "-e", "puts (1..2000).map { |x| x.to_s }.size"],
    "make": ["make", "-n", "-f", "/dev/null", "x.o"],
    "git": ["git", "-C", str(SOURCE), "log", "--oneline", "-5"],
    "tar": ["tar", "-cf", "/dev/null", "/usr/include/linux/usb"],
    "nginx": ["nginx", "-t"],
    "gnuplot": ["gnuplot", "-e", "set term dumb; plot sin(x)"],
    "dot": ["dot", "-Tsvg", "{folder}/graph.dot"],
    "rsync": ["rsync", "-n", "-r", "/usr/include/linux/usb", "{folder}/none"],
    "troff": ["troff", "-ms", str(SOURCE / "README.md")],
    "grotty": ["grotty", str(SOURCE / "README.md")],
    "sort": ["sort", "/etc/passwd"],
    "git blame": ["git", "-C", str(SOURCE), "blame", "-s", "README.md"],
    "git diff": ["git", "-C", str(SOURCE), "diff", "--stat", "HEAD~3", "HEAD"],
    "ld -pie": ["ld", "-o", "/dev/null", CRT, *LINKED.split()],
    "perl modules": ["perl", "-MPOSIX", "-MData::Dumper", "-MEncode", "-e", "print Dumper [1..9]"],
    "pod2text": ["perl", "/usr/bin/pod2text", "/usr/bin/pod2text"],
}
GRAPH = 'digraph g { a->b; b->c; c->a; c->d [label="x"]; subgraph cluster_1 { f->g } }'
# Valgrind places mappings upwards, the kernel downwards. What ruby leaves mapped at its end depends
# on it, so ruby is judged once more as Valgrind runs it.
UPWARDS = ["setarch", "-L"]
ENVIRONMENT = {"PYTHONMALLOC": "malloc", "G_SLICE": "always-malloc", "LC_ALL": "C"}
MALLOCS = ("malloc", "calloc", "realloc", "memalign", "posix_memalign", "aligned_alloc")


def innermost(frames: Iterable[tuple[str, str]]) -> str:
    """Of functions and objects, innermost first."""
    frames = list(frames)
    for function, file in frames:
        name = brief(function) if function else ""
        if name in MALLOCS or name.startswith(LIBRARY_NAMES) or "vgpreload" in file:
            continue
        return name.removeprefix("__GI_").lstrip("_") or os.path.basename(os.path.realpath(file))
    return frames[0][0] if frames else "?"


def by_memcheck(command: list[str], folder: Path) -> tuple[Counts, Counts]:
    """Lost, and possibly lost."""
    options = "--leak-check=full --show-leak-kinds=all --num-callers=32 --run-libc-freeres=no"
    with subprocess.Popen(
        ["valgrind", *options.split(), "--run-cxx-freeres=no", "--default-suppressions=no"]
        + ["--xml=yes", f"--xml-file={folder}/%p.xml", *command],
        env=os.environ | ENVIRONMENT,
        stdout=subprocess.DEVNULL,
    ) as started:
        started.wait(timeout=1200)
    file = folder / f"{started.pid}.xml"
    lost, possibly = Counts(), Counts()
    for error in xml.etree.ElementTree.parse(file).getroot().iter("error"):
        kind = error.findtext("kind", "")
        stack = error.find("stack")
        if not kind.startswith("Leak_") or stack is None:
            continue
        name = innermost((frame.findtext("fn", ""), frame.findtext("obj", "")) for frame in stack)
        blocks = int(error.findtext("xwhat/leakedblocks", "0"))
        if kind in ("Leak_DefinitelyLost", "Leak_IndirectlyLost"):
            lost[name] += blocks
        elif kind == "Leak_PossiblyLost":
            possibly[name] += blocks
    return lost, possibly


def by_us(command: list[str], folder: Path) -> Counts:
    file = folder / "leaks.json"
    line = [sys.executable, "-I", str(SOURCE / "analysis"), "leaks", f"--json={file}", "--"]
    done = subprocess.run(
        [*line, *command],
        env=os.environ | ENVIRONMENT,
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
        timeout=1200,
    )
    if not file.exists():
        sys.exit(f"{command[0]}: {done.stderr}")
    document = json.loads(file.read_text())
    main_process = document["pid"]
    found = Counts()
    for leak in document["leaks"]:
        if leak["pid"] == main_process:
            places = [place for frame in leak["frames"] for place in frame["places"]]
            name = innermost((place["function"] or "", place["object"]) for place in places)
            found[name] += leak["direct"]["blocks"] + leak["indirect"]["blocks"]
    return found


def judge(
    name: str, command: list[str], folder: Path, prefix: Iterable[str] = ()
) -> tuple[int, int, int]:
    """How many blocks both call lost, we alone, memcheck alone."""
    command = [word.replace("{folder}", str(folder)) for word in command]
    lost, possibly = by_memcheck(command, folder)
    ours = by_us([*prefix, *command], folder)
    both = sum(min(ours[key], lost[key]) for key in lost)
    alone = sum(max(0, ours[key] - lost[key] - possibly[key]) for key in ours)
    missed = sum(max(0, lost[key] - ours[key]) for key in lost)
    print(
        f"| {name} | {sum(lost.values())} | {sum(possibly.values())} | {sum(ours.values())} | "
        f"{ratio(both, both + alone)} | {ratio(both, both + missed)} |",
        flush=True,
    )
    if os.environ.get("SHOW"):
        for key in sorted({*ours, *lost}):
            if ours[key] != lost[key]:
                print(f"    {key}: {ours[key]} {lost[key]} ({possibly[key]} possibly)")
    return both, alone, missed


def ratio(part: int, whole: int) -> str:
    return f"{part / whole:.3f}" if whole else "-"


def main() -> None:
    only = sys.argv[1:]
    total = [0, 0, 0]
    print("| program | memcheck: lost | possibly | ours | precision | recall |")
    print("|---|--:|--:|--:|--:|--:|")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        program = str(folder / "leaky")
        subprocess.run(
            ["g++", "-O1", "-fno-inline", "-g", "-pthread", "-o", program, str(MADE)], check=True
        )
        (folder / "graph.dot").write_text(GRAPH)
        commands = {shape: [program, *shape.split()] for shape in MADE_SHAPES} | REAL
        for title, command in commands.items():
            if (only and not {title, title.split()[0]} & set(only)) or not shutil.which(command[0]):
                continue
            counts = judge(title, command, folder)
            if title == "ruby":
                judge("ruby, upwards", command, folder, UPWARDS)
            total = [old + new for old, new in zip(total, counts)]
    both, alone, missed = total
    print(f"| all | | | | {ratio(both, both + alone)} | {ratio(both, both + missed)} |")


if __name__ == "__main__":
    main()
