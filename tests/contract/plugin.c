/* SPDX-License-Identifier: MIT
 *
 * plugin.c: a library for the programs that open one: it has a thread-local block too large for
 * the static area, allocates in its constructor and destructor, and hands out memory. Its
 * constructor calls plugin_opened, where the program has that.
 */
#include <stdlib.h>
#include <string.h>

char *touch_thread_local(void);
char *new_block(size_t size);
void delete_block(char *block);
extern void plugin_opened(void) __attribute__((weak));

static __thread char thread_local_block[100000];
static void *kept;

__attribute__((constructor)) static void open_library(void)
{
    kept = malloc(3000);
    if (plugin_opened)
        plugin_opened();
}

__attribute__((destructor)) static void close_library(void)
{
    free(kept);
}

char *touch_thread_local(void)
{
    memset(thread_local_block, 'x', sizeof thread_local_block);
    return thread_local_block;
}

char *new_block(size_t size)
{
    return malloc(size);
}

void delete_block(char *block)
{
    free(block);
}
