# SPDX-License-Identifier: MIT
#
# layout.awk: a link order. From the objects' names it writes what the linker gets: the objects
# shuffled, and before each a gap of code and one of data.
#
#     awk -v order=7 -v pads=FOLDER -f layout.awk a.o b.o c.o
#
# A gap is a random multiple of 16 bytes below 4096. It is made of the pads, a file for each bit of
# its size: FOLDER/pad-code-16.o, -32 ... -2048, and pad-data- likewise (pad.S).
#
# The order's number is the seed, so an order is the same everywhere. awk's own rand() is another in
# each awk: this is the "minimal standard" of Park and Miller (CACM 31, 10, 1988), exact in doubles.

function random(limit)
{
    state = state * 16807 % 2147483647
    return int(state / 2147483647 * limit)
}

function gap(kind,    size, bytes, words)
{
    size = random(256)
    for (bytes = 16; size > 0; bytes *= 2) {
        if (size % 2 == 1)
            words = words pads "/pad-" kind "-" bytes ".o "
        size = int(size / 2)
    }
    return words
}

BEGIN {
    state = order * 7919
    for (i = 0; i < 10; i++)
        random(1)
    count = ARGC - 1
    for (i = 1; i <= count; i++)
        objects[i] = ARGV[i]
    for (i = count; i > 1; i--) {
        j = random(i) + 1
        object = objects[i]
        objects[i] = objects[j]
        objects[j] = object
    }
    for (i = 1; i <= count; i++)
        print gap("code") gap("data") objects[i]
}
