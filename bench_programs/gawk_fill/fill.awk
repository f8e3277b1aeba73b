# SPDX-License-Identifier: MIT
# fill.awk: fills the words of a dictionary into justified paragraphs.
#
#     LC_ALL=C gawk -v passes=12 -f fill.awk /usr/share/dict/words
#     LC_ALL=C gawk -v work=12x4000 -f fill.awk /usr/share/dict/words
#
#     LC_ALL=C gawk -v work=20x900000x24 -f fill.awk /usr/share/dict/words
#
# The second holds the last 4,000 lines back before it prints them, some 1 MB: that is what the gawk
# of 1992 had, and as much live memory as one wants can be had so. The output is the same. The third
# has columns of 24 in the place of 72, which make three times as many lines of the same words.
#
# The job of Zorn's gawk (CU-CS-573-92): many short strings that live for a line. With wamerican's
# words a pass is 420,000 allocations, and twelve passes are the study's load. The locale matters:
# outside C, gawk keeps a wide copy of every string whose length it takes, and allocates half as
# often again.

# Prints the words gathered, spread over `width` columns; 0 leaves the line ragged.
function flush_line(width,    i, gaps, missing, pad, line) {
    gaps = count - 1
    missing = width > 0 ? width - used : 0
    for (i = 1; i < count; i++) {
        pad = 1 + int(missing * i / gaps) - int(missing * (i - 1) / gaps)
        line = line words[i] substr(SPACES, 1, pad)
    }
    if (count > 0)
        emit(line words[count])
    count = 0
    used = 0
}

# Prints a line, or keeps it and prints the oldest of more than `hold`.
function emit(line) {
    if (hold == 0) {
        print line
        return
    }
    held[++newest] = line
    if (newest - oldest >= hold)
        release()
}

function release() {
    print held[oldest]
    delete held[oldest++]
}

BEGIN {
    WIDTH = 72
    WORDS_PER_PARAGRAPH = 60
    if (work) {
        split(work, parts, "x")
        passes = parts[1]
        hold = parts[2] + 0
        if (parts[3])
            WIDTH = parts[3] + 0
    }
    SPACES = sprintf("%" WIDTH "s", "")
    oldest = 1
    for (pass = 2; pass <= passes; pass++)
        ARGV[ARGC++] = ARGV[1]
}

FNR % WORDS_PER_PARAGRAPH == 1 {
    flush_line(0)
    emit("")
}

{
    for (i = 1; i <= NF; i++) {
        if (used + (count > 0) + length($i) > WIDTH)
            flush_line(WIDTH)
        used += (count > 0) + length($i)
        words[++count] = $i
    }
}

END {
    flush_line(0)
    while (oldest <= newest)
        release()
}
