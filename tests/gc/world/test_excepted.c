/* SPDX-License-Identifier: MIT
 *
 * test_excepted.c: what is lent to a child, what is not, and that all is as before after it.
 *
 * The kernel is asked (smaps: "dc") what is excepted.
 */
#include "tests/gc/world/lend.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "gc/world/excepted.h"
#include "vm/granule_map.h"
#include "vm/kernel/process.h"
#include "vm/owner.h"
#include "vm/pages.h"

enum { GRANULES = 256 };
static const size_t BYTES = GRANULES * GRANULE_BYTES;

/* Of inaccessible memory, so that no neighbour is joined to what is mapped in it. */
static char *arena;

static int set_up(void **state)
{
    (void)state;
    char *start = mmap(NULL, BYTES + GRANULE_BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(start, MAP_FAILED);
    arena = (char *)round_up((uintptr_t)start, GRANULE_BYTES);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    excepted_forget(arena, BYTES);
    return munmap(arena, BYTES);
}

static char *map_at(size_t granule, size_t bytes, int flags)
{
    char *place = arena + granule * GRANULE_BYTES;
    assert_ptr_equal(
        mmap(place, bytes, PROT_READ | PROT_WRITE, flags | MAP_ANONYMOUS | MAP_FIXED, -1, 0),
        place);
    return place;
}

static void except(char *start, size_t bytes)
{
    assert_int_equal(madvise(start, bytes, MADV_DONTFORK), 0);
    excepted_note(start, bytes);
}

static bool is_excepted(const char *address)
{
    char line[512];
    uintptr_t start, end;
    bool is_here = false, found = false;
    FILE *smaps = fopen("/proc/self/smaps", "re");
    while (fgets(line, sizeof line, smaps)) {
        if (line[0] > 'Z' || line[0] < 'A') {
            assert_int_equal(sscanf(line, "%lx-%lx", &start, &end), 2);
            is_here = (uintptr_t)address >= start && (uintptr_t)address < end;
        } else if (is_here && strncmp(line, "VmFlags:", 8) == 0) {
            found = strstr(line, " dc") != NULL;
        }
    }
    fclose(smaps);
    return found;
}

static bool is_lent(const char *address)
{
    return excepted_is_lent(process_mapping_at((uintptr_t)address));
}

static bool a_child_has(char *address)
{
    pid_t child = fork();
    if (child == 0) {
        unsigned char in_memory;
        _exit(mincore(address, PAGE_BYTES, &in_memory) != 0);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    return status == 0;
}

static void test_a_child_has_what_is_lent_and_the_next_one_has_not(void **state)
{
    (void)state;
    char *place = map_at(1, 4 * GRANULE_BYTES, MAP_PRIVATE);
    except(place, 4 * GRANULE_BYTES);
    assert_false(a_child_has(place));
    lend();
    assert_true(is_lent(place));
    assert_true(a_child_has(place));
    assert_true(a_child_has(place + 4 * GRANULE_BYTES - PAGE_BYTES));
    excepted_take_back();
    assert_false(is_lent(place));
    assert_false(a_child_has(place));
}

/* A reservation before and behind, as V8 has it. */
static void test_what_lies_beside_whole_granules_is_lent_with_them(void **state)
{
    (void)state;
    char *place = map_at(1, 3 * GRANULE_BYTES, MAP_PRIVATE) + PAGE_BYTES;
    except(place, 2 * GRANULE_BYTES);
    lend();
    assert_true(is_lent(place));
    assert_true(a_child_has(place));
    assert_false(is_lent(place - PAGE_BYTES));
    excepted_take_back();
    assert_true(is_excepted(place));
    assert_true(is_excepted(place + 2 * GRANULE_BYTES - PAGE_BYTES));
    assert_false(is_excepted(place - PAGE_BYTES));
    assert_false(is_excepted(place + 2 * GRANULE_BYTES));
}

static void test_less_than_a_granule_is_not_lent(void **state)
{
    (void)state;
    char *place = map_at(1, GRANULE_BYTES / 2, MAP_PRIVATE);
    except(place, GRANULE_BYTES / 2);
    lend();
    assert_false(is_lent(place));
    excepted_take_back();
}

/* [noted is excepted] Other memory has taken its place, or a part of it. */
static void test_what_is_forgotten_is_neither_lent_nor_excepted(void **state)
{
    (void)state;
    char *place = map_at(1, 4 * GRANULE_BYTES, MAP_PRIVATE);
    except(place, 4 * GRANULE_BYTES);
    excepted_forget(place + GRANULE_BYTES, PAGE_BYTES);
    map_at(1, 4 * GRANULE_BYTES, MAP_PRIVATE);
    lend();
    assert_false(is_lent(place));
    excepted_take_back();
    assert_false(is_excepted(place));
}

/* As many at once as are looked for in the whole table. */
static void test_a_large_range_is_forgotten(void **state)
{
    (void)state;
    enum { RESERVED_GRANULES = 10000 };
    char *place = map_at(1, 4 * GRANULE_BYTES, MAP_PRIVATE);
    except(place, 4 * GRANULE_BYTES);
    excepted_forget(place - 9990 * GRANULE_BYTES, RESERVED_GRANULES * GRANULE_BYTES);
    lend();
    assert_false(is_lent(place));
    excepted_take_back();
    assert_true(is_excepted(place));
}

static void test_shared_memory_is_not_lent(void **state)
{
    (void)state;
    char *place = map_at(1, GRANULE_BYTES, MAP_SHARED);
    except(place, GRANULE_BYTES);
    lend();
    assert_false(is_lent(place));
    excepted_take_back();
}

/* Its heap may give it back and map it anew, and tells nobody. */
static void test_a_heaps_memory_is_not_lent(void **state)
{
    (void)state;
    static struct owner heap = {OWNER_RECORDS};
    char *place = map_at(1, 4 * GRANULE_BYTES, MAP_PRIVATE);
    except(place, 4 * GRANULE_BYTES);
    for (size_t i = 0; i < 4; i++) {
        assert_true(granule_map_set(place + i * GRANULE_BYTES, GRANULE_BYTES, &heap));
        lend();
        assert_false(is_lent(place));
        excepted_take_back();
        granule_map_set(place + i * GRANULE_BYTES, GRANULE_BYTES, NULL);
    }
    lend();
    assert_true(is_lent(place));
    excepted_take_back();
}

/* [of this process] What the child maps in the place is its own. */
static void test_a_child_knows_nothing(void **state)
{
    (void)state;
    char *place = map_at(1, GRANULE_BYTES, MAP_PRIVATE);
    except(place, GRANULE_BYTES);
    pid_t child = fork();
    if (child == 0) {
        if (!process_forked())
            _exit(1);
        map_at(1, GRANULE_BYTES, MAP_PRIVATE);
        lend();
        bool lent = is_lent(place);
        excepted_take_back();
        _exit(lent || is_excepted(place) ? 2 : 0);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    lend();
    assert_true(is_lent(place));
    excepted_take_back();
}

/* What a thread could not note is not lent, and does not harm what is. */
static void test_where_notes_run_out_nothing_is_lost(void **state)
{
    (void)state;
    enum { MANY = 200, STEP = 10000 };
    char *place = map_at(1, 4 * GRANULE_BYTES, MAP_PRIVATE);
    except(place, 4 * GRANULE_BYTES);
    char *other = map_at(8, GRANULE_BYTES, MAP_PRIVATE);
    for (size_t i = 0; i < MANY; i++) /* where nothing is mapped */
        excepted_note((char *)GRANULE_BYTES + i * STEP * GRANULE_BYTES, STEP * GRANULE_BYTES);
    except(other, GRANULE_BYTES);
    lend();
    assert_true(is_lent(place));
    assert_false(is_lent(other));
    assert_int_equal(a_child_has(other), 0);
    excepted_take_back();
    excepted_forget((char *)GRANULE_BYTES, (size_t)MANY * STEP * GRANULE_BYTES);
}

/* The kernel excepts it no more once that was lifted. */
static void test_sealed_memory_is_not_lent(void **state)
{
    (void)state;
    enum { SYS_MSEAL = 462 };
    char *place = mmap(NULL, 4 * GRANULE_BYTES, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    except(place, 4 * GRANULE_BYTES);
    if (syscall(SYS_MSEAL, place, 4 * GRANULE_BYTES, 0) != 0)
        skip(); /* before Linux 6.10 */
    lend();
    assert_false(is_lent(place + GRANULE_BYTES));
    excepted_take_back();
    assert_true(is_excepted(place));
}

static void test_no_range_is_too_strange(void **state)
{
    (void)state;
    char *place = map_at(1, GRANULE_BYTES, MAP_PRIVATE);
    excepted_note((void *)UINTPTR_MAX, 1);
    excepted_note((void *)(UINTPTR_MAX - GRANULE_BYTES + 1), SIZE_MAX);
    excepted_note(NULL, SIZE_MAX);
    excepted_note(place, 0);
    excepted_forget((void *)UINTPTR_MAX, 1);
    excepted_forget(NULL, SIZE_MAX);
    lend();
    assert_false(is_lent(place));
    excepted_take_back();
    assert_false(is_excepted(place));
}

/* The kernel's flags as the model: notes of granules, at random. */
static void test_after_any_calls_the_kernel_has_what_was_asked(void **state)
{
    (void)state;
    enum { STEPS = 300, LENDINGS = 10 };
    static bool asked[GRANULES];
    map_at(0, BYTES, MAP_PRIVATE);
    memset(asked, 0, sizeof asked);
    uint64_t random = 1;
    for (size_t lending = 0, lent = 0; lending < LENDINGS || lent == 0; lending++) {
        for (size_t step = 0; step < STEPS / LENDINGS; step++) {
            random = random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
            size_t first = (random >> 33) % GRANULES, count = (random >> 50) % 16 + 1;
            if (first + count > GRANULES)
                count = GRANULES - first;
            char *place = arena + first * GRANULE_BYTES;
            bool excepts = random >> 63;
            if (excepts) {
                except(place, count * GRANULE_BYTES);
            } else {
                excepted_forget(place, count * GRANULE_BYTES);
                map_at(first, count * GRANULE_BYTES, MAP_PRIVATE);
            }
            memset(asked + first, excepts, count);
        }
        lend();
        for (size_t i = 0; i < GRANULES; i++) {
            assert_int_equal(is_lent(arena + i * GRANULE_BYTES), asked[i]);
            lent += asked[i];
        }
        excepted_take_back();
        for (size_t i = 0; i < GRANULES; i++)
            assert_int_equal(is_excepted(arena + i * GRANULE_BYTES), asked[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define EXCEPTED_TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
        EXCEPTED_TEST(test_a_child_has_what_is_lent_and_the_next_one_has_not),
        EXCEPTED_TEST(test_what_lies_beside_whole_granules_is_lent_with_them),
        EXCEPTED_TEST(test_less_than_a_granule_is_not_lent),
        EXCEPTED_TEST(test_what_is_forgotten_is_neither_lent_nor_excepted),
        EXCEPTED_TEST(test_a_large_range_is_forgotten),
        EXCEPTED_TEST(test_shared_memory_is_not_lent),
        EXCEPTED_TEST(test_a_heaps_memory_is_not_lent),
        EXCEPTED_TEST(test_a_child_knows_nothing),
        EXCEPTED_TEST(test_where_notes_run_out_nothing_is_lost),
        EXCEPTED_TEST(test_sealed_memory_is_not_lent),
        EXCEPTED_TEST(test_no_range_is_too_strange),
        EXCEPTED_TEST(test_after_any_calls_the_kernel_has_what_was_asked),
    };
    if (!process_open())
        return 1;
    excepted_note(&arena, SIZE_MAX); /* before it is made ready: nothing */
    excepted_init();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
