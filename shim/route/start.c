/* SPDX-License-Identifier: MIT
 *
 * start.c: see start.h.
 */
#include "shim/route/start.h"

#include <string.h>

#include "shim/configuration/environment.h"
#include "shim/reports/publish.h"
#include "shim/route/log.h"
#include "shim/route/process.h"
#include "vm/asked_roots.h"
#include "vm/syscall.h"
#include "vm/window.h"

enum { EXIT_BAD_CONFIGURATION = 2 };

/* The program's, if it is linked with the library: see include/allotrope/gc.h. */
extern const char allotrope_default[] __attribute__((weak));

static const char *chosen(void)
{
    const char *choice = environment_get("ALLOTROPE");
    bool is_said = choice && choice[0] != '\0';
    return is_said || !allotrope_default ? choice : allotrope_default;
}

static bool is_pass_through(const char *choice)
{
    return pass_through && choice && strcmp(choice, pass_through->name) == 0;
}

/* Where there is no other malloc the program serves itself: a command's environment, which says
 * that calls are to be passed on, reaches its static programs too. */
static const char *instead_of_pass_through(void)
{
    return is_pass_through(allotrope_default) ? NULL : allotrope_default;
}

static void say_nothing_to_pass_to(const struct allocator *allocator)
{
    struct message message;
    message_begin(&message);
    message_text(&message, "ALLOTROPE=next: ");
    message_text(&message, environment_program());
    message_text(&message, " has no other malloc (it is linked statically), so ");
    message_text(&message, allocator->name);
    message_text(&message, " serves it");
    message_send(&message);
}

static void say_no_heap(struct message *message)
{
    message_begin(message);
    if (window_is_occupied()) {
        message_text(message, environment_program());
        message_text(message, " has the addresses of a heap in use, as what is built with a "
                              "sanitizer does, and cannot be served");
    } else {
        message_text(message, "the kernel gives no memory for a heap (ulimit -v?)");
    }
}

void stop_before_main(struct message *message)
{
    message_log = NULL; /* whoever starts the program looks at its standard error */
    message_send(message);
    for (;;)
        SYSCALL_1(SYS_exit_group, EXIT_BAD_CONFIGURATION);
}

/* Chooses the allocator and makes its heap. */
static void set_up(struct configuration *configuration)
{
    struct message message;
    const char *choice = chosen();
    bool passes_on = is_pass_through(choice);
    if (passes_on && pass_through->init(NULL)) {
        configuration->allocator = pass_through;
        return;
    }
    if (passes_on)
        choice = instead_of_pass_through();
    if (!configuration_parse(choice, configuration, &message))
        stop_before_main(&message);
    if (passes_on)
        say_nothing_to_pass_to(configuration->allocator);
    if (!configuration->allocator->init(configuration->options)) {
        say_no_heap(&message);
        stop_before_main(&message);
    }
}

void start_allocator(struct configuration *configuration)
{
    message_remember_stderr();
    log_start();
    allocator_needs_sites = route_needs_sites;
    allocator_call_stack = route_call_stack;
    set_up(configuration);
    asked_roots_init();
    publish_start(configuration);
    process_attach(configuration->allocator);
}
