/* SPDX-License-Identifier: MIT
 *
 * observer.c: see observer.h.
 */
#include "shim/route/observer.h"

#include <string.h>

#include "shim/configuration/environment.h"
#include "shim/route/start.h"
#include "vm/message.h"

enum { MOST_OBSERVERS = 8 };

static const struct observer *on[MOST_OBSERVERS];
static unsigned count;

struct route observers_start(const struct configuration *configuration, struct route route)
{
    for (size_t i = 0; observers[i]; i++) {
        const char *value = environment_get(observers[i]->variable);
        if (!value &&
            !(observers[i]->is_needed && observers[i]->is_needed(configuration->allocator)))
            continue;
        if (!value || output_is_standard_error(value))
            message_keep_stderr();
        check(count < MOST_OBSERVERS);
        on[count++] = observers[i];
        route = observers[i]->start(configuration, route, value);
    }
    return route;
}

struct output_pattern observer_destination(const char *value, const char *variable)
{
    struct output_pattern kept = output_keep(value);
    if (kept.text)
        return kept;
    enum { VALUE_SHOWN = 64 };
    struct message message;
    message_begin(&message);
    message_text(&message, variable);
    message_text(&message, "=");
    message_quoted(&message, value, strnlen(value, VALUE_SHOWN));
    message_text(&message, "... is too long for the name of a file: the whole path has at most ");
    message_decimal(&message, OUTPUT_NAME_BYTES - 1);
    message_text(&message, " bytes");
    stop_before_main(&message);
}

void observers_before_main(void)
{
    for (unsigned i = 0; i < count; i++)
        if (on[i]->before_main)
            on[i]->before_main();
}

void observers_thread_end(void)
{
    for (unsigned i = count; i-- > 0;)
        if (on[i]->thread_end)
            on[i]->thread_end();
}

static __attribute__((destructor)) void at_exit(void)
{
    for (unsigned i = count; i-- > 0;)
        if (on[i]->at_exit)
            on[i]->at_exit();
}
