/* SPDX-License-Identifier: MIT
 *
 * allocator_unit.c: see allocator_unit.h.
 */
#include "tests/unit/allocator_unit.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "vm/fork_chain.h"

enum { THREADS = 4 };

static struct model models[THREADS];

static void make_model(struct model *model, const struct allocator *allocator, uint64_t random)
{
    memset(model, 0, sizeof *model);
    model->allocator = allocator;
    model->random = random;
}

static void assert_nothing_wrong(const char *wrong)
{
    if (wrong)
        fail_msg("%s", wrong);
}

static const struct allocator *allocator_of(void **state)
{
    return ((const struct allocator_case *)*state)->allocator;
}

void test_agrees_with_a_model(void **state)
{
    const struct allocator_case *wanted = *state;
    make_model(&models[0], wanted->allocator, 7);
    models[0].most_bytes = wanted->most_bytes;
    for (unsigned round = 0; round < wanted->rounds; round++) {
        assert_nothing_wrong(model_run(&models[0], UNDER_SANITIZER ? 2000 : 10000));
        assert_walk_meets(models, 1);
    }
    assert_nothing_wrong(model_drop(&models[0]));
    assert_walk_meets(models, 1);
}

void assert_walk_meets(const struct model *all, size_t count)
{
    const struct allocator *allocator = all->allocator;
    struct meeting meeting = model_meet(all, count);
    struct allocator_statistics statistics = {0};
    allocator->statistics(&statistics);
    assert_int_equal(meeting.unknown, 0);
    /* The walk of `classic` is the policy's own: heap.h says what it may give. */
    if (strcmp(allocator->preset, "classic") != 0)
        assert_int_equal(meeting.elsewhere, 0);
    assert_int_equal(meeting.live, meeting.held);
    assert_true(allocator->is_valid());
    /* The walk of `blocks` does not tell which free blocks a thread has, and does not meet free
     * runs, whose bytes are counted. */
    if (strcmp(allocator->name, "blocks") == 0) {
        assert_int_equal(meeting.free_blocks,
                         statistics.heap.free_blocks + statistics.heap.cached_blocks);
        return;
    }
    assert_int_equal(meeting.free_blocks, statistics.heap.free_blocks);
    assert_int_equal(meeting.free_bytes, statistics.heap.free_bytes);
    assert_int_equal(meeting.cached_blocks, statistics.heap.cached_blocks);
    assert_int_equal(meeting.cached_bytes, statistics.heap.cached_bytes);
    assert_int_equal(meeting.cached_bytes, allocator->cached_bytes());
}

/* Threads free each other's blocks through a shelf of exchanged ones. */
enum { SHELVES = 64 };

static struct {
    pthread_mutex_t mutex;
    struct held_block block;
} shelf[SHELVES];

static const char *exchange(struct model *model)
{
    const char *wrong = NULL;
    for (size_t i = 0; i < SHELVES && !wrong; i++) {
        struct held_block *mine = &model->blocks[random_below(&model->random, MODEL_BLOCKS)];
        pthread_mutex_lock(&shelf[i].mutex);
        struct held_block other = shelf[i].block;
        shelf[i].block = *mine;
        pthread_mutex_unlock(&shelf[i].mutex);
        mine->start = NULL;
        if (other.start)
            wrong = held_free(&other, model->allocator);
    }
    return wrong;
}

static void *run_and_exchange(void *argument)
{
    struct model *model = argument;
    const char *wrong = NULL;
    for (int round = 0; round < 30 && !wrong; round++) {
        wrong = model_run(model, UNDER_SANITIZER ? 300 : 2000);
        if (!wrong)
            wrong = exchange(model);
    }
    model->allocator->thread_exit();
    if (!wrong)
        wrong = model_run(model, 1000);
    model->allocator->thread_exit();
    return (void *)wrong;
}

void test_threads_agree_with_models_and_free_each_others_blocks(void **state)
{
    const struct allocator *allocator = allocator_of(state);
    pthread_t threads[THREADS];
    for (int i = 0; i < SHELVES; i++)
        pthread_mutex_init(&shelf[i].mutex, NULL);
    for (unsigned i = 0; i < THREADS; i++) {
        make_model(&models[i], allocator, 100 + i);
        assert_int_equal(pthread_create(&threads[i], NULL, run_and_exchange, &models[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        void *wrong;
        pthread_join(threads[i], &wrong);
        assert_nothing_wrong(wrong);
    }
    for (int i = 0; i < SHELVES; i++)
        if (shelf[i].block.start)
            assert_nothing_wrong(held_free(&shelf[i].block, allocator));
    assert_walk_meets(models, THREADS);
    /* And free what another allocated. */
    for (int i = 0; i < THREADS; i++)
        assert_nothing_wrong(model_drop(&models[i]));
    assert_walk_meets(models, THREADS);
}

static _Atomic bool stop;

static void *allocate_until_told(void *argument)
{
    struct model *model = argument;
    const char *wrong = NULL;
    while (!stop && !wrong)
        wrong = model_run(model, 100);
    if (!wrong)
        wrong = model_drop(model);
    model->allocator->thread_exit();
    return (void *)wrong;
}

static _Noreturn void go_on_in_child(const struct allocator *allocator)
{
    static struct model model;
    make_model(&model, allocator, 9);
    alarm(600); /* a lock that was left held would be waited for for ever */
    const char *wrong = model_run(&model, 3000);
    if (!wrong)
        wrong = model_drop(&model);
    _exit(wrong || !allocator->is_valid() ? 1 : 0);
}

void test_fork_while_threads_allocate(void **state)
{
    const struct allocator *allocator = allocator_of(state);
    enum { ALLOCATING = THREADS - 1, FORKS = 30 };
    pthread_t threads[ALLOCATING];
    if (UNDER_THREAD_SANITIZER)
        skip(); /* which does not survive a fork itself */
    stop = false;
    for (unsigned i = 0; i < ALLOCATING; i++) {
        make_model(&models[i], allocator, 200 + i);
        assert_int_equal(pthread_create(&threads[i], NULL, allocate_until_told, &models[i]), 0);
    }
    for (int i = 0; i < FORKS; i++) {
        int status;
        fork_chain_prepare();
        pid_t child = fork();
        if (child == 0) {
            fork_chain_child(allocator->fork_child);
            go_on_in_child(allocator);
        }
        fork_chain_parent();
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_int_equal(status, 0);
    }
    stop = true;
    for (int i = 0; i < ALLOCATING; i++) {
        void *wrong;
        pthread_join(threads[i], &wrong);
        assert_nothing_wrong(wrong);
    }
    assert_walk_meets(models, ALLOCATING);
}

static void *allocate_while_frozen(void *argument)
{
    struct model *model = argument;
    const char *wrong = model_run(model, 600);
    model->allocator->thread_exit();
    return (void *)wrong;
}

static const char *go_on_with(struct model *thawed)
{
    const char *wrong = model_run(thawed, 2000);
    if (!wrong)
        wrong = model_drop(thawed);
    return wrong ? wrong : thawed->allocator->is_valid() ? NULL : "the allocator is not valid";
}

void test_a_thread_allocates_while_another_forks(void **state)
{
    const struct allocator *allocator = allocator_of(state);
    int status;
    void *wrong;
    pthread_t thread;
    if (UNDER_THREAD_SANITIZER)
        skip(); /* which does not survive a fork itself */
    make_model(&models[0], allocator, 300);
    models[0].most_bytes = 1 << 20;
    assert_nothing_wrong(model_run(&models[0], 2000));
    fork_chain_prepare();
    assert_int_equal(pthread_create(&thread, NULL, allocate_while_frozen, &models[0]), 0);
    pthread_join(thread, &wrong);
    assert_nothing_wrong(wrong);
    pid_t child = fork();
    if (child == 0) {
        fork_chain_child(allocator->fork_child);
        assert_walk_meets(models, 1);
        _exit(go_on_with(&models[0]) ? 1 : 0);
    }
    fork_chain_parent();
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_walk_meets(models, 1);
    assert_nothing_wrong(go_on_with(&models[0]));
    assert_walk_meets(models, 1);
}

enum { FREED = 8, FREED_BYTES = 200 }; /* few enough for the thread itself to keep */
static const void *freed[FREED];
static pthread_barrier_t has_freed;

static void *allocate_free_and_wait(void *argument)
{
    const struct allocator *allocator = argument;
    void *blocks[FREED];
    for (int i = 0; i < FREED; i++)
        freed[i] = blocks[i] = allocator->alloc(FREED_BYTES);
    for (int i = 0; i < FREED; i++)
        allocator->free(blocks[i]);
    pthread_barrier_wait(&has_freed);
    pthread_barrier_wait(&has_freed);
    allocator->thread_exit();
    return NULL;
}

static bool was_freed(const void *block)
{
    for (int i = 0; i < FREED; i++)
        if (freed[i] == block)
            return true;
    return false;
}

/* After what is free in the child anyway, of which the tests before this one may leave much. */
static bool gets_what_was_freed(const struct allocator *allocator)
{
    int count = 0;
    for (int i = 0; i < 300000 && count <= FREED / 2; i++)
        count += was_freed(allocator->alloc(FREED_BYTES));
    return count > FREED / 2 && allocator->is_valid();
}

void test_a_forked_child_has_the_free_blocks_of_all_threads(void **state)
{
    const struct allocator *allocator = allocator_of(state);
    int status;
    pthread_t thread;
    if (UNDER_THREAD_SANITIZER)
        skip();
    allocator->free(allocator->alloc(1)); /* the first thread's */
    assert_int_equal(pthread_barrier_init(&has_freed, NULL, 2), 0);
    assert_int_equal(
        pthread_create(&thread, NULL, allocate_free_and_wait, (void *)(uintptr_t)allocator), 0);
    pthread_barrier_wait(&has_freed);
    fork_chain_prepare();
    pid_t child = fork();
    if (child == 0) {
        fork_chain_child(allocator->fork_child);
        _exit(gets_what_was_freed(allocator) ? 0 : 1);
    }
    fork_chain_parent();
    pthread_barrier_wait(&has_freed);
    pthread_join(thread, NULL);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

static unsigned refusals;

static void note_refusal(void)
{
    refusals++;
}

/* alloc tells the shim of every refusal, so that it can set errno. */
void test_impossible_sizes_are_refused_and_the_shim_is_told(void **state)
{
    const struct allocator *allocator = allocator_of(state);
    refusals = 0;
    allocator_out_of_memory = note_refusal;
    assert_null(allocator->alloc((size_t)PTRDIFF_MAX + 1));
    assert_null(allocator->alloc(SIZE_MAX));
    assert_null(allocator->alloc(PTRDIFF_MAX));
    assert_int_equal(refusals, 3);
    allocator_out_of_memory = NULL;
    assert_null(allocator->alloc_zeroed(SIZE_MAX));
    assert_null(allocator->alloc_aligned(8, SIZE_MAX));
    assert_null(allocator->alloc_aligned(16, SIZE_MAX));
    assert_null(allocator->alloc_aligned(64, SIZE_MAX));
    assert_null(allocator->alloc_aligned(64, SIZE_MAX - 32));
    assert_null(allocator->alloc_aligned(64, (size_t)PTRDIFF_MAX - 4));
    assert_null(allocator->alloc_aligned((size_t)1 << 62, 1));
    void *block = allocator->alloc(100);
    size_t usable = allocator->usable_size(block);
    assert_null(allocator->resize(block, PTRDIFF_MAX));
    assert_int_equal(allocator->usable_size(block), usable);
    allocator->free(block);
    assert_true(allocator->is_valid());
}

static char *foreign;

static void free_foreign(void *argument)
{
    const struct allocator *allocator = argument;
    static int static_data;
    int on_the_stack;
    allocator->free(foreign);
    allocator->free(&on_the_stack);
    allocator->free(&static_data);
    allocator->free(foreign + 1);
    require(allocator->alloc(100) != NULL);
}

void test_foreign_pointers_are_reported_and_ignored(void **state)
{
    const struct allocator *allocator = allocator_of(state);
    foreign = malloc(100);
    struct ending ending = run_child(free_foreign, (void *)allocator);
    assert_int_equal(ending.exit_status, 0);
    int lines = 0;
    for (const char *line = ending.errors; *line; line = strchr(line, '\n') + 1, lines++)
        assert_non_null(strstr(line, "): not a block of this heap; ignored\n"));
    assert_int_equal(lines, 4);
    assert_false(allocator->owns(foreign));
    assert_false(allocator->owns(NULL));
    assert_int_equal(allocator->usable_size(foreign), 0);
    free(foreign);
}
