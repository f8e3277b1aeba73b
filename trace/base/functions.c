/* SPDX-License-Identifier: MIT
 *
 * functions.c: the names of functions; see functions.h.
 */
#include "trace/base/functions.h"

#include "trace/base/array.h"

static void function_free(struct function function)
{
    free(function.name);
    free(function.object);
}

bool functions_add(struct functions *functions, uint32_t number, struct function function)
{
    if (!function.name || !function.object ||
        !array_reserve(&functions->list, &functions->capacity, number, sizeof function)) {
        function_free(function);
        return false;
    }
    if (functions->list[number].name)
        function_free(function);
    else
        functions->list[number] = function;
    return true;
}

const char *functions_find(const struct functions *functions, uint32_t number, const char **object)
{
    bool known = number < functions->capacity && functions->list[number].name;
    if (object)
        *object = known ? functions->list[number].object : "?";
    return known ? functions->list[number].name : "?";
}

void functions_free(struct functions *functions)
{
    for (size_t i = 0; i < functions->capacity; i++)
        function_free(functions->list[i]);
    free(functions->list);
    *functions = (struct functions){0};
}
