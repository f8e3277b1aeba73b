/* SPDX-License-Identifier: MIT
 *
 * gc_options.c: the table of the options of `gc`, and which of them cannot be had together.
 */
#include "gc/cycle/gc_options.h"

#include <stddef.h>

enum { AT_COLLECTIONS = offsetof(struct gc_options, collections) };

const struct option_description gc_options[] = {
    {"free", "what free does", KEYWORD_IN(0, struct gc_options, free),
     .keywords =
         {[FREE_IGNORE] = "ignore", [FREE_HONOUR] = "honour", [FREE_QUARANTINE] = "quarantine"},
     .initial = FREE_HONOUR},
    {"leaks", "what becomes of blocks that cannot be reached and were not freed",
     KEYWORD_IN(0, struct gc_options, leaks),
     .keywords = {[LEAKS_AUTO] = "auto",
                  [LEAKS_COLLECT] = "collect",
                  [LEAKS_KEEP] = "keep",
                  [LEAKS_WATCH] = "watch",
                  [LEAKS_REPORT] = "report"},
     .initial = LEAKS_AUTO},
    {"policy", "when to collect; boehm: the study's rule",
     KEYWORD_IN(0, struct gc_options, collections.policy),
     .keywords = {[POLICY_AUTO] = "auto", [POLICY_BOEHM] = "boehm"}, .initial = POLICY_AUTO},
    {"initial", "bytes that the heap may use before the first collection; 0: the policy's own",
     NUMBER_IN(0, struct gc_options, collections.initial_bytes), .maximum = (uint64_t)1 << 40,
     .initial = 0},
    {"limit", "bytes that the heap may use at all; 0: no limit",
     NUMBER_IN(0, struct gc_options, collections.limit_bytes), .maximum = (uint64_t)1 << 46,
     .initial = 0},
    {"pause", "milliseconds of pause to aim at: more markers, a smaller nursery; 0: none",
     NUMBER_IN(0, struct gc_options, collections.pause_ms), .maximum = 10000, .initial = 0},
    {"every", "collect each so many allocations, for tests; 0: when it is due",
     NUMBER_IN(0, struct gc_options, collections.every), .maximum = (uint64_t)1 << 40,
     .initial = 0},
    {"markers", "threads that mark at once in a large heap",
     NUMBER_IN(0, struct gc_options, collections.markers), .minimum = 1, .maximum = 16,
     .initial = 2},
    BLOCKS_OPTIONS(offsetof(struct gc_options, blocks)),
    {"stack", "bytes that each marker's stack may grow to",
     NUMBER_IN(0, struct gc_options, collections.stack_bytes), .minimum = 65536,
     .maximum = (uint64_t)1 << 32, .initial = (uint64_t)256 << 20},
    {"generations", "2: minor collections, of what is young (experimental); 1: none",
     NUMBER_IN(0, struct gc_options, collections.generations), .minimum = 1, .maximum = 2,
     .initial = 1},
    {"dirty", "how the kernel tells which pages were written; none: all collections are full",
     KEYWORD_IN(0, struct gc_options, collections.dirty),
     .keywords = {[DIRTY_NONE] = "none", [DIRTY_ASYNC] = "async"}, .initial = DIRTY_ASYNC},
    {"concurrent",
     "with generations=2: full marking beside the program; fork: in a child (experimental)",
     KEYWORD_IN(0, struct gc_options, collections.concurrent),
     .keywords = {[CONCURRENT_OFF] = "off", [CONCURRENT_ON] = "on", [CONCURRENT_FORK] = "fork"},
     .initial = CONCURRENT_OFF},
    {"verify",
     "check minor and concurrent collections by full ones, and abort at a loss; for tests",
     KEYWORD_IN(0, struct gc_options, collections.verify),
     .keywords = {[VERIFY_OFF] = "off", [VERIFY_ON] = "on"}, .initial = VERIFY_OFF},
    {.key = ""},
};

/* The first option from `option` on that only collections read; NULL behind the last. */
static const struct option_description *collection_option(const struct option_description *option)
{
    for (; option->key[0]; option++)
        if (option->offset >= AT_COLLECTIONS &&
            option->offset < AT_COLLECTIONS + sizeof(struct collection_options))
            return option;
    return NULL;
}

static bool changes_collections(const struct gc_options *chosen)
{
    const struct option_description *option = collection_option(gc_options);
    for (; option; option = collection_option(option + 1))
        if (option_value(option, chosen) != option->initial)
            return true;
    return false;
}

static void name_collection_options(struct message *message)
{
    const struct option_description *option = collection_option(gc_options), *next;
    for (const char *before = ""; option; option = next) {
        message_text(message, before);
        message_text(message, option->key);
        message_text(message, "=");
        next = collection_option(option + 1);
        before = next && collection_option(next + 1) ? ", " : " or ";
    }
}

bool gc_options_conflict(const void *values, struct message *why)
{
    const struct gc_options *chosen = values;
    const struct collection_options *collections = &chosen->collections;
    if (chosen->free == FREE_QUARANTINE &&
        (collections->generations > 1 || collections->concurrent != CONCURRENT_OFF)) {
        message_text(why, "free=quarantine has full collections in a stopped world only: neither "
                          "generations=2 nor concurrent=on or fork");
        return true;
    }
    if (collections->concurrent == CONCURRENT_FORK && chosen->free != FREE_IGNORE) {
        message_text(why, "concurrent=fork needs free=ignore: a block that is freed while a child "
                          "marks would be kept");
        return true;
    }
    if (collections->concurrent == CONCURRENT_FORK && collections->policy == POLICY_BOEHM) {
        message_text(why, "concurrent=fork needs policy=auto");
        return true;
    }
    if (collections->concurrent == CONCURRENT_ON &&
        (collections->generations == 1 || collections->policy == POLICY_BOEHM)) {
        message_text(why, "concurrent=on needs generations=2, whose dirty bits it uses, and "
                          "policy=auto");
        return true;
    }
    bool keeps = chosen->leaks == LEAKS_KEEP || chosen->leaks == LEAKS_REPORT;
    if (!keeps || chosen->free != FREE_HONOUR || !changes_collections(chosen))
        return false;
    message_text(why, "with free=honour and leaks=keep or report no collection is ever due for ");
    name_collection_options(why);
    message_text(why, " to change");
    return true;
}
