/* SPDX-License-Identifier: MIT
 *
 * stale.cc: shapes in which a use after free, or a double free, is exploited.
 *
 * Each case is a process of its own. The program loses a block but keeps a pointer to it, as the
 * faults do that are exploited. The attacker then has the program allocate, as often as he likes,
 * blocks of that size that hold what he wants, and collections come and go. At last the program
 * uses its stale pointer.
 *
 *     exit status 0     stopped     nothing of the attacker's is seen through the pointer, and
 *                                   nothing of his is harmed
 *     exit status 1     exploited
 *     exit status 77    stopped     by a fault at the stale access
 *     a signal          stopped     by the allocator
 */
#include <array>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <list>
#include <malloc.h>
#include <map>
#include <memory>
#include <pthread.h>
#include <string>
#include <sys/mman.h>
#include <thread>
#include <unistd.h>
#include <vector>

namespace
{

/* A value of which the compiler knows nothing. */
template <typename type> type opaque(type value)
{
    __asm__ volatile("" : "+r"(value) : : "memory");
    return value;
}

const uintptr_t FORGED = 0x4141414141414141;

std::vector<uintptr_t *> sprayed(0);

/* The attacker's blocks of a size, kept, and all of FORGED. */
void spray(size_t bytes)
{
    const size_t count = bytes <= 4096 ? 1500 : 50;
    for (int round = 0; round < 4; round++) {
        malloc_trim(0);
        for (size_t i = 0; i < count; i++) {
            auto *block = static_cast<uintptr_t *>(opaque(malloc(bytes)));
            for (size_t word = 0; word < bytes / sizeof *block; word++)
                block[word] = FORGED;
            sprayed.push_back(block);
        }
    }
}

bool is_harmed(size_t bytes)
{
    for (const uintptr_t *block : sprayed)
        for (size_t word = 0; word < bytes / sizeof *block; word++)
            if (block[word] != FORGED)
                return true;
    return false;
}

template <typename type> bool is_forged(const volatile type *place)
{
    type forged;
    memset(&forged, 0x41, sizeof forged);
    return *opaque(place) == forged;
}

/* An object's table of virtual functions. */
struct shape {
    virtual ~shape()
    {
    }
    virtual int area()
    {
        return 1;
    }
    long side[5];
};
shape *kept_shape;

bool vtable()
{
    kept_shape = opaque(new shape);
    delete opaque(kept_shape);
    spray(sizeof(shape));
    return is_forged(reinterpret_cast<uintptr_t *>(kept_shape));
}

/* A function that is called later, and its argument. */
struct handler {
    void (*function)(void *);
    void *argument;
    long more[6];
};
handler *handlers[4];

bool callback_table()
{
    handlers[2] = static_cast<handler *>(malloc(sizeof(handler)));
    handlers[2]->function = free;
    free(opaque(handlers[2]));
    spray(sizeof(handler));
    return is_forged(reinterpret_cast<uintptr_t *>(&handlers[2]->function));
}

/* The object ends itself while it is called, and its caller goes on with it. */
struct session {
    std::function<void(session *)> on_data;
    long state[8];
};

bool callback_frees_object()
{
    auto *one = opaque(new session);
    one->on_data = [](session *self) { delete opaque(self); };
    auto ended = one->on_data;
    ended(one);
    spray(sizeof(session));
    return is_forged(&one->state[3]);
}

/* A node that was freed and is still linked: its removal writes where it says. */
struct node {
    node *next, *previous;
    long payload[4];
};
node list_head;

bool list_unlink()
{
    auto *one = static_cast<node *>(malloc(sizeof(node)));
    one->next = one->previous = &list_head;
    list_head.next = list_head.previous = one;
    free(opaque(one));
    spray(sizeof(node));
    const volatile node *linked = list_head.next;
    return is_forged(reinterpret_cast<const volatile uintptr_t *>(&linked->next)) ||
           is_forged(reinterpret_cast<const volatile uintptr_t *>(&linked->previous));
}

struct tree {
    tree *left, *right, *parent;
    long key[3];
};
tree *tree_root;

bool tree_node()
{
    tree_root = static_cast<tree *>(calloc(1, sizeof(tree)));
    tree_root->left = static_cast<tree *>(calloc(1, sizeof(tree)));
    free(opaque(tree_root->left));
    spray(sizeof(tree));
    return is_forged(&tree_root->left->key[1]);
}

/* The text of a name becomes another's. */
char *kept_name;

bool string_reuse()
{
    kept_name = strdup("the name of an administrator, say");
    size_t bytes = strlen(kept_name) + 1;
    free(opaque(kept_name));
    spray(bytes);
    return is_forged(kept_name + 9);
}

const char *kept_text;

bool string_grown()
{
    std::string text(100, 'x');
    kept_text = text.c_str();
    text.append(5000, 'y');
    spray(101);
    return is_forged(kept_text + 50);
}

bool view_of_vector()
{
    std::vector<long> values(30, 7);
    long *third = opaque(&values[3]);
    values.resize(1000);
    spray(30 * sizeof(long));
    return is_forged(third);
}

bool iterator_of_vector()
{
    std::vector<long> values(16, 7);
    auto each = values.begin();
    while (values.capacity() < 40)
        values.push_back(8);
    spray(16 * sizeof(long));
    return is_forged(&*each);
}

bool iterator_of_list()
{
    std::list<std::array<long, 6>> values(3);
    auto each = ++values.begin();
    auto *seen = opaque(&*each);
    values.erase(each);
    spray(2 * sizeof(void *) + sizeof *seen);
    return is_forged(&(*seen)[2]);
}

bool iterator_of_map()
{
    std::map<int, std::array<long, 6>> values;
    values[1] = values[2] = {};
    auto *seen = opaque(&values.find(2)->second);
    values.erase(2);
    spray(4 * sizeof(void *) + sizeof(std::pair<const int, std::array<long, 6>>));
    return is_forged(&(*seen)[2]);
}

/* An object becomes one of another type, whose length is where the first has an address. */
struct message {
    char *text;
    size_t length;
    long more[7];
};
message *kept_message;

bool type_confusion()
{
    kept_message = static_cast<message *>(malloc(sizeof(message)));
    kept_message->length = 5;
    free(opaque(kept_message));
    spray(sizeof(message));
    return is_forged(reinterpret_cast<uintptr_t *>(&kept_message->text)) ||
           is_forged(&kept_message->length);
}

/* The old place of what was resized. */
long *kept_row;

bool resized()
{
    kept_row = static_cast<long *>(malloc(200));
    void *moved = opaque(realloc(opaque(kept_row), 30000));
    spray(200);
    return moved != kept_row && is_forged(kept_row + 3);
}

bool resized_large()
{
    kept_row = static_cast<long *>(malloc(200000));
    void *behind = malloc(200000);
    void *moved = opaque(realloc(opaque(kept_row), 3000000));
    spray(200000);
    return behind && moved != kept_row && is_forged(kept_row + 3);
}

/* A mapping of its own: the kernel moves its pages, and gives the place to the next. */
bool resized_mapping()
{
    enum : size_t { BYTES = (size_t)64 << 20 };
    kept_row = static_cast<long *>(malloc(BYTES));
    for (size_t at = 0; at < BYTES / sizeof *kept_row; at += 4096)
        kept_row[at] = 1;
    void *fence = mmap(nullptr, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    void *moved = opaque(realloc(opaque(kept_row), 3 * BYTES));
    for (int i = 0; i < 3; i++) {
        malloc_trim(0);
        void *block = opaque(malloc(BYTES));
        memset(block, 0x41, BYTES);
        void *mapped =
            mmap(nullptr, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        memset(mapped, 0x41, BYTES);
    }
    return fence && moved != kept_row && is_forged(kept_row + 3);
}

bool large_block()
{
    kept_row = static_cast<long *>(malloc(100000));
    free(opaque(kept_row));
    spray(100000);
    return is_forged(kept_row + 5000);
}

/* Another thread ends what this one uses. */
bool freed_by_other_thread()
{
    char *shared = opaque(static_cast<char *>(malloc(72)));
    std::thread([shared] { free(opaque(shared)); }).join();
    spray(72);
    return is_forged(shared + 16);
}

/* The stale pointer is another thread's, which waits, and has it on its stack. */
bool used_by_other_thread()
{
    int ready[2], go[2];
    if (pipe(ready) != 0 || pipe(go) != 0)
        _exit(99);
    bool forged = false;
    char byte = 0;
    char *block = static_cast<char *>(malloc(72));
    std::thread user([&forged, &ready, &go, own = block] {
        char mine = 0;
        if (write(ready[1], &mine, 1) != 1 || read(go[0], &mine, 1) != 1)
            _exit(99);
        forged = is_forged(own + 16);
    });
    if (read(ready[0], &byte, 1) != 1)
        _exit(99);
    free(opaque(block));
    block = nullptr;
    spray(72);
    if (write(go[1], &byte, 1) != 1)
        _exit(99);
    user.join();
    return forged;
}

/* One reference too few was counted. */
struct counted {
    long references;
    long value[9];
};
counted *other_reference;

void drop(counted *one)
{
    if (--one->references == 0)
        free(opaque(one));
}

bool reference_count()
{
    auto *one = static_cast<counted *>(malloc(sizeof(counted)));
    one->references = 1;
    other_reference = one; /* not counted */
    drop(one);
    spray(sizeof(counted));
    return is_forged(&other_reference->references);
}

/* Only a pointer into the block is left. */
long *kept_field;

bool field_of_object()
{
    auto *one = static_cast<long *>(malloc(160));
    kept_field = one + 9;
    free(opaque(one));
    one = nullptr;
    spray(160);
    return is_forged(kept_field);
}

thread_local message *own_message;

bool in_thread_local()
{
    own_message = static_cast<message *>(malloc(sizeof(message)));
    free(opaque(own_message));
    spray(sizeof(message));
    return is_forged(&own_message->length);
}

/* Through an object of the heap, of which only a third one knows. */
bool in_graph()
{
    struct owner {
        owner *next;
        message *held;
    };
    auto *first = opaque(new owner{new owner{nullptr, nullptr}, nullptr});
    first->next->held = static_cast<message *>(malloc(sizeof(message)));
    free(opaque(first->next->held));
    spray(sizeof(message));
    return is_forged(&first->next->held->length);
}

/* A write through the pointer harms another's object. */
long *kept_rights;

bool stale_write()
{
    kept_rights = static_cast<long *>(malloc(64));
    free(opaque(kept_rights));
    spray(64);
    *opaque(kept_rights + 2) = 0;
    return is_harmed(64);
}

/* A write into the freed block makes the allocator hand out what the attacker names. */
long target[16];
long *kept_link;

bool poisoned_free_list()
{
    void *blocks[7];
    for (void *&block : blocks)
        block = malloc(48);
    kept_link = static_cast<long *>(blocks[6]);
    for (void *block : blocks)
        free(opaque(block));
    kept_link[0] = reinterpret_cast<long>(target);
    kept_link[1] = 0;
    for (int i = 0; i < 16; i++)
        if (opaque(malloc(48)) == target)
            return true;
    return false;
}

/* Freed twice, a block has two owners. */
bool has_two_owners(size_t bytes)
{
    std::vector<void *> blocks(400);
    for (void *&block : blocks) {
        block = opaque(malloc(bytes));
        for (void **other = &blocks[0]; other != &block; other++)
            if (*other == block)
                return true;
    }
    return false;
}

bool freed_twice()
{
    void *block = malloc(88);
    free(opaque(block));
    free(opaque(block));
    return has_two_owners(88);
}

bool freed_twice_another_between()
{
    void *block = malloc(88), *other = malloc(88);
    free(opaque(block));
    free(opaque(other));
    free(opaque(block));
    return has_two_owners(88);
}

/* The second free comes when the block is another's: it ends that one's. */
void *kept_block;

bool freed_again_after_reuse()
{
    kept_block = malloc(88);
    free(opaque(kept_block));
    spray(88);
    free(opaque(kept_block));
    for (int i = 0; i < 400; i++)
        memset(opaque(malloc(88)), 0x42, 88);
    return is_harmed(88);
}

bool freed_then_resized()
{
    void *block = malloc(88);
    free(opaque(block));
    void *moved = opaque(realloc(opaque(block), 80));
    if (moved != block)
        return false;
    return opaque(malloc(80)) == moved || has_two_owners(80);
}

struct {
    const char *name;
    bool (*is_exploited)();
} const cases[] = {
    {"vtable", vtable},
    {"callback-table", callback_table},
    {"callback-frees-object", callback_frees_object},
    {"list-unlink", list_unlink},
    {"tree-node", tree_node},
    {"string-reuse", string_reuse},
    {"string-grown", string_grown},
    {"view-of-vector", view_of_vector},
    {"iterator-of-vector", iterator_of_vector},
    {"iterator-of-list", iterator_of_list},
    {"iterator-of-map", iterator_of_map},
    {"type-confusion", type_confusion},
    {"resized", resized},
    {"resized-large", resized_large},
    {"resized-mapping", resized_mapping},
    {"large-block", large_block},
    {"freed-by-other-thread", freed_by_other_thread},
    {"used-by-other-thread", used_by_other_thread},
    {"reference-count", reference_count},
    {"field-of-object", field_of_object},
    {"in-thread-local", in_thread_local},
    {"in-graph", in_graph},
    {"stale-write", stale_write},
    {"poisoned-free-list", poisoned_free_list},
    {"freed-twice", freed_twice},
    {"freed-twice-another-between", freed_twice_another_between},
    {"freed-again-after-reuse", freed_again_after_reuse},
    {"freed-then-resized", freed_then_resized},
};

void at_fault(int)
{
    _exit(77);
}

} // namespace

int main(int count, char **words)
{
    sprayed.reserve(6000); /* before the case, so that it is no block of its sizes */
    signal(SIGSEGV, at_fault);
    signal(SIGBUS, at_fault);
    for (const auto &one : cases) {
        if (count < 2)
            puts(one.name);
        else if (strcmp(words[1], one.name) == 0)
            return one.is_exploited();
    }
    return count < 2 ? 0 : 99;
}
