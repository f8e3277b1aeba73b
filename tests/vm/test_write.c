/* SPDX-License-Identifier: MIT
 *
 * test_write.c: what cannot be written is told by the result alone, and what can be is written.
 */
#include "tests/unit/unit.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "vm/pages.h"
#include "vm/write.h"

static bool is_pending(int number)
{
    sigset_t pending;
    require(sigpending(&pending) == 0);
    return sigismember(&pending, number);
}

static void block(int number)
{
    sigset_t blocked;
    sigemptyset(&blocked);
    sigaddset(&blocked, number);
    require(sigprocmask(SIG_BLOCK, &blocked, NULL) == 0);
}

static int pipe_without_reader(void)
{
    int ends[2];
    require(pipe(ends) == 0);
    close(ends[0]);
    return ends[1];
}

static void write_to_nobody(void *unused)
{
    (void)unused;
    sigset_t blocked;
    require(!write_whole(pipe_without_reader(), "text", 4, 0));
    require(sigprocmask(SIG_BLOCK, NULL, &blocked) == 0);
    require(!sigismember(&blocked, SIGPIPE) && !sigismember(&blocked, SIGXFSZ));
}

static void test_a_pipe_without_a_reader_ends_nothing(void **state)
{
    (void)state;
    assert_child_succeeds(write_to_nobody, NULL);
}

/* A signal that the program has blocked is seen by the program if it is the program's. */
static void write_with_the_signal_blocked(void *unused)
{
    (void)unused;
    int nobody = pipe_without_reader();
    block(SIGPIPE);
    require(!write_whole(nobody, "text", 4, 0));
    require(!is_pending(SIGPIPE));
    raise(SIGPIPE);
    require(!write_whole(nobody, "text", 4, 0));
    require(is_pending(SIGPIPE));
}

static void test_a_pending_signal_of_the_program_stays(void **state)
{
    (void)state;
    assert_child_succeeds(write_with_the_signal_blocked, NULL);
}

static void write_beyond_the_limit(void *unused)
{
    (void)unused;
    char name[] = "/tmp/allotrope-test-XXXXXX", text[4] = "";
    struct rlimit limit = {2, 2};
    int file = mkstemp(name);
    require(file >= 0 && unlink(name) == 0 && setrlimit(RLIMIT_FSIZE, &limit) == 0);
    require(!write_whole(file, "text", 4, 0));
    require(pread(file, text, sizeof text, 0) == 2 && memcmp(text, "te", 2) == 0);
}

static void test_a_file_that_may_not_grow_ends_nothing(void **state)
{
    (void)state;
    assert_child_succeeds(write_beyond_the_limit, NULL);
}

static int pipe_that_makes_nobody_wait(int *reads)
{
    int ends[2];
    require(pipe2(ends, O_NONBLOCK) == 0);
    *reads = ends[0];
    return ends[1];
}

enum { LONG_BYTES = 1 << 20 };

/* Begins to read when the pipe takes no more. */
static _Noreturn void read_slowly(int reads, int writes)
{
    struct pollfd room = {.fd = writes, .events = POLLOUT}, text = {.fd = reads, .events = POLLIN};
    char piece[4096];
    size_t bytes = 0;
    while (poll(&room, 1, 0) > 0)
        ;
    close(writes);
    while (bytes < LONG_BYTES && poll(&text, 1, -1) == 1) {
        ssize_t count = read(reads, piece, sizeof piece);
        if (count <= 0)
            break;
        bytes += (size_t)count;
    }
    _exit(bytes == LONG_BYTES ? 0 : 1);
}

static void write_more_than_fits(void *unused)
{
    (void)unused;
    static char text[LONG_BYTES];
    int reads, writes = pipe_that_makes_nobody_wait(&reads), status;
    pid_t reader = fork();
    if (reader == 0)
        read_slowly(reads, writes);
    close(reads);
    require(write_whole(writes, text, sizeof text, WRITE_WAITS_FOR_EVER));
    close(writes);
    require(waitpid(reader, &status, 0) == reader && status == 0);
}

static void test_room_in_a_pipe_is_waited_for(void **state)
{
    (void)state;
    assert_child_succeeds(write_more_than_fits, NULL);
}

static void write_to_a_full_pipe(void *unused)
{
    (void)unused;
    static char text[LONG_BYTES];
    int reads, writes = pipe_that_makes_nobody_wait(&reads);
    require(!write_whole(writes, text, sizeof text, 1));
    pages_enter_sandbox();
    require(!write_whole(writes, text, sizeof text, WRITE_WAITS_FOR_EVER));
}

static void test_the_wait_may_be_bounded_and_is_none_in_a_sandbox(void **state)
{
    (void)state;
    assert_child_succeeds(write_to_a_full_pipe, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_pipe_without_a_reader_ends_nothing),
        cmocka_unit_test(test_a_pending_signal_of_the_program_stays),
        cmocka_unit_test(test_a_file_that_may_not_grow_ends_nothing),
        cmocka_unit_test(test_room_in_a_pipe_is_waited_for),
        cmocka_unit_test(test_the_wait_may_be_bounded_and_is_none_in_a_sandbox),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
