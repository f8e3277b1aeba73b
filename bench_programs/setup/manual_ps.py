#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Ghostscript's input: a manual of PAGES pages (1000) in PostScript, made of a dictionary's words.

Headings, justified paragraphs in three fonts, numbered lists, a ruled table and a small drawing on
every page. The same on every machine that has the same /usr/share/dict/words.
"""

import random
import sys
from pathlib import Path

WORDS = Path("/usr/share/dict/words")

PROLOGUE = """%!PS-Adobe-3.0
%%Title: A manual
/heading { /Helvetica-Bold findfont 16 scalefont setfont } bind def
/body { /Times-Roman findfont 10 scalefont setfont } bind def
/code { /Courier findfont 9 scalefont setfont } bind def
/spaces { % text -> number of spaces
  0 exch { 32 eq { 1 add } if } forall } bind def
/fill-line { % text x y: spread over 460 points
  moveto dup stringwidth pop 460 exch sub 1 index spaces dup 0 eq { pop 1 } if div
  exch 0 exch 32 exch widthshow } bind def
"""


def line_of(words: list[str], generator: random.Random, width: int) -> str:
    line = generator.choice(words)
    while len(line) < width:
        line += " " + generator.choice(words)
    return line


def page(number: int, words: list[str], generator: random.Random) -> list[str]:
    out = [f"%%Page: {number} {number}", "save"]
    out.append(f"heading 72 740 moveto (Chapter {number}: {line_of(words, generator, 20)}) show")
    y = 715
    for paragraph in range(4):
        out.append("code" if paragraph == 2 else "body")
        for _ in range(8):
            text = line_of(words, generator, 85)
            if paragraph == 2:
                out.append(f"90 {y} moveto ({text[:75]}) show")
            else:
                out.append(f"({text}) 72 {y} fill-line")
            y -= 13
        y -= 10
    out.append("body 0.5 setlinewidth")
    for row in range(6):
        out.append(f"72 {y} moveto 532 {y} lineto stroke")
        for column in range(4):
            out.append(f"{76 + 115 * column} {y - 11} moveto ({generator.choice(words)}) show")
        y -= 15
    for _ in range(20):
        x0, x1, x2 = (generator.randrange(72, 532) for _ in range(3))
        y0, y1, y2 = (generator.randrange(60, max(61, y)) for _ in range(3))
        out.append(f"newpath {x0} {y0} moveto {x1} {y1} {x2} {y2} {x0} {y2} curveto closepath fill")
    return out + ["restore", "showpage"]


def main() -> None:
    pages = sys.argv[1] if len(sys.argv) > 1 else "1000"
    if not pages.isdigit() or not 1 <= int(pages) <= 100000:
        sys.exit(f"manual_ps.py: bad number of pages '{pages}'; give 1 to 100000")
    if not WORDS.exists():
        sys.exit(f"manual_ps.py: {WORDS} is missing; install wamerican")
    words = [word for word in WORDS.read_text().split() if word.isascii() and word.isalpha()]
    generator = random.Random(1992)
    print(PROLOGUE)
    for number in range(1, int(pages) + 1):
        print("\n".join(page(number, words, generator)))
    print("%%EOF")


if __name__ == "__main__":
    main()
