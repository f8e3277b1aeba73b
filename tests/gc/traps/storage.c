/* SPDX-License-Identifier: MIT
 *
 * storage.c: a library with thread-local storage, more than ld.so sets aside for libraries that are
 * loaded late.
 */
static __thread void *volatile words[1000];

void *volatile *slot(void);
void *volatile *slot(void)
{
    return &words[700];
}
