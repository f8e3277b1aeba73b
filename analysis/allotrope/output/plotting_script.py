# SPDX-License-Identifier: MIT
"""plotly's script, of which only what a page's figures use.

Debian's python3-plotly has the whole of plotly.js as one bundle of modules, in Debian 12 in
browserify's format:

    prelude({1:[function(_dereq_,module,exports){ ... },{"./bar":3,"./core":14}],2:[...], ...},
            {},[27])

Each module has a number, its text, and the numbers behind the names that it asks for; the last
number is the module that asks for all kinds of plots. In Debian 13 it is webpack's:

    ... var __webpack_modules__ = ({
    /***/ 37240:
    /***/ (function(module, exports, __webpack_require__) { ... __webpack_require__(51132) ...
    /***/ }),
    ... });
    ... var __webpack_exports__ = __webpack_require__(13792);

Here that module is given fewer to ask for, and what nobody asks for any more is left out. Comments
that name no licence and the space before each line go too. Of 8.6 MB, 1.9 MB packed, that leaves
1.7 MB and 0.4 MB.

A bundle in any other form is taken as it is: a larger page, never a broken one.
"""

import contextlib
import json
import re
from typing import Collection, Iterable, Mapping

CORE, ALWAYS = "./core", "scatter"  # the core brings it
MODULE = re.compile(r"(?:(?<=\{)|(?<=\],))(\d+):\[function\(_dereq_,module,exports\)\{")
NEEDS = re.compile(r"\},(\{[^{}]*\})\]$")
END = re.compile(r"\},\{\},\[(\d+)\]\)\(\1\)\s*\}\);\s*$")
NOTICE = re.compile("copyright|licen[sc]e", re.IGNORECASE)
PACKED_MODULE = re.compile(r"^/\*\*\*/ (\d+):\n", re.MULTILINE)
PACKED_END = re.compile(r"^/\*{6}/ \t\}\);$", re.MULTILINE)
PACKED_NEED = re.compile(r"__webpack_require__\((\d+)\)")
PACKED_ENTRY = re.compile(r"var __webpack_exports__ = __webpack_require__\((\d+)\);")
PACKED_KIND = re.compile(r"moduleType: 'trace',\s+name: '(\w+)'")


def script_for(script: str, kinds: Iterable[str]) -> str:
    """The part of plotly.js that draws figures of these types."""
    wanted = sorted(set(kinds) - {ALWAYS})
    for prune in (_pruned, _pruned_packed):
        with contextlib.suppress(LookupError, TypeError, ValueError):
            return prune(script, wanted)
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
    numbers = {number: list(needed.values()) for number, needed in needs.items()}
    kept = ",".join(_stripped(texts[number]) for number in _reached(entry, numbers))
    return script[: places[0]] + kept + script[end.start() :]


def _pruned_packed(script: str, kinds: list[str]) -> str:
    """The same of webpack's format, where a module has no name: that of a kind of plots asks for
    another, which tells."""
    end = PACKED_END.search(script)
    heads = list(PACKED_MODULE.finditer(script, 0, end.start() if end else 0))
    found = PACKED_ENTRY.search(script, end.end() if end else 0)
    if end is None or found is None or not heads:
        raise LookupError("no bundle")
    places = [head.start() for head in heads] + [end.start()]
    texts = {}
    for head, begin, following in zip(heads, places, places[1:]):
        text = script[begin:following].rstrip().removesuffix(",")
        if not text.endswith("\n/***/ })"):
            raise LookupError(f"module {head[1]}")
        texts[head[1]] = text
    needs = {number: PACKED_NEED.findall(text) for number, text in texts.items()}
    core, *others = needs[found[1]]
    of_kind = {}
    for number in others:
        if told := PACKED_KIND.search(texts[needs[number][0]]):
            of_kind[told[1]] = number
    wanted = [of_kind[kind] for kind in kinds]
    asked = ",".join(f"__webpack_require__({number})" for number in wanted)
    texts[found[1]] = (
        f"{found[1]}:(function(module, exports, __webpack_require__) {{"
        f"var core=__webpack_require__({core});core.register([{asked}]);module.exports=core;}})"
    )
    needs[found[1]] = [core, *wanted]
    kept = ",\n".join(_stripped(texts[number]) for number in _reached(found[1], needs))
    return f"{script[: places[0]]}{kept}\n{script[end.start() :]}"


def _reached(entry: str, needs: Mapping[str, Collection[str]]) -> list[str]:
    found, waiting = set(), [entry]
    while waiting:
        number = waiting.pop()
        if number not in found:
            found.add(number)
            waiting += needs[number]
    return sorted(found, key=int)


def _stripped(text: str) -> str:
    """Without comments that fill lines and the space before lines. What looks like a comment at
    the start of a line is one where strings end with their lines. Where one may not, all stays: a
    backquote that such comments do not have."""

    def keep(match: re.Match[str]) -> str:
        return match[0] if NOTICE.search(match[0]) else ""

    block = r"^[ \t]*/\*(?:(?!\*/).)*\*/[ \t]*$"
    short = re.sub(block, keep, text, flags=re.DOTALL | re.MULTILINE)
    short = re.sub(r"^[ \t]*//.*$", keep, short, flags=re.MULTILINE)
    if re.search(r"\\\n", text) or "`" in short:
        return text
    return re.sub(r"\n[ \t\n]+", "\n", short)
