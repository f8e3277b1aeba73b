/* SPDX-License-Identifier: MIT
 *
 * start.c: see start.h.
 */
#include "shim/route/start.h"

#include <string.h>

#include "shim/configuration/environment.h"
#include "shim/reports/publish.h"
#include "shim/route/process.h"
#include "vm/asked_roots.h"
#include "vm/syscall.h"

enum { EXIT_BAD_CONFIGURATION = 2 };

/* The program's, if it is linked with the library: see include/allotrope/gc.h. */
extern const char allotrope_default[] __attribute__((weak));

static const char *chosen(void)
{
    const char *choice = environment_get("ALLOTROPE");
    bool is_said = choice && choice[0] != '\0';
    return is_said || !allotrope_default ? choice : allotrope_default;
}

void stop_before_main(struct message *message)
{
    message_send(message);
    for (;;)
        SYSCALL_1(SYS_exit_group, EXIT_BAD_CONFIGURATION);
}

void start_allocator(struct configuration *configuration)
{
    struct message message;
    message_remember_stderr();
    const char *choice = chosen();
    if (pass_through && choice && strcmp(choice, pass_through->name) == 0)
        configuration->allocator = pass_through;
    else if (!configuration_parse(choice, configuration, &message))
        stop_before_main(&message);
    allocator_needs_sites = route_needs_sites;
    allocator_call_stack = route_call_stack;
    if (!configuration->allocator->init(configuration->options)) {
        message_begin(&message);
        message_text(&message, "the kernel gives no memory for a heap (ulimit -v?)");
        stop_before_main(&message);
    }
    asked_roots_init();
    publish_start(configuration);
    process_attach(configuration->allocator);
}
