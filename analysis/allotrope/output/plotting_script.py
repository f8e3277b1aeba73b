# SPDX-License-Identifier: MIT
"""plotly's script, of which only what a page's figures use.

Debian's python3-plotly has the whole of plotly.js as one bundle of modules (browserify's format):

    prelude({1:[function(_dereq_,module,exports){ ... },{"./bar":3,"./core":14}],2:[...], ...},
            {},[27])

Each module has a number, its text, and the numbers behind the names that it asks for; the last
number is the module that asks for all kinds of plots. Here it is given fewer to ask for, and what
nobody asks for any more is left out. Comments that name no licence and the space before each line
go too. Of 8.6 MB, 1.9 MB packed, that leaves 1.7 MB and 0.4 MB.

A bundle in any other form is taken as it is: a larger page, never a broken one.
"""

import json
import re
from typing import Iterable

CORE, ALWAYS = "./core", "scatter"  # the core brings it
MODULE = re.compile(r"(?:(?<=\{)|(?<=\],))(\d+):\[function\(_dereq_,module,exports\)\{")
NEEDS = re.compile(r"\},(\{[^{}]*\})\]$")
END = re.compile(r"\},\{\},\[(\d+)\]\)\(\1\)\s*\}\);\s*$")
NOTICE = re.compile("copyright|licen[sc]e", re.IGNORECASE)


def script_for(script: str, kinds: Iterable[str]) -> str:
    """The part of plotly.js that draws figures of these types."""
    try:
        return _pruned(script, sorted(set(kinds) - {ALWAYS}))
    except (LookupError, TypeError, ValueError):
        return script


def _pruned(script: str, kinds: list[str]) -> str:
    """Raises LookupError or ValueError for another format, or a type that is not in it."""
    end = END.search(script)
    heads = list(MODULE.finditer(script, 0, end.start() if end else 0))
    if end is None or not heads:
        raise LookupError("no bundle")
    places = [head.start() for head in heads] + [end.start() + 1]
    texts, needs = {}, {}
    for head, begin, following in zip(heads, places, places[1:]):
        text = script[begin : following - 1]
        found = NEEDS.search(text)
        if found is None:
            raise LookupError(f"module {head[1]}")
        texts[head[1]] = text
        needs[head[1]] = {name: str(number) for name, number in json.loads(found[1]).items()}
    entry = end[1]
    wanted = [f"./{kind}" for kind in kinds]
    needs[entry] = {name: needs[entry][name] for name in (CORE, *wanted)}
    asked = ",".join(f"_dereq_('{name}')" for name in wanted)
    texts[entry] = (
        f"{entry}:[function(_dereq_,module,exports){{var core=_dereq_('{CORE}');"
        f"core.register([{asked}]);module.exports=core;}},{json.dumps(needs[entry])}]"
    )
    kept = ",".join(_stripped(texts[number]) for number in _reached(entry, needs))
    return script[: places[0]] + kept + script[end.start() :]


def _reached(entry: str, needs: dict[str, dict[str, str]]) -> list[str]:
    found, waiting = set(), [entry]
    while waiting:
        number = waiting.pop()
        if number not in found:
            found.add(number)
            waiting += needs[number].values()
    return sorted(found, key=int)


def _stripped(text: str) -> str:
    """Without comments that fill lines and the space before lines. What looks like a comment at
    the start of a line is one: strings end with their lines in the language of that time."""

    def keep(match: re.Match[str]) -> str:
        return match[0] if NOTICE.search(match[0]) else ""

    if re.search(r"\\\n", text) or "`" in text:
        return text
    text = re.sub(r"^[ \t]*/\*.*?\*/[ \t]*$", keep, text, flags=re.DOTALL | re.MULTILINE)
    text = re.sub(r"^[ \t]*//.*$", keep, text, flags=re.MULTILINE)
    return re.sub(r"\n[ \t\n]+", "\n", text)
