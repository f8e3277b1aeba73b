/* SPDX-License-Identifier: MIT
 *
 * planted_server.c: a server with a planted fault, for blocks:guard.
 *
 *     planted_server        a line for each request on standard input, an answer for each
 *
 * A request makes the blocks that a small server makes: a record, its copy of the line, a list of
 * words. The answer of one that has the word "long" is built in a block that is a byte too short.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct request {
    char *line, *words[16];
    int count;
};

static struct request *read_request(const char *line)
{
    struct request *request = calloc(1, sizeof *request);
    request->line = strdup(line);
    char *rest = request->line, *word;
    while (request->count < 16 && (word = strsep(&rest, " \n")))
        if (*word)
            request->words[request->count++] = strdup(word);
    return request;
}

static char *answer_to(const struct request *request)
{
    size_t bytes = 1;
    int is_long = 0;
    for (int i = 0; i < request->count; i++) {
        bytes += strlen(request->words[i]) + 1;
        is_long |= strcmp(request->words[i], "long") == 0;
    }
    char *answer = malloc(bytes - (is_long ? 1 : 0));
    char *end = answer;
    for (int i = 0; i < request->count; i++)
        end = stpcpy(stpcpy(end, request->words[i]), " ");
    *end = '\0';
    return answer;
}

int main(void)
{
    char line[1024];
    setvbuf(stdout, NULL, _IOLBF, 0);
    while (fgets(line, sizeof line, stdin)) {
        struct request *request = read_request(line);
        char *answer = answer_to(request);
        puts(answer);
        free(answer);
        for (int i = 0; i < request->count; i++)
            free(request->words[i]);
        free(request->line);
        free(request);
    }
    return 0;
}
