/* SPDX-License-Identifier: MIT
 *
 * image.h: the objects that the interpreter knows, and how they come out of source files.
 *
 * A source file is a list of declarations, each of which begins a line:
 *
 *     class NAME SUPERCLASS FIELD...      its objects have these fields, after the inherited ones
 *     bytes NAME SUPERCLASS               its objects hold bytes
 *     def METHOD                          a method of that class, up to the next declaration
 *
 * The language is that of Smalltalk without cascades, metaclasses, characters (they are integers)
 * and variables of blocks; `<n>` before a method's first statement is a primitive. Everything that
 * is loaded is old from the start: the image.
 */
#ifndef ALLOTROPE_BENCH_PROGRAMS_RUNTIME_IMAGE_H
#define ALLOTROPE_BENCH_PROGRAMS_RUNTIME_IMAGE_H

#include "bench_programs/runtime/heap.h"

/* The fields of objects that the interpreter looks into, as kernel.st declares them. */
enum class_field {
    CLASS_NAME,
    CLASS_SUPER,
    CLASS_METHODS, /* an array: selector, method, selector, method, ... nil */
    CLASS_METHOD_COUNT,
    CLASS_SIZE,
    CLASS_FIELDS,
    CLASS_KIND,
    CLASS_SLOTS
};
enum method_field {
    METHOD_CODE,
    METHOD_LITERALS,
    METHOD_SELECTOR,
    METHOD_OWNER,
    METHOD_ARGUMENTS,
    METHOD_TEMPS, /* arguments included */
    METHOD_STACK,
    METHOD_PRIMITIVE,
    METHOD_SOURCE,
    METHOD_SLOTS
};
enum block_field { BLOCK_HOME, BLOCK_PC, BLOCK_ARGUMENTS, BLOCK_FIRST, BLOCK_SLOTS };
enum frame_field {
    FRAME_SENDER,
    FRAME_PC,
    FRAME_SP,
    FRAME_METHOD,
    FRAME_RECEIVER,
    FRAME_HOME, /* the method's frame, where the variables are: itself, or a block's */
    FRAME_SLOTS /* then variables, then the stack */
};
enum association_field { ASSOCIATION_KEY, ASSOCIATION_VALUE, ASSOCIATION_SLOTS };

enum opcode {
    OP_SELF,
    OP_NIL,
    OP_TRUE,
    OP_FALSE,
    OP_TEMP,       /* index */
    OP_FIELD,      /* index */
    OP_LITERAL,    /* index */
    OP_GLOBAL,     /* index of an association among the literals */
    OP_SET_TEMP,   /* index; the value stays on the stack, here and below */
    OP_SET_FIELD,  /* index */
    OP_SET_GLOBAL, /* index */
    OP_POP,
    OP_SEND,   /* index of the selector, count of arguments */
    OP_SUPER,  /* likewise */
    OP_RETURN, /* from the method, also in a block */
    OP_BLOCK_RETURN,
    OP_BLOCK, /* count of arguments, first variable, where it ends: two bytes */
    OP_JUMP,  /* where to: two bytes, high byte first */
    OP_JUMP_FALSE,
    OP_JUMP_TRUE,
    OP_OPERATOR /* and an index into `operators`: integers at once, others by a send */
};

enum operator_index {
    PLUS,
    MINUS,
    TIMES,
    LESS,
    GREATER,
    LESS_EQUAL,
    GREATER_EQUAL,
    EQUAL,
    NOT_EQUAL,
    SAME,
    QUOTIENT,
    REMAINDER,
    OPERATORS
};
extern const char *const operators[OPERATORS];

struct image {
    value nil, true_value, false_value;
    value class_class, symbol_class, array_class, string_class, method_class, block_class;
    value frame_class, association_class, integer_class;
    value operators[OPERATORS]; /* as symbols */
};
extern struct image image;

void image_open(void);

/* Loads a source file; ends the program with a line that says where it is wrong. */
void image_load(const char *file);

/* Says what is wrong at a place of the source file that is being loaded, and ends the program with
 * status 2. */
_Noreturn void image_wrong(const char *at, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* The one symbol of this text. Symbols are old and stay. */
value symbol_of(const char *text, size_t length);

/* The association of a global variable, or 0. */
value global_named(value symbol);

/* Compiles the text of a method of a class to a method in the old generation. */
value compile_method(value class, const char *text, size_t length);

/* The method that a class has for a selector itself, or nil. */
value method_in(value class, value selector);

#endif
