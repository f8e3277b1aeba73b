/* SPDX-License-Identifier: MIT
 *
 * functions.h: the names of functions, by the numbers that a trace gives them.
 */
#ifndef ALLOTROPE_TRACE_BASE_FUNCTIONS_H
#define ALLOTROPE_TRACE_BASE_FUNCTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct function {
    char *name;
    char *object; /* the file that has it */
};

/* All zero: none. */
struct functions {
    struct function *list; /* by number */
    size_t capacity;
};

/* Takes both strings, which come from malloc. A number that has names keeps them: what
 * functions_find has returned stays valid. Returns false, and frees the strings, where one of
 * them is NULL or memory is short. */
bool functions_add(struct functions *functions, uint32_t number, struct function function);

/* The name of a function, and its object where `object` is no NULL; "?" for a number that has
 * none. Valid until functions_free. */
const char *functions_find(const struct functions *functions, uint32_t number, const char **object);

void functions_free(struct functions *functions);

#endif
