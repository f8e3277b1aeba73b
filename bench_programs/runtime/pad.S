/* SPDX-License-Identifier: MIT
 *
 * pad.S: a gap of PAD bytes between other objects, of code or of data (layout.awk). Nothing of it
 * is ever executed or read.
 */
#ifdef PAD_CODE
    .text
    .balign 16
    .skip PAD, 0xcc
#else
    .data
    .balign 16
    .skip PAD
    .bss
    .balign 16
    .skip PAD
    .section .rodata, "a"
    .balign 16
    .skip PAD
#endif
    .section .note.GNU-stack, "", @progbits
