/* SPDX-License-Identifier: MIT
 *
 * rewriter.c: terms are rewritten by rules until none applies, as a theorem prover does.
 *
 * Terms are trees of small cells that share their parts; every rule makes new cells and forgets
 * old ones at once, in no order that a programmer could free them by, so whole rounds are freed
 * together where anything is. It stresses short lives in the middle of structures that stay, and
 * blocks of a few sizes.
 *
 * Idea: R. Boyer's theorem prover benchmark (R. Gabriel, "Performance and Evaluation of Lisp
 * Systems", 1985); the rules here are our own: Boolean terms are brought into a normal form of
 * conditionals and decided.
 */
#include "bench_programs/collected.h"

/* Constants and variables are leaves; IF (test, yes, no) is all that is left at the end. */
enum kind { FALSE_TERM, TRUE_TERM, VARIABLE, NOT, AND, OR, IMPLIES, IF };

struct term {
    enum kind kind;
    uint32_t variable;
    struct term *part[3];
    struct term *made_before; /* of all cells of this round, for those that free */
};

static struct term *newest;

static struct term *cell(enum kind kind, struct term *first, struct term *second,
                         struct term *third)
{
    struct term *term = obtain(sizeof *term);
    *term = (struct term){.kind = kind, .part = {first, second, third}};
    if (frees) {
        term->made_before = newest;
        newest = term;
    }
    return term;
}

static struct term *variable(uint32_t number)
{
    struct term *term = cell(VARIABLE, NULL, NULL, NULL);
    term->variable = number;
    return term;
}

static struct term *random_term(unsigned depth, uint32_t variables, uint64_t *random)
{
    if (depth == 0)
        return variable((uint32_t)random_below(random, variables));
    enum kind kind = (enum kind)random_between(random, NOT, IMPLIES);
    struct term *first = random_term(depth - 1, variables, random);
    struct term *second = kind == NOT ? NULL : random_term(depth - 1, variables, random);
    return cell(kind, first, second, NULL);
}

static struct term *constant(enum kind kind)
{
    return cell(kind, NULL, NULL, NULL);
}

/* One rule at the root; the same term when none applies. */
static struct term *rewrite_root(struct term *term)
{
    struct term **part = term->part;
    switch (term->kind) {
    case NOT:
        return cell(IF, part[0], constant(FALSE_TERM), constant(TRUE_TERM));
    case AND:
        return cell(IF, part[0], part[1], constant(FALSE_TERM));
    case OR:
        return cell(IF, part[0], constant(TRUE_TERM), part[1]);
    case IMPLIES:
        return cell(IF, part[0], part[1], constant(TRUE_TERM));
    case IF:
        if (part[0]->kind == TRUE_TERM)
            return part[1];
        if (part[0]->kind == FALSE_TERM)
            return part[2];
        if (part[0]->kind == IF) /* the test of a test moves up */
            return cell(IF, part[0]->part[0], cell(IF, part[0]->part[1], part[1], part[2]),
                        cell(IF, part[0]->part[2], part[1], part[2]));
        if (part[0]->kind != VARIABLE)
            return cell(IF, rewrite_root(part[0]), part[1], part[2]);
        return term;
    default:
        return term;
    }
}

static struct term *rewrite(struct term *term)
{
    for (struct term *next; (next = rewrite_root(term)) != term;)
        term = next;
    if (term->kind != IF)
        return term;
    struct term *yes = rewrite(term->part[1]), *no = rewrite(term->part[2]);
    return yes == term->part[1] && no == term->part[2] ? term : cell(IF, term->part[0], yes, no);
}

/* In how many of the assignments of all variables a normal term is true, by deciding each test
 * once: a bit of `known` says that a variable's value is in `values`. */
static uint64_t count_true(const struct term *term, uint32_t variables, uint64_t known,
                           uint64_t values)
{
    uint32_t free_variables = variables - (uint32_t)__builtin_popcountll(known);
    if (term->kind == TRUE_TERM)
        return (uint64_t)1 << free_variables;
    if (term->kind == FALSE_TERM)
        return 0;
    const struct term *test = term->kind == IF ? term->part[0] : term;
    uint64_t bit = (uint64_t)1 << test->variable;
    uint64_t result = 0;
    for (int value = 1; value >= 0; value--) {
        if (known & bit && !!(values & bit) != value)
            continue;
        uint64_t now = value ? values | bit : values & ~bit;
        if (term->kind == IF)
            result += count_true(term->part[value ? 1 : 2], variables, known | bit, now);
        else if (value)
            result += (uint64_t)1 << (free_variables - !(known & bit));
    }
    return result;
}

static void drop_round(void)
{
    while (frees && newest) {
        struct term *older = newest->made_before;
        give_up(newest);
        newest = older;
    }
}

int main(int argc, char **argv)
{
    uint64_t rounds = 2000, depth = 5, variables = 12;
    const struct bench_option options[] = {
        {"rounds", "how many terms", 1, 1000000, &rounds},
        {"depth", "of a term; work grows very fast with it", 1, 7, &depth},
        {"variables", "how many there are", 1, 30, &variables},
        {0},
    };
    bench_arguments(argc, argv, "terms are rewritten to a normal form", options);
    start_collected();
    uint64_t sum = 0;
    for (uint64_t round = 0; round < rounds; round++) {
        uint64_t random = mix(round + 1);
        struct term *term = random_term((unsigned)depth, (uint32_t)variables, &random);
        sum = mix(sum + count_true(rewrite(term), (uint32_t)variables, 0, 0));
        drop_round();
    }
    printf("rewriter: checksum=%016" PRIx64 "\n", sum);
    finish_collected();
    return 0;
}
