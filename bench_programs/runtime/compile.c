/* SPDX-License-Identifier: MIT
 *
 * compile.c: from the text of a method to bytecodes.
 *
 * One pass over the tokens, by recursive descent; the code is emitted on the way. The blocks of
 * ifTrue:, and:, whileTrue: and their like become jumps. Blocks have no variables of their own:
 * their arguments are further variables of the method, as in Goldberg & Robson's definition.
 *
 * This compiler loads the image. The one that the benchmark runs is written in the language itself
 * (compiler.st) and must emit the same bytecodes: a test compares them for each method.
 */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench_programs/runtime/image.h"

enum { MOST_TOKENS = 2000, MOST_CODE = 4000, MOST_LITERALS = 250, MOST_VARIABLES = 100 };

enum token_kind { T_NAME, T_KEYWORD, T_NUMBER, T_STRING, T_SYMBOL, T_OPERATOR, T_MARK, T_END };

struct token {
    enum token_kind kind;
    const char *text;
    size_t length;
};

static struct {
    struct token tokens[MOST_TOKENS];
    size_t count, at;
    uint8_t code[MOST_CODE];
    size_t size;
    value literals[MOST_LITERALS];
    size_t literal_count;
    struct token variables[MOST_VARIABLES];
    size_t variable_count;
    int depth, deepest; /* of the stack */
    value class;
    const char *text;
    size_t text_length;
} c;

static _Noreturn void wrong(const char *what)
{
    const struct token *token = &c.tokens[c.at];
    if (token->kind == T_END)
        image_wrong(token->text - 1, "%s at the end of the method", what);
    image_wrong(token->text, "%s before '%.*s'", what, (int)token->length, token->text);
}

/* Tokens. */

static const char OPERATOR_LETTERS[] = "+-*/\\<>=~,@&|";

static void add_token(enum token_kind kind, const char *text, const char *end)
{
    if (c.count == MOST_TOKENS)
        wrong("too many tokens");
    c.tokens[c.count++] = (struct token){kind, text, (size_t)(end - text)};
}

static const char *name_end(const char *at)
{
    while (isalnum((unsigned char)*at) || *at == ':')
        if (*at++ == ':' && *at == '=')
            return at - 1;
    return at;
}

/* The place of the mark that ends what begins at `start`, from `at` to the end of the method. */
static const char *mark_end(const char *start, const char *at, const char *what)
{
    const char *end = memchr(at, *start, (size_t)(c.text + c.text_length - at));
    if (!end)
        image_wrong(start, "%s does not end in its method; close it with %c", what, *start);
    return end;
}

static const char *string_end(const char *start)
{
    const char *end = mark_end(start, start + 1, "a string");
    while (end[1] == '\'') /* a quote in the string */
        end = mark_end(start, end + 2, "a string");
    return end;
}

static const char *scan_name(const char *at)
{
    const char *end = at;
    while (isalnum((unsigned char)*end))
        end++;
    if (*end == ':' && end[1] != '=')
        add_token(T_KEYWORD, at, ++end);
    else
        add_token(T_NAME, at, end);
    return end;
}

static const char *scan_symbol(const char *at)
{
    const char *end =
        isalpha((unsigned char)*at) ? name_end(at) : at + strspn(at, OPERATOR_LETTERS);
    add_token(T_SYMBOL, at, end);
    return end;
}

static const char *scan_token(const char *at)
{
    const char *end = at + 1;
    if (*at == '"')
        return mark_end(at, end, "a comment") + 1;
    if (isalpha((unsigned char)*at))
        return scan_name(at);
    if (*at == '#')
        return scan_symbol(end);
    if (*at == '\'') {
        end = string_end(at);
        add_token(T_STRING, at + 1, end);
        return end + 1;
    }
    if (*at == '$') {
        add_token(T_NUMBER, at, at + 2);
        return at + 2;
    }
    if (isdigit((unsigned char)*at)) {
        end = at + strspn(at, "0123456789");
        add_token(T_NUMBER, at, end);
    } else if (strchr(OPERATOR_LETTERS, *at)) {
        end = at + (*at == '|' ? 1 : strspn(at, OPERATOR_LETTERS));
        add_token(T_OPERATOR, at, end);
    } else {
        end = at + (at[0] == ':' && at[1] == '=' ? 2 : 1);
        add_token(T_MARK, at, end);
    }
    return end;
}

static void scan(void)
{
    const char *end = c.text + c.text_length;
    c.count = c.at = 0;
    for (const char *at = c.text; at < end;)
        at = isspace((unsigned char)*at) ? at + 1 : scan_token(at);
    add_token(T_END, end, end);
}

static struct token *peek(void)
{
    return &c.tokens[c.at];
}

static bool token_is(const struct token *token, const char *text)
{
    return (token->kind == T_MARK || token->kind == T_OPERATOR || token->kind == T_KEYWORD) &&
           token->length == strlen(text) && memcmp(token->text, text, token->length) == 0;
}

static bool name_is(const struct token *token, const char *text)
{
    return token->length == strlen(text) && memcmp(token->text, text, token->length) == 0;
}

static bool accept(const char *text)
{
    if (!token_is(peek(), text))
        return false;
    c.at++;
    return true;
}

static void expect(const char *text)
{
    if (accept(text))
        return;
    char what[32];
    snprintf(what, sizeof what, "%s is missing", text);
    wrong(what);
}

static struct token *take(enum token_kind kind)
{
    if (peek()->kind != kind)
        wrong("something else was expected");
    return &c.tokens[c.at++];
}

/* Code. */

static void emit(int byte)
{
    if (c.size == MOST_CODE)
        wrong("too much code");
    c.code[c.size++] = (uint8_t)byte;
}

/* An instruction that changes the stack's depth by so much. */
static void emit_op(enum opcode op, int change)
{
    emit(op);
    c.depth += change;
    if (c.depth > c.deepest)
        c.deepest = c.depth;
}

static void emit_indexed(enum opcode op, int change, size_t index)
{
    emit_op(op, change);
    emit((int)index);
}

static void put_target(size_t at)
{
    c.code[at] = (uint8_t)(c.size >> 8);
    c.code[at + 1] = (uint8_t)c.size;
}

/* A jump to a place that put_target tells later; returns where. */
static size_t emit_jump(enum opcode op)
{
    emit_op(op, op == OP_JUMP ? 0 : -1);
    emit(0);
    emit(0);
    return c.size - 2;
}

static void emit_jump_back(size_t target)
{
    emit_op(OP_JUMP, 0);
    emit((int)(target >> 8));
    emit((int)target);
}

/* Symbols and globals are entered once; integers and strings each time. */
static size_t literal(value v, bool once)
{
    for (size_t i = 0; once && i < c.literal_count; i++)
        if (c.literals[i] == v)
            return i;
    if (c.literal_count == MOST_LITERALS)
        wrong("too many literals");
    c.literals[c.literal_count] = v;
    return c.literal_count++;
}

static void emit_send(value selector, size_t arguments)
{
    for (int i = 0; i < OPERATORS; i++)
        if (image.operators[i] == selector) {
            emit_indexed(OP_OPERATOR, -1, (size_t)i);
            return;
        }
    emit_indexed(OP_SEND, -(int)arguments, literal(selector, true));
    emit((int)arguments);
}

/* Names. */

static int variable_index(const struct token *name)
{
    for (int i = (int)c.variable_count - 1; i >= 0; i--)
        if (c.variables[i].length == name->length &&
            memcmp(c.variables[i].text, name->text, name->length) == 0)
            return i;
    return -1;
}

static int field_index(value symbol)
{
    struct object *fields = object_of(object_of(c.class)->slots[CLASS_FIELDS]);
    for (int i = 0; i < (int)fields->size; i++)
        if (fields->slots[i] == symbol)
            return i;
    return -1;
}

static void add_variable(struct token *name)
{
    if (c.variable_count == MOST_VARIABLES)
        wrong("too many variables");
    c.variables[c.variable_count++] = *name;
}

static void emit_variable(const struct token *name, bool set)
{
    value symbol = symbol_of(name->text, name->length);
    int variable = variable_index(name), field = field_index(symbol);
    if (variable >= 0) {
        emit_indexed(set ? OP_SET_TEMP : OP_TEMP, !set, (size_t)variable);
    } else if (field >= 0) {
        emit_indexed(set ? OP_SET_FIELD : OP_FIELD, !set, (size_t)field);
    } else {
        value global = global_named(symbol);
        if (!global)
            image_wrong(name->text, "an unknown variable: %.*s", (int)name->length, name->text);
        emit_indexed(set ? OP_SET_GLOBAL : OP_GLOBAL, !set, literal(global, true));
    }
}

static void emit_name(const struct token *name)
{
    static const struct {
        const char *name;
        enum opcode op;
    } constants[] = {{"self", OP_SELF},
                     {"super", OP_SELF},
                     {"nil", OP_NIL},
                     {"true", OP_TRUE},
                     {"false", OP_FALSE}};
    for (size_t i = 0; i < sizeof constants / sizeof *constants; i++)
        if (name_is(name, constants[i].name)) {
            emit_op(constants[i].op, 1);
            return;
        }
    emit_variable(name, false);
}

/* Expressions. */

static void expression(void);

/* Up to the mark that ends it: ']' or the end. The last value stays on the stack. */
static void statements(void)
{
    if (token_is(peek(), "]"))
        emit_op(OP_NIL, 1);
    while (!token_is(peek(), "]") && peek()->kind != T_END) {
        bool returns = accept("^");
        expression();
        if (returns)
            emit(OP_RETURN);
        bool more = accept(".") && !token_is(peek(), "]") && peek()->kind != T_END;
        if (more)
            emit_op(OP_POP, -1);
    }
}

static void inlined_block(void)
{
    expect("[");
    statements();
    expect("]");
}

static void real_block(void)
{
    size_t first = c.variable_count, arguments = 0;
    int depth = c.depth;
    while (accept(":")) {
        add_variable(take(T_NAME));
        arguments++;
    }
    if (arguments)
        expect("|");
    emit_op(OP_BLOCK, 1);
    emit((int)arguments);
    emit((int)first);
    emit(0);
    emit(0);
    size_t target = c.size - 2;
    c.depth = 0;
    statements();
    expect("]");
    emit_op(OP_BLOCK_RETURN, 0);
    put_target(target);
    c.depth = depth + 1;
}

/* The token behind the bracket that closes the one at c.at. */
static struct token *behind_block(void)
{
    size_t at = c.at, open = 0;
    do {
        open += token_is(&c.tokens[at], "[");
        open -= token_is(&c.tokens[at], "]");
        if (c.tokens[at].kind == T_END)
            wrong("a block does not end");
        at++;
    } while (open);
    return &c.tokens[at];
}

/* [condition] whileTrue: [body]; its value is nil. */
static void loop(void)
{
    size_t start = c.size;
    inlined_block();
    struct token *keyword = take(T_KEYWORD);
    size_t end = emit_jump(name_is(keyword, "whileTrue:") ? OP_JUMP_FALSE : OP_JUMP_TRUE);
    inlined_block();
    emit_op(OP_POP, -1);
    emit_jump_back(start);
    put_target(end);
    emit_op(OP_NIL, 1);
}

static void literal_token(struct token *token)
{
    value v;
    if (token->kind == T_NUMBER)
        v = integer_value(*token->text == '$' ? token->text[1] : atol(token->text));
    else if (token->kind == T_SYMBOL)
        v = symbol_of(token->text, token->length);
    else {
        struct object *string = allocate_old(image.string_class, KIND_BYTES, token->length, 0);
        memcpy(bytes_of(string), token->text, token->length);
        v = value_of(string);
    }
    emit_indexed(OP_LITERAL, 1, literal(v, token->kind == T_SYMBOL));
}

/* Whether what was parsed is `super`. */
static bool primary(void)
{
    struct token *token = peek();
    if (token_is(token, "[")) {
        struct token *next = behind_block();
        if (token_is(next, "whileTrue:") || token_is(next, "whileFalse:")) {
            loop();
        } else {
            c.at++;
            real_block();
        }
        return false;
    }
    if (accept("(")) {
        expression();
        expect(")");
        return false;
    }
    if (token->kind == T_NAME)
        emit_name(token);
    else if (token->kind == T_NUMBER || token->kind == T_STRING || token->kind == T_SYMBOL)
        literal_token(token);
    else
        wrong("an expression is missing");
    c.at++;
    return token->kind == T_NAME && name_is(token, "super");
}

static void send(value selector, size_t arguments, bool to_super)
{
    if (!to_super) {
        emit_send(selector, arguments);
        return;
    }
    emit_indexed(OP_SUPER, -(int)arguments, literal(selector, true));
    emit((int)arguments);
}

static bool unary(void)
{
    bool to_super = primary();
    while (peek()->kind == T_NAME) {
        struct token *name = take(T_NAME);
        send(symbol_of(name->text, name->length), 0, to_super);
        to_super = false;
    }
    return to_super;
}

static bool binary(void)
{
    bool to_super = unary();
    while (peek()->kind == T_OPERATOR) {
        struct token *name = take(T_OPERATOR);
        unary();
        send(symbol_of(name->text, name->length), 1, to_super);
        to_super = false;
    }
    return to_super;
}

/* ifTrue: [...] ifFalse: [...] and their like, behind the condition. A branch that is not there
 * has the value nil. */
static void conditional(void)
{
    bool on_true = name_is(take(T_KEYWORD), "ifTrue:");
    size_t other = emit_jump(on_true ? OP_JUMP_FALSE : OP_JUMP_TRUE);
    inlined_block();
    size_t end = emit_jump(OP_JUMP);
    put_target(other);
    c.depth--;
    if (accept(on_true ? "ifFalse:" : "ifTrue:"))
        inlined_block();
    else
        emit_op(OP_NIL, 1);
    put_target(end);
}

/* and: [...], or: [...] */
static void connective(void)
{
    bool is_and = name_is(take(T_KEYWORD), "and:");
    size_t other = emit_jump(is_and ? OP_JUMP_FALSE : OP_JUMP_TRUE);
    inlined_block();
    size_t end = emit_jump(OP_JUMP);
    put_target(other);
    c.depth--;
    emit_op(is_and ? OP_FALSE : OP_TRUE, 1);
    put_target(end);
}

static void keyword_message(bool to_super)
{
    char selector[200];
    size_t length = 0, arguments = 0;
    while (peek()->kind == T_KEYWORD) {
        struct token *part = take(T_KEYWORD);
        if (length + part->length > sizeof selector)
            wrong("too long a selector");
        memcpy(selector + length, part->text, part->length);
        length += part->length;
        binary();
        arguments++;
    }
    send(symbol_of(selector, length), arguments, to_super);
}

static void expression(void)
{
    struct token *name = peek();
    if (name->kind == T_NAME && token_is(name + 1, ":=")) {
        c.at += 2;
        expression();
        emit_variable(name, true);
        return;
    }
    bool to_super = binary();
    if (peek()->kind != T_KEYWORD)
        return;
    bool inlined = token_is(peek() + 1, "[");
    if (inlined && (token_is(peek(), "ifTrue:") || token_is(peek(), "ifFalse:")))
        conditional();
    else if (inlined && (token_is(peek(), "and:") || token_is(peek(), "or:")))
        connective();
    else
        keyword_message(to_super);
}

/* Methods. */

/* The pattern; returns the selector. */
static value pattern(void)
{
    char selector[200];
    size_t length = 0;
    if (peek()->kind == T_NAME) {
        struct token *name = take(T_NAME);
        return symbol_of(name->text, name->length);
    }
    bool is_operator = peek()->kind == T_OPERATOR;
    do {
        struct token *part = take(is_operator ? T_OPERATOR : T_KEYWORD);
        if (length + part->length > sizeof selector)
            wrong("too long a selector");
        memcpy(selector + length, part->text, part->length);
        length += part->length;
        add_variable(take(T_NAME));
    } while (!is_operator && peek()->kind == T_KEYWORD);
    return symbol_of(selector, length);
}

static struct object *finished_method(void)
{
    struct object *code = allocate_old(image.string_class, KIND_BYTES, c.size, 0);
    memcpy(bytes_of(code), c.code, c.size);
    struct object *literals =
        allocate_old(image.array_class, KIND_SLOTS, c.literal_count, image.nil);
    memcpy(literals->slots, c.literals, c.literal_count * sizeof *c.literals);
    struct object *source = allocate_old(image.string_class, KIND_BYTES, c.text_length, 0);
    memcpy(bytes_of(source), c.text, c.text_length);
    struct object *method = allocate_old(image.method_class, KIND_SLOTS, METHOD_SLOTS, image.nil);
    method->slots[METHOD_CODE] = value_of(code);
    method->slots[METHOD_LITERALS] = value_of(literals);
    method->slots[METHOD_SOURCE] = value_of(source);
    return method;
}

value compile_method(value class, const char *text, size_t length)
{
    c.class = class;
    c.text = text;
    c.text_length = length;
    c.size = c.literal_count = c.variable_count = 0;
    c.depth = c.deepest = 0;
    scan();
    value selector = pattern();
    size_t arguments = c.variable_count;
    if (accept("|"))
        while (!accept("|"))
            add_variable(take(T_NAME));
    int64_t primitive = 0;
    if (accept("<")) {
        primitive = atol(take(T_NUMBER)->text);
        expect(">");
    }
    if (peek()->kind != T_END) {
        statements();
        emit_op(OP_POP, -1);
    }
    emit_op(OP_SELF, 1);
    emit(OP_RETURN);
    struct object *method = finished_method();
    method->slots[METHOD_SELECTOR] = selector;
    method->slots[METHOD_OWNER] = class;
    method->slots[METHOD_ARGUMENTS] = integer_value((int64_t)arguments);
    method->slots[METHOD_TEMPS] = integer_value((int64_t)c.variable_count);
    method->slots[METHOD_STACK] = integer_value(c.deepest);
    method->slots[METHOD_PRIMITIVE] = integer_value(primitive);
    return value_of(method);
}
