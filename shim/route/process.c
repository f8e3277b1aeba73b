/* SPDX-License-Identifier: MIT
 *
 * process.c: see process.h.
 *
 * Thread end: the destructor of a thread-specific key. Destructors of the program may run after it
 * and allocate; the allocator serves them without a cache.
 *
 * Fork: pthread_atfork handlers freeze the heap, so that the child finds it whole. The program's
 * own handlers may run between them and allocate; nobody waits for the thread that forks
 * (vm/freeze.h).
 *
 * The end of the process: a destructor calls the allocator's at_exit. The heap is never torn down.
 *
 * A malloc of the program's own, or of a library's that comes before ours: a line says so.
 */
#include "shim/route/process.h"

#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <link.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>

#include "shim/configuration/environment.h"
#include "shim/route/calls.h"
#include "shim/route/observer.h"
#include "shim/route/route.h"
#include "shim/route/start.h"
#include "vm/fork_chain.h"
#include "vm/message.h"
#include "vm/written.h"

extern __typeof__(dladdr1) dladdr1 __attribute__((weak)); /* a static program has none */

static WRITTEN_AT_START const struct allocator *attached;
static pthread_key_t thread_end;
static pthread_once_t thread_end_once = PTHREAD_ONCE_INIT;
static bool thread_end_known;

static void on_thread_end(void *unused)
{
    (void)unused;
    observers_thread_end();
    attached->thread_exit();
}

static void create_thread_end_key(void)
{
    thread_end_known = pthread_key_create(&thread_end, on_thread_end) == 0;
}

/* Never called for the first thread: so libc is up by now. */
void observer_watch_thread(void)
{
    pthread_once(&thread_end_once, create_thread_end_key);
    if (thread_end_known)
        pthread_setspecific(thread_end, attached);
}

static void set_errno(void)
{
    errno = ENOMEM;
}

static void after_fork_in_child(void)
{
    fork_chain_child(attached->fork_child);
}

/* If calls are passed through, the allocator's name would tell nothing, so it is left out. */
static void say_other_malloc(const struct allocator *allocator)
{
    struct message message;
    message_begin(&message);
    message_text(&message, environment_program());
    message_text(&message, " is served by another malloc (its own, or one loaded before)");
    bool passes_on = allocator == pass_through;
    message_text(&message, passes_on ? ", and its calls are not seen" : ", not by ");
    message_text(&message, passes_on ? "" : allocator->name);
    message_send(&message);
}

static void say_own_malloc(const struct allocator *allocator)
{
    struct message message;
    message_begin(&message);
    message_text(&message, environment_program());
    message_text(&message, " has a malloc of its own: ");
    bool passes_on = allocator == pass_through;
    message_text(&message, passes_on ? "this library" : allocator->name);
    message_text(&message,
                 passes_on ? " sees only what that passes on" : " serves only what that passes on");
    message_send(&message);
}

/* A program that is not position-independent and only takes a function's address has a stub at that
 * address, and no definition. */
bool is_stub_of_program(const void *function)
{
    Dl_info found;
    void *symbol = NULL;
    return dladdr1 && dladdr1(function, &found, &symbol, RTLD_DL_SYMENT) && symbol &&
           found.dli_saddr == function && ((ElfW(Sym) *)symbol)->st_shndx == SHN_UNDEF;
}

/* Whether the program itself defines malloc. */
static bool is_malloc_programs_own(void)
{
    Dl_info found;
    void *object = NULL;
    void *function = (void *)(uintptr_t)malloc;
    return dladdr1 && dladdr1(function, &found, &object, RTLD_DL_LINKMAP) && object &&
           found.dli_saddr == function && !is_stub_of_program(function) &&
           ((struct link_map *)object)->l_prev == NULL;
}

/* Another malloc may come before ours in ld.so's order of search.
 *   of a library preloaded before this one: it may pass calls on to ours or serve them itself; only
 *     an allocation tells which
 *   the program's own, as browsers have: it may need the program's main first (maxima's Lisp
 *     crashes without), so it is not called. One that passes calls on is not told apart. */
static void report_other_malloc(const struct allocator *allocator)
{
    if (malloc == interposed_malloc)
        return;
    if (is_malloc_programs_own()) {
        say_own_malloc(allocator);
        return;
    }
    void *block = malloc(1);
    if (block && !allocator->owns(block))
        say_other_malloc(allocator);
    free(block);
}

/* A program that never allocates is told of a bad configuration as well. */
static __attribute__((constructor)) void resolve_before_main(void)
{
    report_other_malloc(route_resolve()->allocator);
    observers_before_main();
}

/* The library is preloaded, so it is destroyed late: most other destructors have run. */
static __attribute__((destructor)) void tell_exit(void)
{
    if (attached && attached->at_exit)
        attached->at_exit();
}

void process_attach(const struct allocator *allocator)
{
    attached = allocator;
    allocator_thread_started = observer_watch_thread;
    allocator_out_of_memory = set_errno;
    pthread_atfork(fork_chain_prepare, fork_chain_parent, after_fork_in_child);
}

pid_t process_fork(pid_t (*fork_without_handlers)(void))
{
    fork_chain_prepare();
    pid_t child = fork_without_handlers();
    if (child == 0)
        after_fork_in_child();
    else
        fork_chain_parent();
    return child;
}
