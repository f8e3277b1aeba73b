/* SPDX-License-Identifier: MIT
 *
 * interpret.c: see interpret.h. A stack machine, as Goldberg & Robson define Smalltalk's.
 *
 * Each activation is a frame, an object of the heap:
 *
 *     | sender | pc | sp | method | receiver | home | variables ... | stack ... |
 *
 * A block's frame has no variables; they are in its home, the frame of the method that the block
 * stands in. While a frame is active its pc and sp are in `machine`; `save` puts them back, before
 * anything that allocates. An allocation may move every object. So the address of none is kept
 * over it but in `machine`, and `load` renews those.
 *
 * Stores into frames need no barrier, because no frame is old. Nor is a block: if it were, a dead
 * one would keep its home for ever. All other stores that a program
 * makes are `store`, at four places: fields, globals, at:put:, fieldAt:put:.
 */
#include "bench_programs/runtime/interpret.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench_programs/random.h"
#include "bench_programs/runtime/barrier.h"
#include "bench_programs/runtime/image.h"
#include "bench_programs/runtime/scavenge.h"

enum { CACHE_ENTRIES = 1024 };

static struct {
    value frame, method; /* roots: the active frame, a method that is about to be activated */
    struct object *active, *home;
    const uint8_t *code, *pc;
    value *sp; /* the first free slot */
    bool finished;
    uint64_t random;
} machine;

/* Which method a class has for a selector, inherited or its own. Emptied at each scavenge. */
static struct cache_entry {
    value class, selector, method;
} cache[CACHE_ENTRIES];

static void empty_cache(void)
{
    memset(cache, 0, sizeof cache);
}

static void load(void)
{
    struct object *frame = machine.active = object_of(machine.frame);
    machine.home = object_of(frame->slots[FRAME_HOME]);
    struct object *method = object_of(frame->slots[FRAME_METHOD]);
    machine.code = (const uint8_t *)bytes_of(object_of(method->slots[METHOD_CODE]));
    machine.pc = machine.code + integer_of(frame->slots[FRAME_PC]);
    machine.sp = &frame->slots[integer_of(frame->slots[FRAME_SP])];
}

static void save(void)
{
    machine.active->slots[FRAME_PC] = integer_value(machine.pc - machine.code);
    machine.active->slots[FRAME_SP] = integer_value(machine.sp - machine.active->slots);
}

static inline void push(value v)
{
    *machine.sp++ = v;
}

static inline value pop(void)
{
    return *--machine.sp;
}

static inline value class_of(value v)
{
    return is_integer(v) ? image.integer_class : object_of(v)->class;
}

static inline value boolean(bool b)
{
    return b ? image.true_value : image.false_value;
}

static inline int64_t field_integer(value object, size_t field)
{
    return integer_of(object_of(object)->slots[field]);
}

static inline value literal(size_t index)
{
    struct object *method = object_of(machine.active->slots[FRAME_METHOD]);
    return object_of(method->slots[METHOD_LITERALS])->slots[index];
}

static void print_text(FILE *file, value string)
{
    fprintf(file, "%.*s", (int)object_of(string)->size, bytes_of(object_of(string)));
}

/* The program has a fault: says so, and where it is. */
static _Noreturn void stop(const char *what, value detail)
{
    fprintf(stderr, "runtime: %s ", what);
    print_text(stderr, detail);
    for (value frame = machine.frame; frame != image.nil;
         frame = object_of(frame)->slots[FRAME_SENDER]) {
        struct object *method = object_of(object_of(frame)->slots[FRAME_METHOD]);
        fprintf(stderr, "\n  in ");
        print_text(stderr, object_of(method->slots[METHOD_OWNER])->slots[CLASS_NAME]);
        fprintf(stderr, " ");
        print_text(stderr, method->slots[METHOD_SELECTOR]);
    }
    fprintf(stderr, "\n");
    exit(3);
}

/* Activation. */

static void make_active(struct object *frame)
{
    machine.frame = value_of(frame);
    load();
}

/* A frame whose sender is the active one. */
static struct object *new_frame(size_t variables, size_t stack, int64_t pc)
{
    size_t size = FRAME_SLOTS + variables + stack;
    struct object *frame = allocate(image.frame_class, KIND_FRAME, size, image.nil);
    frame->slots[FRAME_SENDER] = machine.frame;
    frame->slots[FRAME_PC] = integer_value(pc);
    frame->slots[FRAME_SP] = integer_value((int64_t)(FRAME_SLOTS + variables));
    return frame;
}

/* Takes the receiver and the arguments from the active frame's stack. */
static void activate(value method, size_t arguments)
{
    machine.method = method;
    save();
    struct object *frame = new_frame((size_t)field_integer(method, METHOD_TEMPS),
                                     (size_t)field_integer(method, METHOD_STACK), 0);
    load();
    for (size_t i = arguments; i-- > 0;)
        frame->slots[FRAME_SLOTS + i] = pop();
    frame->slots[FRAME_RECEIVER] = pop();
    frame->slots[FRAME_METHOD] = machine.method;
    frame->slots[FRAME_HOME] = value_of(frame);
    save();
    make_active(frame);
}

/* A frame that is the newest object is freed when it returns: whatever could refer to it, a block
 * or a frame, would be newer. Not so a copy: a scavenge leaves objects in another order. */
static void free_newest(struct object *frame)
{
    uintptr_t start = (uintptr_t)frame;
    if (start >= heap.survivors_end && start + bytes_used(frame) == heap.top)
        heap.top = start;
}

static void resume(value frame, value result)
{
    free_newest(machine.active);
    if (frame == image.nil) {
        machine.finished = true;
        machine.method = result;
        return;
    }
    make_active(object_of(frame));
    push(result);
}

/* Returns from the method; from a block in it too. */
static void return_from_home(void)
{
    struct object *home = machine.home;
    value sender = home->slots[FRAME_SENDER];
    if (home->slots[FRAME_PC] == integer_value(-1))
        stop("a block returns from a method that has returned", image.operators[0]);
    value result = pop();
    home->slots[FRAME_PC] = integer_value(-1);
    home->slots[FRAME_SENDER] = image.nil;
    resume(sender, result);
}

static value find_method(value class, value selector)
{
    for (value at = class; at != image.nil; at = object_of(at)->slots[CLASS_SUPER]) {
        value method = method_in(at, selector);
        if (method != image.nil)
            return method;
    }
    stop("nobody understands", selector);
}

static inline value lookup(value class, value selector)
{
    size_t hash = (class - heap_old_start) / 32 ^ (selector - heap_old_start) / 16;
    struct cache_entry *entry = &cache[hash % CACHE_ENTRIES];
    if (entry->class != class || entry->selector != selector)
        *entry = (struct cache_entry){class, selector, find_method(class, selector)};
    return entry->method;
}

static bool primitive(int64_t number, size_t arguments);

static void send_to(value class, value selector, size_t arguments)
{
    value method = lookup(class, selector);
    int64_t number = field_integer(method, METHOD_PRIMITIVE);
    if (number == 0 || !primitive(number, arguments))
        activate(method, arguments);
}

static void send(value selector, size_t arguments)
{
    send_to(class_of(machine.sp[-1 - (ptrdiff_t)arguments]), selector, arguments);
}

static void send_super(value selector, size_t arguments)
{
    value owner = object_of(machine.active->slots[FRAME_METHOD])->slots[METHOD_OWNER];
    send_to(object_of(owner)->slots[CLASS_SUPER], selector, arguments);
}

/* Primitives. Each takes its arguments and the receiver from the stack and pushes a result, or
 * returns false and leaves all as it is; the method's statements follow then. */

static bool answer(size_t arguments, value result)
{
    machine.sp -= arguments;
    machine.sp[-1] = result;
    return true;
}

static value argument(size_t index, size_t arguments)
{
    return machine.sp[(ptrdiff_t)index - (ptrdiff_t)arguments];
}

static value receiver(size_t arguments)
{
    return machine.sp[-1 - (ptrdiff_t)arguments];
}

/* new, new: */
static bool make_object(size_t arguments)
{
    struct object *class = object_of(receiver(arguments));
    enum kind kind = (enum kind)integer_of(class->slots[CLASS_KIND]);
    int64_t size = integer_of(arguments ? argument(0, 1) : class->slots[CLASS_SIZE]);
    if (size < 0 || kind == KIND_FRAME)
        return false;
    save();
    struct object *made = allocate(value_of(class), kind, (size_t)size, image.nil);
    load();
    return answer(arguments, value_of(made));
}

static bool is_index(value v, const struct object *object)
{
    return is_integer(v) && integer_of(v) >= 1 && integer_of(v) <= (int64_t)object->size;
}

/* at:, fieldAt: */
static bool element(void)
{
    struct object *object = object_of(receiver(1));
    value index = argument(0, 1);
    if (is_integer(value_of(object)) || !is_index(index, object))
        return false;
    size_t i = (size_t)integer_of(index) - 1;
    if (object->kind == KIND_BYTES)
        return answer(1, integer_value((unsigned char)bytes_of(object)[i]));
    return answer(1, object->slots[i]);
}

/* at:put:, fieldAt:put: */
static bool set_element(void)
{
    struct object *object = object_of(receiver(2));
    value index = argument(0, 2), v = argument(1, 2);
    if (is_integer(value_of(object)) || !is_index(index, object) || object->kind == KIND_FRAME)
        return false;
    size_t i = (size_t)integer_of(index) - 1;
    if (object->kind == KIND_BYTES)
        bytes_of(object)[i] = (char)integer_of(v);
    else
        store(object, i, v);
    return answer(2, v);
}

static bool block_value(size_t arguments)
{
    value block = receiver(arguments);
    if (class_of(block) != image.block_class ||
        field_integer(block, BLOCK_ARGUMENTS) != (int64_t)arguments)
        return false;
    value method = object_of(object_of(block)->slots[BLOCK_HOME])->slots[FRAME_METHOD];
    save();
    struct object *frame =
        new_frame(0, (size_t)field_integer(method, METHOD_STACK), field_integer(block, BLOCK_PC));
    load();
    struct object *object = object_of(receiver(arguments));
    struct object *home = object_of(object->slots[BLOCK_HOME]);
    value *variables = &home->slots[FRAME_SLOTS + integer_of(object->slots[BLOCK_FIRST])];
    for (size_t i = arguments; i-- > 0;)
        variables[i] = pop();
    pop();
    frame->slots[FRAME_RECEIVER] = home->slots[FRAME_RECEIVER];
    frame->slots[FRAME_METHOD] = home->slots[FRAME_METHOD];
    frame->slots[FRAME_HOME] = value_of(home);
    save();
    make_active(frame);
    return true;
}

/* replaceFrom:to:with:startingAt:, of bytes */
static bool replace_bytes(void)
{
    struct object *to = object_of(receiver(4)), *from = object_of(argument(2, 4));
    int64_t first = integer_of(argument(0, 4)), last = integer_of(argument(1, 4));
    int64_t start = integer_of(argument(3, 4));
    if (to->kind != KIND_BYTES || from->kind != KIND_BYTES || first < 1 || start < 1 ||
        last > (int64_t)to->size || start + last - first > (int64_t)from->size)
        return false;
    if (last >= first)
        memmove(bytes_of(to) + first - 1, bytes_of(from) + start - 1, (size_t)(last - first + 1));
    return answer(4, value_of(to));
}

static bool same_text(void)
{
    value left = receiver(1), right = argument(0, 1);
    bool same = left == right;
    if (!same && !is_integer(right) && object_of(right)->kind == KIND_BYTES) {
        struct object *a = object_of(left), *b = object_of(right);
        same = a->size == b->size && memcmp(bytes_of(a), bytes_of(b), a->size) == 0;
    }
    return answer(1, boolean(same));
}

static bool text_hash(void)
{
    struct object *text = object_of(receiver(0));
    uint32_t hash = 5381;
    for (size_t i = 0; i < text->size; i++)
        hash = hash * 33 + (unsigned char)bytes_of(text)[i];
    return answer(0, integer_value(hash));
}

static bool as_symbol(void)
{
    struct object *text = object_of(receiver(0));
    return answer(0, symbol_of(bytes_of(text), text->size));
}

static bool global(void)
{
    value association = global_named(argument(0, 1));
    return answer(1, association ? association : image.nil);
}

static bool print(void)
{
    print_text(stdout, argument(0, 1));
    putchar('\n');
    return answer(1, receiver(1));
}

static bool flush_cache(void)
{
    empty_cache();
    return true;
}

static bool begin(void)
{
    save();
    measure_begin();
    load();
    return true;
}

enum primitive_number {
    P_NEW = 1,
    P_CLASS,
    P_AT,
    P_PUT,
    P_SIZE,
    P_VALUE,
    P_SYMBOL,
    P_REPLACE,
    P_FLUSH,
    P_PRINT,
    P_ERROR,
    P_SAME_TEXT,
    P_HASH,
    P_GLOBAL,
    P_RANDOM,
    P_BEGIN,
    P_END
};

static bool primitive(int64_t number, size_t arguments)
{
    switch ((enum primitive_number)number) {
    case P_NEW:
        return make_object(arguments);
    case P_CLASS:
        return answer(0, class_of(receiver(0)));
    case P_AT:
        return element();
    case P_PUT:
        return set_element();
    case P_SIZE:
        return answer(0, integer_value(object_of(receiver(0))->size));
    case P_VALUE:
        return block_value(arguments);
    case P_SYMBOL:
        return as_symbol();
    case P_REPLACE:
        return replace_bytes();
    case P_FLUSH:
        return flush_cache();
    case P_PRINT:
        return print();
    case P_ERROR:
        stop("error:", argument(0, 1));
    case P_SAME_TEXT:
        return same_text();
    case P_HASH:
        return text_hash();
    case P_GLOBAL:
        return global();
    case P_RANDOM: {
        uint64_t limit = (uint64_t)integer_of(argument(0, 1));
        return answer(1, integer_value((int64_t)random_below(&machine.random, limit)));
    }
    case P_BEGIN:
        return begin();
    case P_END:
        measure_end();
        return true;
    }
    return false;
}

/* Bytecodes. */

static inline uint8_t byte(void)
{
    return *machine.pc++;
}

static inline size_t target(void)
{
    size_t high = byte();
    return high << 8 | byte();
}

static inline void jump_if(value condition)
{
    size_t to = target();
    if (pop() == condition)
        machine.pc = machine.code + to;
}

static void push_block(void)
{
    size_t arguments = byte(), first = byte(), end = target();
    save();
    struct object *block = allocate(image.block_class, KIND_FRAME, BLOCK_SLOTS, image.nil);
    load();
    block->slots[BLOCK_HOME] = value_of(machine.home);
    block->slots[BLOCK_PC] = integer_value(machine.pc - machine.code);
    block->slots[BLOCK_ARGUMENTS] = integer_value((int64_t)arguments);
    block->slots[BLOCK_FIRST] = integer_value((int64_t)first);
    push(value_of(block));
    machine.pc = machine.code + end;
}

/* Floors, as Smalltalk's // and \\ do. */
static bool divide(int64_t a, int64_t b, bool remainder, int64_t *result)
{
    if (b == 0)
        return false;
    int64_t quotient = a / b, rest = a % b;
    if (rest != 0 && (rest < 0) != (b < 0)) {
        quotient--;
        rest += b;
    }
    *result = remainder ? rest : quotient;
    return true;
}

/* The result of an operator on two integers; 0 if it has none that fits. */
static value operate(enum operator_index operator, int64_t a, int64_t b)
{
    int64_t result;
    bool fits = true;
    switch (operator) {
    case PLUS:
        result = a + b;
        break;
    case MINUS:
        result = a - b;
        break;
    case TIMES:
        fits = !__builtin_mul_overflow(a, b, &result);
        break;
    case LESS:
        return boolean(a < b);
    case GREATER:
        return boolean(a > b);
    case LESS_EQUAL:
        return boolean(a <= b);
    case GREATER_EQUAL:
        return boolean(a >= b);
    case EQUAL:
        return boolean(a == b);
    case NOT_EQUAL:
        return boolean(a != b);
    case QUOTIENT:
        fits = divide(a, b, false, &result);
        break;
    case REMAINDER:
        fits = divide(a, b, true, &result);
        break;
    default:
        return 0;
    }
    return fits && result >= INT64_MIN / 2 && result <= INT64_MAX / 2 ? integer_value(result) : 0;
}

static inline void apply_operator(enum operator_index operator)
{
    value left = machine.sp[-2], right = machine.sp[-1], result = 0;
    if (operator== SAME)
        result = boolean(left == right);
    else if (is_integer(left) && is_integer(right))
        result = operate(operator, integer_of(left), integer_of(right));
    if (result)
        answer(1, result);
    else
        send(image.operators[operator], 1);
}

static inline void send_next(bool to_super)
{
    value selector = literal(byte());
    size_t arguments = byte();
    if (to_super)
        send_super(selector, arguments);
    else
        send(selector, arguments);
}

/* The opcodes that push a value, up to OP_GLOBAL. */
static inline value operand(enum opcode op)
{
    switch (op) {
    case OP_SELF:
        return machine.active->slots[FRAME_RECEIVER];
    case OP_NIL:
        return image.nil;
    case OP_TRUE:
        return image.true_value;
    case OP_FALSE:
        return image.false_value;
    case OP_TEMP:
        return machine.home->slots[FRAME_SLOTS + byte()];
    case OP_FIELD:
        return object_of(machine.active->slots[FRAME_RECEIVER])->slots[byte()];
    case OP_LITERAL:
        return literal(byte());
    default:
        return object_of(literal(byte()))->slots[ASSOCIATION_VALUE];
    }
}

static inline void set_variable(enum opcode op)
{
    if (op == OP_SET_TEMP)
        machine.home->slots[FRAME_SLOTS + byte()] = machine.sp[-1];
    else if (op == OP_SET_FIELD)
        store(object_of(machine.active->slots[FRAME_RECEIVER]), byte(), machine.sp[-1]);
    else
        store(object_of(literal(byte())), ASSOCIATION_VALUE, machine.sp[-1]);
}

static inline void jump(enum opcode op)
{
    if (op == OP_JUMP)
        machine.pc = machine.code + target();
    else
        jump_if(op == OP_JUMP_TRUE ? image.true_value : image.false_value);
}

static void execute(void)
{
    while (!machine.finished) {
        enum opcode op = (enum opcode)byte();
        switch (op) {
        case OP_SET_TEMP:
        case OP_SET_FIELD:
        case OP_SET_GLOBAL:
            set_variable(op);
            break;
        case OP_POP:
            machine.sp--;
            break;
        case OP_SEND:
        case OP_SUPER:
            send_next(op == OP_SUPER);
            break;
        case OP_RETURN:
            return_from_home();
            break;
        case OP_BLOCK_RETURN:
            resume(machine.active->slots[FRAME_SENDER], pop());
            break;
        case OP_BLOCK:
            push_block();
            break;
        case OP_JUMP:
        case OP_JUMP_FALSE:
        case OP_JUMP_TRUE:
            jump(op);
            break;
        case OP_OPERATOR:
            apply_operator((enum operator_index)byte());
            break;
        default:
            push(operand(op));
        }
    }
}

void interpret_open(void)
{
    machine.frame = machine.method = image.nil;
    machine.random = 1;
    root_add(&machine.frame);
    root_add(&machine.method);
    on_scavenge(empty_cache);
}

value interpret(const char *class_name, const char *selector, value argument)
{
    value association = global_named(symbol_of(class_name, strlen(class_name)));
    if (!association)
        heap_fail("the program has no such class");
    struct object *class = object_of(object_of(association)->slots[ASSOCIATION_VALUE]);
    value method = find_method(value_of(class), symbol_of(selector, strlen(selector)));
    struct object *object = allocate_old(value_of(class), KIND_SLOTS,
                                         (size_t)integer_of(class->slots[CLASS_SIZE]), image.nil);
    struct object *frame = new_frame((size_t)field_integer(method, METHOD_TEMPS),
                                     (size_t)field_integer(method, METHOD_STACK), 0);
    frame->slots[FRAME_SLOTS] = argument;
    frame->slots[FRAME_RECEIVER] = value_of(object);
    frame->slots[FRAME_METHOD] = method;
    frame->slots[FRAME_HOME] = value_of(frame);
    machine.finished = false;
    make_active(frame);
    execute();
    return machine.method;
}
