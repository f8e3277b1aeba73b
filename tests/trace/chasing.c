/* SPDX-License-Identifier: MIT */
/* chasing.c: for the recorder's tests: follows pointers for ever, 64 of them in each superblock.
 * Nothing tells where a pointer leads, so a superblock takes much of the ring. */

static void *round_and_round = &round_and_round;

int main(void)
{
    void *at = round_and_round;
    for (;;) // NOLINT(bugprone-infinite-loop): until it is killed
        __asm__ volatile(".rept 64\n\t"
                         "mov (%0), %0\n\t"
                         ".endr"
                         : "+r"(at)
                         :
                         : "memory");
}
