/* SPDX-License-Identifier: MIT
 *
 * filter.c: see filter.h. Functions are matched once for each number, not once for each reference.
 */
#include "analysis/simulate/filter.h"

#include <fnmatch.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/simulate/region_map.h"
#include "trace/format/names.h"

enum answer { NOT_ASKED, NO, YES };

bool filter_needs_attributes(const struct filter *filter)
{
    return filter->thread_count > 0 || filter->classes != 0 || filter->regions != 0 ||
           filter->function_count > 0;
}

bool filter_is_used(const struct filter *filter)
{
    return filter->from > 0 || filter->to < UINT64_MAX || filter_needs_attributes(filter);
}

bool filter_knows(const struct filter *filter, uint32_t function)
{
    return filter->function_count == 0 ||
           (function < filter->functions && filter->function_answers[function] != NOT_ASKED);
}

bool filter_learn(struct filter *filter, uint32_t function, const char *name)
{
    if (function >= filter->functions) {
        size_t functions = filter->functions > 0 ? filter->functions : 1024;
        while (functions <= function)
            functions *= 2;
        uint8_t *answers = realloc(filter->function_answers, functions);
        if (!answers)
            return false;
        memset(answers + filter->functions, NOT_ASKED, functions - filter->functions);
        filter->function_answers = answers;
        filter->functions = functions;
    }
    enum answer answer = NO;
    for (size_t i = 0; i < filter->function_count && name; i++)
        if (fnmatch(filter->functions_wanted[i], name, 0) == 0)
            answer = YES;
    filter->function_matched |= answer == YES;
    filter->function_answers[function] = (uint8_t)answer;
    return true;
}

static void meet_thread(struct filter *filter, uint32_t thread)
{
    size_t met = 0;
    while (met < filter->threads_met_count && filter->threads_met[met] != thread)
        met++;
    if (met == filter->threads_met_count && met < FILTER_THREADS)
        filter->threads_met[filter->threads_met_count++] = thread;
}

static bool thread_passes(struct filter *filter, uint32_t thread)
{
    meet_thread(filter, thread);
    if (filter->thread_count == 0)
        return true;
    for (size_t i = 0; i < filter->thread_count; i++)
        if (filter->threads[i] == thread)
            return true;
    return false;
}

bool filter_passes(struct filter *filter, const struct reference *reference,
                   const struct filter_subject *subject)
{
    uint32_t class = 1U << (reference->class & 31), region = 1U << subject->region;
    filter->references++;
    if (subject->number < filter->from || subject->number >= filter->to)
        return false;
    filter->classes_met |= class;
    filter->regions_met |= region;
    bool passes =
        thread_passes(filter, subject->thread) &&
        (filter->classes == 0 || (filter->classes & class) != 0) &&
        (filter->regions == 0 || (filter->regions & region) != 0) &&
        (filter->function_count == 0 || filter->function_answers[reference->function] == YES);
    filter->passed += passes;
    return passes;
}

void filter_join(struct filter *filter, const struct filter *later)
{
    filter->references += later->references;
    filter->passed += later->passed;
    filter->classes_met |= later->classes_met;
    filter->regions_met |= later->regions_met;
    filter->function_matched |= later->function_matched;
    for (size_t i = 0; i < later->threads_met_count; i++)
        meet_thread(filter, later->threads_met[i]);
}

/* As it is, but for what lies elsewhere. */
bool filter_write_met(const struct filter *filter, FILE *file)
{
    struct filter met = *filter;
    memset(met.functions_wanted, 0, sizeof met.functions_wanted);
    met.function_answers = NULL;
    return fwrite(&met, sizeof met, 1, file) == 1;
}

bool filter_read_met(struct filter *filter, FILE *file)
{
    return fread(filter, sizeof *filter, 1, file) == 1 &&
           filter->threads_met_count <= FILTER_THREADS;
}

/* Appends to `text`. */
static void say(char *text, size_t room, const char *what)
{
    size_t length = strlen(text);
    snprintf(text + length, room - length, "%s", what);
}

static void list_names(char *text, size_t room, uint32_t met, const char *(*name)(uint32_t))
{
    const char *separator = "";
    for (uint32_t i = 0; i < 32; i++) {
        if (!(met >> i & 1) || !name(i))
            continue;
        say(text, room, separator);
        say(text, room, name(i));
        separator = ", ";
    }
}

static const char *region_name(uint32_t region)
{
    return region < REGION_CLASSES ? region_class_name((enum region_class)region) : NULL;
}

static bool any_thread_met(const struct filter *filter)
{
    for (size_t i = 0; i < filter->thread_count; i++)
        for (size_t j = 0; j < filter->threads_met_count; j++)
            if (filter->threads[i] == filter->threads_met[j])
                return true;
    return filter->thread_count == 0;
}

void filter_explain(const struct filter *filter, char *text, size_t room)
{
    if (filter->references <= filter->from && filter->from > 0) {
        snprintf(text, room, "--references: there are only %" PRIu64 " references",
                 filter->references);
    } else if (!any_thread_met(filter)) {
        snprintf(text, room, "--thread: no such thread refers to memory; there are");
        for (size_t i = 0; i < filter->threads_met_count && i < FILTER_NAMES; i++) {
            char number[16];
            snprintf(number, sizeof number, "%s %" PRIu32, i > 0 ? "," : "",
                     filter->threads_met[i]);
            say(text, room, number);
        }
        say(text, room, filter->threads_met_count > FILTER_NAMES ? ", ..." : "");
    } else if (filter->classes != 0 && (filter->classes & filter->classes_met) == 0) {
        snprintf(text, room, "--class: no reference is of that class; there are ");
        list_names(text, room, filter->classes_met, trace_class_name);
    } else if (filter->regions != 0 && (filter->regions & filter->regions_met) == 0) {
        snprintf(text, room, "--region: no reference is to that region; there are ");
        list_names(text, room, filter->regions_met, region_name);
    } else if (filter->function_count > 0 && !filter->function_matched) {
        snprintf(text, room,
                 "--function: no function of that name (\"%s\") refers to memory; * and ? may "
                 "stand for letters",
                 filter->functions_wanted[0]);
    } else {
        snprintf(text, room, "no reference passes all of the filters at once");
    }
    if (filter->references > filter->from && (filter->from > 0 || filter->to < UINT64_MAX))
        say(text, room, ", among the --references asked for");
}
