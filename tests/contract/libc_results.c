/* SPDX-License-Identifier: MIT
 *
 * libc_results.c: what libc allocates for its caller is freed by the caller: both must be one heap.
 *
 * A replacement that misses one of the names through which libc allocates makes these blocks
 * another heap's. obstacks take their chunks through the program's own functions.
 */
#include <dirent.h>
#include <limits.h>
#include <obstack.h>
#include <stdarg.h>
#include <wchar.h>

#include "tests/contract/contract.h"

#define obstack_chunk_alloc malloc
#define obstack_chunk_free free

/* Served by the heap under test: the usable size is known, and the block can grow. */
static void require_ours(void *block, size_t least)
{
    require(block != NULL);
    require(malloc_usable_size(block) >= least);
    block = realloc(block, least + 100000);
    require(block != NULL);
    free(block);
}

static int format(char **text, const char *pattern, ...)
{
    va_list arguments;
    va_start(arguments, pattern);
    int length = vasprintf(text, pattern, arguments);
    va_end(arguments);
    return length;
}

static void require_strings(void)
{
    char *text = NULL;
    require_ours(strdup("text"), 5);
    require_ours(strndup("texture", 4), 5);
    require_ours(wcsdup(L"text"), 5 * sizeof(wchar_t));
    require(asprintf(&text, "%d%s", 12, "345") == 5);
    require_ours(text, 6);
    require(format(&text, "%5000d", 1) == 5000);
    require_ours(text, 5001);
    require_ours(realpath("/", NULL), 2);
    require_ours(getcwd(NULL, 0), 2);
    require(sscanf("word", "%ms", &text) == 1);
    require_ours(text, 5);
}

static void require_streams(void)
{
    char *text = NULL;
    size_t length = 0;
    FILE *stream = open_memstream(&text, &length);
    require(stream != NULL);
    for (int i = 0; i < 5000; i++)
        require(fprintf(stream, "%d\n", i) > 0);
    require(fclose(stream) == 0 && length > 20000);
    stream = fmemopen(text, length, "r");
    require(stream != NULL);
    char *line = NULL;
    size_t room = 0;
    int lines = 0;
    while (getline(&line, &room, stream) > 0)
        require(atoi(line) == lines++);
    require(lines == 5000 && fclose(stream) == 0);
    require_ours(line, room);
    require_ours(text, length);
}

static void require_directories(void)
{
    struct dirent **entries = NULL;
    int count = scandir("/", &entries, NULL, alphasort);
    require(count > 2);
    while (count > 0)
        require_ours(entries[--count], 1);
    require_ours(entries, 2 * sizeof *entries);
}

static void require_obstack(size_t chunk)
{
    struct obstack stack;
    void *first = NULL;
    obstack_begin(&stack, chunk);
    for (int round = 0; round < 20; round++) {
        for (int i = 0; i < 300; i++) {
            char *object = obstack_alloc(&stack, 1 + i * 3);
            require((uintptr_t)object % 16 == 0);
            memset(object, i, 1 + i * 3);
            if (!first)
                first = object;
            obstack_printf(&stack, "%d", i);
            obstack_1grow(&stack, '\0');
            require(atoi(obstack_finish(&stack)) == i);
        }
        obstack_free(&stack, first);
        first = NULL;
    }
    obstack_free(&stack, NULL);
}

int main(void)
{
    require_strings();
    require_streams();
    require_directories();
    require_obstack(4064);
    require_obstack(100000);
    return 0;
}
