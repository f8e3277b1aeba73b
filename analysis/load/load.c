/* SPDX-License-Identifier: MIT
 *
 * load.c: an open-loop load on one server, and how long its answers took.
 *
 *     allotrope-load --port 6379 --rate 5000 --protocol redis 'SET k:{key} {data}\r\n'
 *
 * Requests are due at moments that do not depend on the answers: a Poisson process of the given
 * rate. A request takes a free connection; when there is none it waits for one, and its latency
 * counts from when it was due. A load that sends the next request when the answer to the last has
 * come (a closed loop) slows down with the server, and leaves the waiting out of its latencies:
 * G. Tene calls that coordinated omission; B. Schroeder, A. Wierman, M. Harchol-Balter, "Open
 * Versus Closed: A Cautionary Tale", NSDI 2006.
 *
 * The seed is fixed: every server gets the same requests at the same moments. One thread, sleeping
 * between events by epoll and a timer.
 */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <math.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include "analysis/load/reply.h"
#include "analysis/load/request.h"
#include "trace/base/flush_all.h"
#include "trace/base/last_words.h"
#include "trace/base/number.h"

enum {
    STATUS_USAGE = 2,
    ROOM = 1 << 20,           /* for a request, and for a reply */
    DRAIN_SECONDS = 5,        /* how long the last answers may take */
    MOST_CONNECTIONS = 10000, /* descriptors are limited anyway */
    TIMER = MOST_CONNECTIONS, /* what epoll calls the timer */
    NANOSECONDS = 1000 * 1000 * 1000,
};

static const uint64_t MOST_KEYS = 1000ull * 1000 * 1000 * 1000 * 1000;

struct connection {
    int socket; /* -1: to be opened before the next request */
    bool busy;
    bool fresh;    /* nothing was sent over it yet */
    long long due; /* of the request that it has */
    char *request; /* kept until it is answered, to be sent again over a new connection */
    size_t request_length;
    size_t sent;
    char *reply;
    size_t reply_length;
    size_t reply_room;
};

struct load {
    const char *host;
    const char *port;
    double rate;
    double seconds;
    size_t connection_count;
    enum protocol protocol;
    struct request_plan plan;

    struct addrinfo *address;
    int events;
    int timer;
    struct connection *connections;
    long long *due; /* when each request is due, in order */
    size_t planned;
    size_t next; /* the first that has no connection yet */
    size_t refused;
    long long *latencies;
    size_t answered;
    long long last_answer;
    size_t busy;
};

__attribute__((noreturn, format(printf, 1, 2))) static void fail(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    say_last_words("allotrope-load", format, arguments);
    va_end(arguments);
    exit(STATUS_USAGE);
}

static void *allocate(size_t count, size_t size)
{
    void *memory = calloc(count ? count : 1, size);
    if (!memory)
        fail("no memory for %zu requests; lower --rate or --seconds", count);
    return memory;
}

static long long now_nanoseconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * (long long)NANOSECONDS + now.tv_nsec;
}

/* Options. */

static double parse_positive(const char *option, const char *text, double most)
{
    double number;
    if (!number_parse_positive(text, most, &number))
        fail("%s: '%s' is not a number above 0 and up to %g", option, text, most);
    return number;
}

static uint64_t parse_whole(const char *option, const char *text, uint64_t least, uint64_t most)
{
    uint64_t number;
    if (!number_parse(text, least, most, &number))
        fail("%s: '%s' is not a whole number from %" PRIu64 " to %" PRIu64, option, text, least,
             most);
    return number;
}

static void parse_sizes(struct request_plan *plan, const char *text)
{
    const char *rest = text;
    if (!number_read_range(&rest, &plan->least, &plan->greatest) || *rest != '\0' ||
        plan->greatest >= ROOM / 2)
        fail("--sizes: '%s' is not a range of bytes such as 16-1024, below %d", text, ROOM / 2);
}

static void print_usage(void)
{
    puts("usage: allotrope-load --port PORT [OPTION]... REQUEST...\n"
         "Sends requests at a given rate, whether answers come or not, and writes as JSON how\n"
         "long the answers took, counted from when each request was due.\n\n"
         "  --port PORT           the server's\n"
         "  --host HOST           (default 127.0.0.1)\n"
         "  --rate NUMBER         requests a second, at random moments (default 1000)\n"
         "  --seconds NUMBER      how long (default 5)\n"
         "  --connections NUMBER  each has one request at a time (default 32)\n"
         "  --protocol NAME       where an answer ends: line, http, redis or memcached\n"
         "                        (default line)\n"
         "  --keys NUMBER         {key} is a number below it (default 10000)\n"
         "  --sizes LEAST-MOST    {size} is a number of bytes in this range, {data} is as many\n"
         "                        bytes (default 64)\n"
         "  --seed NUMBER         of the moments, keys and sizes (default 1992)\n\n"
         "REQUEST: a text in which \\r and \\n are ends of lines; of several each is taken as\n"
         "often. Examples:\n"
         "  allotrope-load --port 6379 --protocol redis 'SET k:{key} {data}\\r\\n' 'GET "
         "k:{key}\\r\\n'\n"
         "  allotrope-load --port 80 --protocol http 'GET / HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n'\n"
         "  allotrope-load --port 11211 --protocol memcached 'get k{key}\\r\\n' \\\n"
         "    'set k{key} 0 0 {size}\\r\\n{data}\\r\\n'\n\n"
         "Status: 0; 1 when requests stayed without an answer; 2 for a bad question.");
}

enum { PORT = 256, HOST, RATE, SECONDS, CONNECTIONS, PROTOCOL, KEYS, SIZES, SEED, HELP };

static void take_option(struct load *load, int choice, char *value)
{
    switch (choice) {
    case PORT:
        parse_whole("--port", value, 1, UINT16_MAX);
        load->port = value;
        break;
    case HOST:
        load->host = value;
        break;
    case RATE:
        load->rate = parse_positive("--rate", value, 1e7);
        break;
    case SECONDS:
        load->seconds = parse_positive("--seconds", value, 1e6);
        break;
    case CONNECTIONS:
        load->connection_count = parse_whole("--connections", value, 1, MOST_CONNECTIONS - 1);
        break;
    case PROTOCOL:
        if (!protocol_named(value, &load->protocol))
            fail("--protocol: '%s' is unknown; valid are line, http, redis, memcached", value);
        break;
    case KEYS:
        load->plan.keys = parse_whole("--keys", value, 1, MOST_KEYS);
        break;
    case SIZES:
        parse_sizes(&load->plan, value);
        break;
    case SEED:
        load->plan.random.state = parse_whole("--seed", value, 0, UINT64_MAX);
        break;
    case HELP:
        print_usage();
        exit(0);
    default:
        exit(STATUS_USAGE); /* getopt has named the option */
    }
}

static struct load parse(int argc, char **argv)
{
    static const struct option options[] = {{"port", required_argument, NULL, PORT},
                                            {"host", required_argument, NULL, HOST},
                                            {"rate", required_argument, NULL, RATE},
                                            {"seconds", required_argument, NULL, SECONDS},
                                            {"connections", required_argument, NULL, CONNECTIONS},
                                            {"protocol", required_argument, NULL, PROTOCOL},
                                            {"keys", required_argument, NULL, KEYS},
                                            {"sizes", required_argument, NULL, SIZES},
                                            {"seed", required_argument, NULL, SEED},
                                            {"help", no_argument, NULL, HELP},
                                            {0}};
    struct load load = {.host = "127.0.0.1", .rate = 1000, .seconds = 5, .connection_count = 32};
    load.plan = (struct request_plan){.keys = 10000, .least = 64, .greatest = 64};
    load.plan.random.state = 1992;
    for (int choice; (choice = getopt_long(argc, argv, "", options, NULL)) != -1;)
        take_option(&load, choice, optarg);
    load.plan.texts = argv + optind;
    load.plan.count = (size_t)(argc - optind);
    if (!load.port)
        fail("--port is missing; see --help");
    if (load.plan.count == 0)
        fail("no request given; see --help");
    for (size_t i = 0; i < load.plan.count; i++)
        request_unescape(load.plan.texts[i]);
    return load;
}

/* Connections. */

static void watch(const struct load *load, const struct connection *connection, int operation)
{
    struct epoll_event event = {.events = EPOLLIN};
    if (connection->busy && connection->sent < connection->request_length)
        event.events |= EPOLLOUT;
    event.data.u64 = (uint64_t)(connection - load->connections);
    epoll_ctl(load->events, operation, connection->socket, &event);
}

static void open_connection(struct load *load, struct connection *connection)
{
    int one = 1;
    connection->socket = socket(load->address->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (connection->socket < 0)
        fail("--connections %zu: %s", load->connection_count, strerror(errno));
    if (connect(connection->socket, load->address->ai_addr, load->address->ai_addrlen) != 0)
        fail("no connection to %s port %s: %s", load->host, load->port, strerror(errno));
    setsockopt(connection->socket, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    connection->fresh = true;
    watch(load, connection, EPOLL_CTL_ADD);
}

static void close_connection(struct connection *connection)
{
    close(connection->socket);
    connection->socket = -1;
}

static void open_all(struct load *load)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
    int error = getaddrinfo(load->host, load->port, &hints, &load->address);
    if (error != 0)
        fail("%s port %s: %s", load->host, load->port, gai_strerror(error));
    load->events = epoll_create1(EPOLL_CLOEXEC);
    load->timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    struct epoll_event event = {.events = EPOLLIN, .data.u64 = TIMER};
    epoll_ctl(load->events, EPOLL_CTL_ADD, load->timer, &event);
    load->connections = allocate(load->connection_count, sizeof *load->connections);
    for (size_t i = 0; i < load->connection_count; i++) {
        load->connections[i].request = allocate(ROOM, 1);
        open_connection(load, &load->connections[i]);
    }
}

/* The moments: exponentially distributed gaps. */
static void plan_moments(struct load *load)
{
    size_t room = (size_t)(load->rate * load->seconds * 1.2) + 1000;
    load->due = allocate(room, sizeof *load->due);
    struct random random = load->plan.random;
    for (double at = 0; load->planned < room; load->planned++) {
        at += -log(1 - random_share(&random)) / load->rate;
        if (at >= load->seconds)
            break;
        load->due[load->planned] = (long long)(at * NANOSECONDS);
    }
    if (load->planned == 0)
        fail("--rate %g: no request is due within %g s", load->rate, load->seconds);
    load->latencies = allocate(load->planned, sizeof *load->latencies);
}

/* Requests and answers. */

static void finish(struct load *load, struct connection *connection, bool refused)
{
    load->last_answer = now_nanoseconds();
    load->latencies[load->answered++] = load->last_answer - connection->due;
    load->refused += refused;
    load->busy--;
    connection->busy = false;
    connection->fresh = false;
}

/* Sends what it can; what is left waits for epoll. */
static void send_some(struct load *load, struct connection *connection)
{
    while (connection->sent < connection->request_length) {
        ssize_t sent =
            send(connection->socket, connection->request + connection->sent,
                 connection->request_length - connection->sent, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (sent < 0)
            break; /* no room; or closed, which reading tells */
        connection->sent += (size_t)sent;
    }
    watch(load, connection, EPOLL_CTL_MOD);
}

static void begin(struct load *load, struct connection *connection, long long due)
{
    connection->request_length = request_make(&load->plan, connection->request, ROOM);
    if (connection->request_length == 0)
        fail("a request is larger than %d bytes", ROOM);
    connection->due = due;
    connection->busy = true;
    connection->sent = connection->reply_length = 0;
    load->busy++;
    if (connection->socket < 0)
        open_connection(load, connection);
    send_some(load, connection);
}

/* The server has closed. A request over a connection that had served others may have met the
 * close on its way: it is sent again over a new one. */
static void handle_close(struct load *load, struct connection *connection)
{
    bool again = connection->busy && connection->reply_length == 0 && !connection->fresh;
    bool whole =
        connection->busy && connection->reply_length > 0 &&
        reply_state(load->protocol, connection->reply, connection->reply_length) == UNTIL_CLOSED;
    close_connection(connection);
    if (whole)
        finish(load, connection, false);
    else if (again) {
        connection->sent = 0;
        open_connection(load, connection);
        send_some(load, connection);
    } else if (connection->busy)
        fail("the server closed a connection in the middle of an answer (%zu were whole)",
             load->answered);
}

static void judge_reply(struct load *load, struct connection *connection)
{
    enum reply_state state =
        reply_state(load->protocol, connection->reply, connection->reply_length);
    if (state == UNFINISHED || state == UNTIL_CLOSED)
        return;
    if (state == REFUSED && load->refused == 0)
        fprintf(stderr, "allotrope-load: the server says: %.*s\n",
                (int)strcspn(connection->reply, "\r\n"), connection->reply);
    finish(load, connection, state == REFUSED);
    if (state == COMPLETE_CLOSES)
        close_connection(connection);
}

static void receive(struct load *load, struct connection *connection)
{
    if (connection->reply_room - connection->reply_length < 4096) {
        connection->reply_room = connection->reply_room ? 2 * connection->reply_room : 16384;
        connection->reply = realloc(connection->reply, connection->reply_room + 1);
        if (!connection->reply)
            fail("no memory for an answer of %zu bytes", connection->reply_room);
    }
    ssize_t length = recv(connection->socket, connection->reply + connection->reply_length,
                          connection->reply_room - connection->reply_length, MSG_DONTWAIT);
    if (length < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (length <= 0) {
        handle_close(load, connection);
        return;
    }
    if (!connection->busy)
        fail("the server said something that it was not asked; is --protocol right?");
    connection->reply_length += (size_t)length;
    connection->reply[connection->reply_length] = '\0';
    judge_reply(load, connection);
}

/* Gives requests that are due to free connections, in order. */
static void send_due(struct load *load, long long now)
{
    for (size_t i = 0; i < load->connection_count && load->next < load->planned; i++)
        if (!load->connections[i].busy && load->due[load->next] <= now)
            begin(load, &load->connections[i], load->due[load->next++]);
}

static void wait_for_events(struct load *load, long long until)
{
    struct itimerspec at = {.it_value = {until / NANOSECONDS, until % NANOSECONDS}};
    struct epoll_event events[64];
    timerfd_settime(load->timer, TFD_TIMER_ABSTIME, &at, NULL);
    int count = epoll_wait(load->events, events, sizeof events / sizeof *events, -1);
    for (int i = 0; i < count; i++) {
        if (events[i].data.u64 == TIMER)
            continue;
        struct connection *connection = &load->connections[events[i].data.u64];
        if (connection->socket >= 0 && (events[i].events & EPOLLOUT))
            send_some(load, connection);
        if (connection->socket >= 0 && (events[i].events & (EPOLLIN | EPOLLHUP | EPOLLERR)))
            receive(load, connection);
    }
}

/* Runs from `began` until all is answered, or the time for that is over. */
static void run(struct load *load, long long began)
{
    for (size_t i = 0; i < load->planned; i++)
        load->due[i] += began;
    long long end = began + (long long)((load->seconds + DRAIN_SECONDS) * NANOSECONDS);
    while (load->next < load->planned || load->busy > 0) {
        long long now = now_nanoseconds();
        if (now >= end)
            return;
        send_due(load, now);
        bool waits = load->next < load->planned && load->due[load->next] > now;
        wait_for_events(load, waits ? load->due[load->next] : end);
    }
}

/* The report. */

static int compare_latencies(const void *one, const void *other)
{
    long long a = *(const long long *)one;
    long long b = *(const long long *)other;
    return (a > b) - (a < b);
}

/* The smallest latency that so many per thousand do not exceed. */
static double quantile_us(const struct load *load, size_t thousandths)
{
    size_t rank = (load->answered * thousandths + 999) / 1000;
    return (double)load->latencies[rank > 0 ? rank - 1 : 0] / 1000;
}

static void put_number(const char *before, double number)
{
    printf("%s%.6g", before, number);
}

static void report(struct load *load, long long began)
{
    double seconds = (double)(load->last_answer - began) / NANOSECONDS;
    qsort(load->latencies, load->answered, sizeof *load->latencies, compare_latencies);
    printf("{\"schema\": \"allotrope.load/1\", \"requests\": %zu, \"refused\": %zu", load->answered,
           load->refused);
    put_number(", \"rate\": ", load->rate);
    put_number(", \"seconds\": ", seconds);
    put_number(", \"throughput\": ", (double)load->answered / seconds);
    put_number(", \"latency_us\": {\"p50\": ", quantile_us(load, 500));
    put_number(", \"p90\": ", quantile_us(load, 900));
    put_number(", \"p99\": ", quantile_us(load, 990));
    put_number(", \"p99.9\": ", quantile_us(load, 999));
    put_number(", \"max\": ", quantile_us(load, 1000));
    puts("}}");
}

int main(int argc, char **argv)
{
    struct load load = parse(argc, argv);
    prctl(PR_SET_TIMERSLACK, 1);
    plan_moments(&load);
    open_all(&load);
    long long began = now_nanoseconds();
    run(&load, began);
    if (load.answered < load.planned) {
        fprintf(stderr,
                "allotrope-load: %zu of %zu requests had no answer %d s after the last was due; "
                "the server cannot keep up: lower --rate %g\n",
                load.planned - load.answered, load.planned, DRAIN_SECONDS, load.rate);
        return 1;
    }
    if (load.refused > 0) {
        fprintf(stderr, "allotrope-load: %zu of %zu answers were errors\n", load.refused,
                load.answered);
        return 1;
    }
    report(&load, began);
    return flush_all(stdout) == 0 ? 0 : 1;
}
