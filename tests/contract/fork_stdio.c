/* SPDX-License-Identifier: MIT
 *
 * fork_stdio.c: fork beside threads that use what libc's fork locks.
 *
 * After the prepare handlers fork takes the locks of stdio's list of files and of the name service,
 * and a child of popen is made under another. Threads allocate and free with them held. Each
 * argument is a thread: "fflush" of all files, "getline" of growing lines, "popen", "getpwnam",
 * "fopen", "dlopen", "fork". The main thread forks.
 * Seen: glibc 19431.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <pwd.h>
#include <sys/wait.h>

#include "tests/contract/contract.h"

static _Atomic bool stop;

static void flush_all(void)
{
    fflush(NULL);
}

static FILE *temporary_file(void)
{
    FILE *file = tmpfile();
    require(file != NULL);
    return file;
}

static void get_lines(void)
{
    static FILE *file;
    char *line = NULL;
    size_t capacity = 0;
    if (!file) {
        file = temporary_file();
        for (int length = 1; length < 30000; length = length * 3 / 2 + 1)
            fprintf(file, "%0*d\n", length, 0);
    }
    rewind(file);
    while (getline(&line, &capacity, file) > 0)
        ;
    free(line);
}

static void open_pipe(void)
{
    char text[100];
    FILE *pipe = popen("echo piped", "r"); /* NOLINT(cert-env33-c) */
    require(pipe && fgets(text, sizeof text, pipe) && strcmp(text, "piped\n") == 0);
    pclose(pipe);
    require(system("true") == 0); /* NOLINT(cert-env33-c) */
}

static void get_names(void)
{
    require(getpwnam("root") != NULL);
    require(getpwnam("nobody-at-all") == NULL);
}

static void open_file(void)
{
    FILE *file = fopen("/dev/null", "w");
    require(file && fputs("text", file) >= 0);
    fclose(file);
}

static void load_library(void)
{
    void *library = dlopen("libm.so.6", RTLD_NOW | RTLD_LOCAL);
    require(library && dlsym(library, "cos"));
    dlclose(library);
}

static void fork_once(void)
{
    pid_t child = fork();
    require(child >= 0);
    if (child == 0) {
        alarm(600);
        free(malloc(5000));
        char *line = NULL;
        size_t capacity = 0;
        FILE *file = fopen("/proc/self/status", "r");
        require(file && getline(&line, &capacity, file) > 0);
        free(line);
        fclose(file);
        _exit(0);
    }
    int status;
    require(waitpid(child, &status, 0) == child && status == 0);
}

static const struct {
    const char *name;
    void (*work)(void);
} works[] = {{"fflush", flush_all},   {"getline", get_lines}, {"popen", open_pipe},
             {"getpwnam", get_names}, {"fopen", open_file},   {"dlopen", load_library},
             {"fork", fork_once}};

static void *work(void *name)
{
    size_t i = 0;
    while (strcmp(works[i].name, name) != 0)
        require(++i < sizeof works / sizeof *works);
    while (!stop)
        works[i].work();
    return NULL;
}

int main(int count, char **arguments)
{
    enum { FORKS = 50, MOST = 8 };
    pthread_t threads[MOST];
    alarm(900); /* a deadlock ends with SIGALRM */
    require(count <= MOST);
    for (int i = 1; i < count; i++)
        require(pthread_create(&threads[i], NULL, work, arguments[i]) == 0);
    for (int i = 0; i < FORKS; i++)
        fork_once();
    stop = true;
    for (int i = 1; i < count; i++)
        require(pthread_join(threads[i], NULL) == 0);
    return 0;
}
