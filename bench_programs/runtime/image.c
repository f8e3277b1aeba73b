/* SPDX-License-Identifier: MIT
 *
 * image.c: see image.h.
 */
#include "bench_programs/runtime/image.h"

#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_SYMBOLS = 8192, MOST_GLOBALS = 256, MOST_METHODS = 64, MOST_FIELDS = 32 };

struct image image;
const char *const operators[OPERATORS] = {
    "+", "-", "*", "<", ">", "<=", ">=", "=", "~=", "==", "//", "\\\\"};

static value symbols[MOST_SYMBOLS]; /* a hash table; 0 where there is none */
static value globals[MOST_GLOBALS]; /* all old */
static size_t global_count;

static bool has_text(value symbol, const char *text, size_t length)
{
    struct object *object = object_of(symbol);
    return object->size == length && memcmp(bytes_of(object), text, length) == 0;
}

value symbol_of(const char *text, size_t length)
{
    size_t hash = 5381;
    for (size_t i = 0; i < length; i++)
        hash = hash * 33 + (unsigned char)text[i];
    for (size_t i = 0; i < MOST_SYMBOLS; i++) {
        value *entry = &symbols[(hash + i) % MOST_SYMBOLS];
        if (*entry && !has_text(*entry, text, length))
            continue;
        if (!*entry) {
            struct object *symbol = allocate_old(image.symbol_class, KIND_BYTES, length, 0);
            memcpy(bytes_of(symbol), text, length);
            *entry = value_of(symbol);
        }
        return *entry;
    }
    heap_fail("too many symbols");
}

value global_named(value symbol)
{
    for (size_t i = 0; i < global_count; i++)
        if (object_of(globals[i])->slots[ASSOCIATION_KEY] == symbol)
            return globals[i];
    return 0;
}

static value add_global(value symbol, value content)
{
    if (global_count == MOST_GLOBALS)
        heap_fail("too many globals");
    struct object *association =
        allocate_old(image.association_class, KIND_SLOTS, ASSOCIATION_SLOTS, content);
    association->slots[ASSOCIATION_KEY] = symbol;
    globals[global_count++] = value_of(association);
    return value_of(association);
}

static value class_named(const char *text, size_t length)
{
    value symbol = symbol_of(text, length);
    value association = global_named(symbol);
    if (association)
        return object_of(association)->slots[ASSOCIATION_VALUE];
    struct object *class = allocate_old(image.class_class, KIND_SLOTS, CLASS_SLOTS, image.nil);
    class->slots[CLASS_NAME] = symbol;
    class->slots[CLASS_METHOD_COUNT] = class->slots[CLASS_SIZE] = integer_value(0);
    class->slots[CLASS_KIND] = integer_value(KIND_SLOTS);
    class->slots[CLASS_METHODS] =
        value_of(allocate_old(image.array_class, KIND_SLOTS, 2 * MOST_METHODS, image.nil));
    class->slots[CLASS_FIELDS] =
        value_of(allocate_old(image.array_class, KIND_SLOTS, 0, image.nil));
    add_global(symbol, value_of(class));
    return value_of(class);
}

static value known_class(const char *name)
{
    return class_named(name, strlen(name));
}

/* The first objects have no class yet, and the first classes no name: both are set when there are
 * classes and names. */
void image_open(void)
{
    image.nil = value_of(allocate_old(0, KIND_SLOTS, 0, 0));
    image.class_class = value_of(allocate_old(0, KIND_SLOTS, CLASS_SLOTS, image.nil));
    image.symbol_class =
        value_of(allocate_old(image.class_class, KIND_SLOTS, CLASS_SLOTS, image.nil));
    image.array_class = image.association_class = image.class_class; /* mended below */
    size_t first = global_count;
    value class = known_class("Class"), symbol = known_class("Symbol");
    memcpy(object_of(image.class_class)->slots, object_of(class)->slots,
           CLASS_SLOTS * sizeof(value));
    memcpy(object_of(image.symbol_class)->slots, object_of(symbol)->slots,
           CLASS_SLOTS * sizeof(value));
    object_of(globals[first])->slots[ASSOCIATION_VALUE] = image.class_class;
    object_of(globals[first + 1])->slots[ASSOCIATION_VALUE] = image.symbol_class;
    image.array_class = known_class("Array");
    image.association_class = known_class("Association");
    for (size_t i = 0; i < global_count; i++) {
        struct object *made = object_of(object_of(globals[i])->slots[ASSOCIATION_VALUE]);
        object_of(globals[i])->class = image.association_class;
        object_of(made->slots[CLASS_METHODS])->class = image.array_class;
        object_of(made->slots[CLASS_FIELDS])->class = image.array_class;
    }
    object_of(class)->class = object_of(symbol)->class = image.class_class;
    object_of(image.class_class)->class = image.class_class;
    image.string_class = known_class("String");
    image.method_class = known_class("Method");
    image.block_class = known_class("Block");
    image.frame_class = known_class("Frame");
    image.integer_class = known_class("Integer");
    object_of(image.nil)->class = known_class("Nil");
    image.true_value = value_of(allocate_old(known_class("True"), KIND_SLOTS, 0, 0));
    image.false_value = value_of(allocate_old(known_class("False"), KIND_SLOTS, 0, 0));
    for (int i = 0; i < OPERATORS; i++)
        image.operators[i] = symbol_of(operators[i], strlen(operators[i]));
    object_of(image.frame_class)->slots[CLASS_KIND] = integer_value(KIND_FRAME);
    object_of(image.block_class)->slots[CLASS_KIND] = integer_value(KIND_FRAME);
}

/* Source files. */

/* The one that is being loaded. */
static struct {
    const char *file, *text;
} source;

void image_wrong(const char *at, const char *format, ...)
{
    size_t line = 1;
    for (const char *before = source.text; before < at; before++)
        line += *before == '\n';
    fprintf(stderr, "runtime: %s:%zu: ", source.file, line);
    va_list words;
    va_start(words, format);
    vfprintf(stderr, format, words);
    va_end(words);
    fputc('\n', stderr);
    exit(2);
}

static char *text_of(const char *file)
{
    FILE *stream = fopen(file, "r");
    long length = stream && fseek(stream, 0, SEEK_END) == 0 ? ftell(stream) : -1;
    bool is_file = length >= 0 && length < LONG_MAX; /* of a folder it is that */
    char *text = is_file ? calloc((size_t)length + 1, 1) : NULL;
    if (text)
        rewind(stream);
    if (!text || fread(text, 1, (size_t)length, stream) != (size_t)length) {
        fprintf(stderr, "runtime: %s cannot be read; give a source file\n", file);
        exit(2);
    }
    fclose(stream);
    source.file = file;
    source.text = text;
    if (strlen(text) != (size_t)length)
        image_wrong(text + strlen(text), "a zero byte; give a source file, which is text");
    return text;
}

/* Declarations. */

static size_t word_length(const char *text)
{
    return strcspn(text, " \n");
}

static const char *next_word(const char *text)
{
    text += word_length(text);
    return text + strspn(text, " ");
}

/* class NAME SUPERCLASS FIELD...; returns the class. */
static value declare_class(const char *line, enum kind kind)
{
    value fields[MOST_FIELDS];
    size_t count = 0;
    const char *word = next_word(line), *super_word = next_word(word);
    if (word_length(word) == 0 || word_length(super_word) == 0)
        image_wrong(line, "give a name and a superclass");
    struct object *class = object_of(class_named(word, word_length(word)));
    word = super_word;
    value super = image.nil;
    if (strncmp(word, "nil", 3) != 0) {
        super = class_named(word, word_length(word));
        struct object *inherited = object_of(object_of(super)->slots[CLASS_FIELDS]);
        for (; count < inherited->size; count++)
            fields[count] = inherited->slots[count];
    }
    while (word[word_length(word)] == ' ' && count < MOST_FIELDS) {
        word = next_word(word);
        fields[count++] = symbol_of(word, word_length(word));
    }
    struct object *array = allocate_old(image.array_class, KIND_SLOTS, count, image.nil);
    memcpy(array->slots, fields, count * sizeof *fields);
    class->slots[CLASS_SUPER] = super;
    class->slots[CLASS_FIELDS] = value_of(array);
    class->slots[CLASS_SIZE] = integer_value((int64_t)count);
    if (class->slots[CLASS_KIND] != integer_value(KIND_FRAME))
        class->slots[CLASS_KIND] = integer_value(kind);
    return value_of(class);
}

value method_in(value class, value selector)
{
    struct object *methods = object_of(object_of(class)->slots[CLASS_METHODS]);
    for (size_t i = 0; i < methods->size && methods->slots[i] != image.nil; i += 2)
        if (methods->slots[i] == selector)
            return methods->slots[i + 1];
    return image.nil;
}

static void add_method(value class, value method)
{
    struct object *owner = object_of(class);
    size_t count = (size_t)integer_of(owner->slots[CLASS_METHOD_COUNT]);
    if (count == MOST_METHODS)
        heap_fail("too many methods in a class");
    struct object *methods = object_of(owner->slots[CLASS_METHODS]);
    methods->slots[2 * count] = object_of(method)->slots[METHOD_SELECTOR];
    methods->slots[2 * count + 1] = method;
    owner->slots[CLASS_METHOD_COUNT] = integer_value((int64_t)count + 1);
}

static bool begins_declaration(const char *line)
{
    return !strncmp(line, "class ", 6) || !strncmp(line, "bytes ", 6) || !strncmp(line, "def ", 4);
}

static const char *next_declaration(const char *text)
{
    do {
        text += strcspn(text, "\n");
        text += *text == '\n';
    } while (*text && !begins_declaration(text));
    return text;
}

/* The classes, as an array of the image, for programs that look through it. */
static void set_classes(void)
{
    struct object *array = allocate_old(image.array_class, KIND_SLOTS, MOST_GLOBALS, image.nil);
    size_t count = 0;
    value name = symbol_of("Classes", 7), association = global_named(name);
    for (size_t i = 0; i < global_count; i++) {
        value content = object_of(globals[i])->slots[ASSOCIATION_VALUE];
        if (object_of(content)->class == image.class_class)
            array->slots[count++] = content;
    }
    if (association)
        object_of(association)->slots[ASSOCIATION_VALUE] = value_of(array);
    else
        add_global(name, value_of(array));
}

void image_load(const char *file)
{
    char *text = text_of(file);
    value class = image.nil;
    const char *at = begins_declaration(text) ? text : next_declaration(text);
    if (!*at)
        image_wrong(text, "no line begins with class, bytes or def; give a source file");
    for (const char *end; *at; at = end) { /* classes first: methods name them */
        end = next_declaration(at);
        if (strncmp(at, "def ", 4) != 0)
            declare_class(at, *at == 'b' ? KIND_BYTES : KIND_SLOTS);
    }
    set_classes();
    at = begins_declaration(text) ? text : next_declaration(text);
    for (const char *end; *at; at = end) {
        end = next_declaration(at);
        if (strncmp(at, "def ", 4) != 0) {
            const char *name = next_word(at);
            class = class_named(name, word_length(name));
        } else {
            if (class == image.nil)
                image_wrong(at, "a method before the first class; put the class before it");
            add_method(class, compile_method(class, at + 4, (size_t)(end - at) - 4));
        }
    }
    free(text);
}
