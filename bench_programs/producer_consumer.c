/* SPDX-License-Identifier: MIT
 *
 * producer_consumer.c: one thread allocates what another frees.
 *
 * Pairs of threads joined by a bounded queue of messages. Every block crosses to another thread,
 * so an allocator with a heap per thread must send each block back, and one that keeps freed
 * blocks with the freeing thread grows without bound: the consumer's heap fills while the
 * producer's asks the kernel for more. Peak memory tells; the live blocks never exceed the queue.
 *
 * Idea: the "blowup" of Berger, McKinley, Blumofe & Wilson, "Hoard: A Scalable Memory Allocator
 * for Multithreaded Applications", ASPLOS 2000, section 2.2; measured in this form by Lever &
 * Boreham, "malloc() Performance in a Multithreaded Linux Environment", USENIX 2000.
 */
#include "bench_programs/bench.h"

enum { QUEUE_LENGTH = 1024 };

struct message {
    uint64_t number;
    uint64_t bytes;
    unsigned char text[];
};

struct queue {
    pthread_mutex_t lock;
    pthread_cond_t not_empty, not_full;
    struct message *messages[QUEUE_LENGTH];
    uint64_t put, taken;
    uint64_t first, last; /* the messages of this pair: [first, last) */
};

static void queue_put(struct queue *queue, struct message *message)
{
    pthread_mutex_lock(&queue->lock);
    while (queue->put - queue->taken == QUEUE_LENGTH)
        pthread_cond_wait(&queue->not_full, &queue->lock);
    queue->messages[queue->put++ % QUEUE_LENGTH] = message;
    pthread_cond_signal(&queue->not_empty);
    pthread_mutex_unlock(&queue->lock);
}

static struct message *queue_take(struct queue *queue)
{
    pthread_mutex_lock(&queue->lock);
    while (queue->put == queue->taken)
        pthread_cond_wait(&queue->not_empty, &queue->lock);
    struct message *message = queue->messages[queue->taken++ % QUEUE_LENGTH];
    pthread_cond_signal(&queue->not_full);
    pthread_mutex_unlock(&queue->lock);
    return message;
}

static void *produce(void *argument)
{
    struct queue *queue = argument;
    for (uint64_t number = queue->first; number < queue->last; number++) {
        uint64_t random = mix(number);
        uint64_t bytes = random_between(&random, sizeof(struct message), 512);
        struct message *message = allocate(bytes);
        message->number = number;
        message->bytes = bytes;
        memset(message->text, (int)number, bytes - sizeof *message);
        queue_put(queue, message);
    }
    return NULL;
}

static void *consume(void *argument)
{
    struct queue *queue = argument;
    uint64_t sum = 0;
    for (uint64_t number = queue->first; number < queue->last; number++) {
        struct message *message = queue_take(queue);
        uint64_t text_bytes = message->bytes - sizeof *message;
        if (message->number != number ||
            (text_bytes && (message->text[0] != (unsigned char)number ||
                            message->text[text_bytes - 1] != (unsigned char)number)))
            bench_corrupt("a message has lost its contents", message);
        sum += mix(number + message->bytes);
        free(message);
    }
    return (void *)(uintptr_t)sum;
}

int main(int argc, char **argv)
{
    uint64_t pairs = 1, messages = 2000000, checksum = 0;
    const struct bench_option options[] = {
        {"pairs", "pairs of a producer and a consumer", 1, BENCH_MAX_THREADS / 2, &pairs},
        {"messages", "messages in all", 1, 10000000000, &messages},
        {0},
    };
    bench_arguments(argc, argv, "producers and consumers", options);
    pthread_t producers[BENCH_MAX_THREADS], consumers[BENCH_MAX_THREADS];
    struct queue *queues = allocate(pairs * sizeof *queues);
    for (uint64_t i = 0; i < pairs; i++) {
        queues[i] = (struct queue){.lock = PTHREAD_MUTEX_INITIALIZER,
                                   .not_empty = PTHREAD_COND_INITIALIZER,
                                   .not_full = PTHREAD_COND_INITIALIZER,
                                   .first = messages * i / pairs,
                                   .last = messages * (i + 1) / pairs};
        producers[i] = thread_start(produce, &queues[i]);
        consumers[i] = thread_start(consume, &queues[i]);
    }
    for (uint64_t i = 0; i < pairs; i++) {
        void *sum;
        pthread_join(producers[i], NULL);
        pthread_join(consumers[i], &sum);
        checksum += (uintptr_t)sum;
    }
    free(queues);
    print_checksum(checksum);
    return 0;
}
