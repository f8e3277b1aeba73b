/* SPDX-License-Identifier: MIT
 *
 * attribution.c: whom references belong to, as doorbells and signals tell.
 *
 * Each thread has a stack of the classes that it has entered, with the stack pointer at entry. A
 * signal puts the program on top, its return takes everything from there off. A jump to another
 * frame takes off what was entered in frames below its target: those are dead.
 */
#include <stdlib.h>
#include <string.h>

#include "trace/base/array.h"
#include "trace/references/raw_state.h"

/* A jump farther than this leads to another stack, and says nothing of this one. */
enum { STACK_REACH = 64 << 20 };

_Static_assert((int)DOORBELL_CLASSES == (int)TRACE_CLASSES &&
                   (int)DOORBELL_CLASS_SWEEP == (int)TRACE_CLASS_SWEEP,
               "what rings is what a trace says");

/* Classes. */

struct thread *raw_running_thread(struct raw_decoder *decoder)
{
    return decoder->threads[decoder->running];
}

int raw_know_thread(struct raw_decoder *decoder, uint64_t thread)
{
    enum { MOST_THREADS = 1 << 20 };
    if (thread >= MOST_THREADS)
        return raw_fail(decoder, "thread", thread);
    if (!array_reserve(&decoder->threads, &decoder->thread_count, thread, sizeof(struct thread *)))
        return raw_sink_failed(decoder);
    if (!decoder->threads[thread])
        decoder->threads[thread] = calloc(1, sizeof(struct thread));
    return decoder->threads[thread] ? 0 : raw_sink_failed(decoder);
}

int raw_tell_class(struct raw_decoder *decoder)
{
    const struct thread *thread = raw_running_thread(decoder);
    uint32_t class = thread->depth ? thread->entered[thread->depth - 1].class : 0;
    if (class == decoder->class)
        return 0;
    decoder->class = class;
    return raw_tell(decoder, &(struct trace_event){.type = TRACE_EVENT_CLASS, .value = {class}});
}

int raw_enter_class(struct raw_decoder *decoder, uint32_t class, uint64_t stack_pointer,
                    bool by_signal)
{
    struct thread *thread = raw_running_thread(decoder);
    if (thread->depth == MOST_CLASSES_ENTERED)
        return raw_fail(decoder, "classes entered and not left:", thread->depth);
    thread->entered[thread->depth++] = (struct entered){stack_pointer, (uint8_t) class, by_signal};
    return raw_tell_class(decoder);
}

static int leave(struct raw_decoder *decoder)
{
    struct thread *thread = raw_running_thread(decoder);
    if (thread->depth > 0 && !thread->entered[thread->depth - 1].by_signal)
        thread->depth--;
    return raw_tell_class(decoder);
}

int raw_return_from_signal(struct raw_decoder *decoder)
{
    struct thread *thread = raw_running_thread(decoder);
    while (thread->depth > 0 && !thread->entered[--thread->depth].by_signal)
        ;
    return raw_tell_class(decoder);
}

/* Drops what was entered in frames that a jump to `stack_pointer` leaves. */
static int unwind(struct raw_decoder *decoder, uint64_t stack_pointer)
{
    struct thread *thread = raw_running_thread(decoder);
    for (uint32_t i = 0; i < thread->depth; i++) {
        uint64_t entered_at = thread->entered[i].stack_pointer;
        if (entered_at < stack_pointer && stack_pointer - entered_at < STACK_REACH) {
            thread->depth = i;
            break;
        }
    }
    return raw_tell_class(decoder);
}

/* Doorbells. */

static int bell_event(struct raw_decoder *decoder, uint32_t index, uint64_t value)
{
    const struct thread *thread = raw_running_thread(decoder);
    struct trace_event event = {.value = {value, thread->size, thread->site, thread->old}};
    switch (index) {
    case DOORBELL_MALLOC:
        event.type = TRACE_EVENT_MALLOC;
        break;
    case DOORBELL_REALLOC:
        event.type = TRACE_EVENT_REALLOC;
        break;
    case DOORBELL_FREE:
        event.type = TRACE_EVENT_FREE;
        event.value[1] = thread->site;
        break;
    case DOORBELL_COLLECTION_BEGIN:
        event.type = TRACE_EVENT_COLLECTION_BEGIN;
        break;
    case DOORBELL_COLLECTION_END:
        event.type = TRACE_EVENT_COLLECTION_END;
        break;
    case DOORBELL_MARK:
        event.type = TRACE_EVENT_MARK;
        break;
    default:
        return raw_fail(decoder, "doorbell", index);
    }
    return raw_tell(decoder, &event);
}

int raw_bell(struct raw_decoder *decoder, uint64_t slot, uint64_t value)
{
    struct thread *thread = raw_running_thread(decoder);
    uint32_t index = slot >> 8 & 0xff;
    if ((slot & 0xff) == RAW_STACK_JUMP)
        return unwind(decoder, value);
    switch (index) {
    case DOORBELL_SIZE:
        thread->size = value;
        return 0;
    case DOORBELL_SITE:
        thread->site = value;
        return 0;
    case DOORBELL_OLD:
        thread->old = value;
        return 0;
    case DOORBELL_LEAVE:
        return leave(decoder);
    default:
        if (index >= DOORBELL_ENTER && index < DOORBELL_ENTER + DOORBELL_CLASSES)
            return raw_enter_class(decoder, index - DOORBELL_ENTER, value, false);
        return bell_event(decoder, index, value);
    }
}
