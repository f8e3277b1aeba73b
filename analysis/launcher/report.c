/* SPDX-License-Identifier: MIT
 *
 * report.c: see report.h.
 */
#include "analysis/launcher/report.h"

#include <string.h>
#include <sys/wait.h>

#include "trace/base/json.h"

static void put_if(struct json *json, const char *key, bool known, long long value)
{
    if (known)
        json_integer(json, key, value);
    else
        json_null(json, key);
}

static long long microseconds(struct timeval time)
{
    return time.tv_sec * 1000000LL + time.tv_usec;
}

static void put_error(struct json *json, const struct outcome *outcome)
{
    if (outcome->exec_error == 0) {
        json_null(json, "error");
        return;
    }
    json_open(json, "error");
    json_text(json, "stage", outcome->exec_stage);
    json_integer(json, "errno", outcome->exec_error);
    json_text(json, "message", strerror(outcome->exec_error));
    json_close(json);
}

/* A cgroup's account has page cache in it: of a single process its own peak is the exact one. */
static void put_tree_peak(struct json *json, const struct outcome *outcome)
{
    bool by_cgroup = outcome->cgroup_peak > 0;
    long long bytes = by_cgroup ? outcome->cgroup_peak : outcome->tree.peak_bytes;
    json_open(json, "tree_peak");
    put_if(json, "bytes", by_cgroup ? outcome->tree.most_processes > 1 : bytes >= 0, bytes);
    json_text(json, "method", by_cgroup ? "memory.peak" : "pss-sampled");
    json_close(json);
}

void report_print(FILE *to, const struct outcome *outcome)
{
    const struct rusage *usage = &outcome->usage;
    struct json json = {.output = to};
    bool ran = outcome->exec_error == 0;
    json_open(&json, NULL);
    json_text(&json, "schema", "allotrope.launch/1");
    json_integer(&json, "pid", outcome->pid);
    put_if(&json, "exit_status", ran && WIFEXITED(outcome->status), WEXITSTATUS(outcome->status));
    put_if(&json, "signal", ran && WIFSIGNALED(outcome->status), WTERMSIG(outcome->status));
    put_error(&json, outcome);
    json_bool(&json, "timed_out", outcome->timed_out);
    json_bool(&json, "killed", outcome->killed);
    json_bool(&json, "leftovers", outcome->leftovers);
    put_if(&json, "interrupted_by", outcome->interrupted_by != 0, outcome->interrupted_by);
    put_if(&json, "wall_ns", ran, outcome->wall_nanoseconds);
    put_if(&json, "user_us", ran, microseconds(usage->ru_utime));
    put_if(&json, "system_us", ran, microseconds(usage->ru_stime));
    put_if(&json, "peak_rss_bytes", ran, usage->ru_maxrss * 1024LL);
    put_if(&json, "minor_faults", ran, usage->ru_minflt);
    put_if(&json, "major_faults", ran, usage->ru_majflt);
    put_if(&json, "voluntary_switches", ran, usage->ru_nvcsw);
    put_if(&json, "involuntary_switches", ran, usage->ru_nivcsw);
    put_if(&json, "processes", outcome->tree.most_processes > 0, outcome->tree.most_processes);
    put_tree_peak(&json, outcome);
    json_close(&json);
    fputc('\n', to);
}
