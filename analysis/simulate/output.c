/* SPDX-License-Identifier: MIT
 *
 * output.c: numbers, fixed words, and names of functions.
 */
#include "analysis/simulate/output.h"

#include <inttypes.h>

void sample_error_add(struct sample_error *error, double estimate, double exact, double touches)
{
    double difference = touches > 0 ? (estimate - exact) / touches : 0;
    difference = difference < 0 ? -difference : difference;
    error->compared++;
    error->mean += (difference - error->mean) / (double)error->compared;
    error->largest = difference > error->largest ? difference : error->largest;
}

struct reference_totals class_totals_sum(const struct class_totals *totals)
{
    struct reference_totals sum = {0};
    for (unsigned class = 0; class < REFERENCE_CLASSES; class ++) {
        sum.references += totals->of[class].references;
        sum.stores += totals->of[class].stores;
        sum.touches += totals->of[class].touches;
    }
    return sum;
}

void print_class_name(FILE *output, unsigned class)
{
    const char *name = reference_source_class_name(class);
    if (name)
        fprintf(output, "\"%s\"", name);
    else
        fprintf(output, "\"class %u\"", class);
}

static void print_counts(FILE *output, struct reference_totals totals)
{
    fprintf(output, "\"references\": %" PRIu64 ", \"loads\": %" PRIu64 ", \"stores\": %" PRIu64,
            totals.references, totals.references - totals.stores, totals.stores);
}

void print_head(FILE *output, const char *schema, const struct class_totals *totals,
                const struct reference_source *source)
{
    static const char *const answers[] = {"null", "false", "true"};
    fprintf(output, "\"schema\": \"%s\", ", schema);
    print_counts(output, class_totals_sum(totals));
    fprintf(output, ", \"whole\": %s, \"threaded\": %s, \"classes\": [",
            reference_source_error(source) ? "false" : "true",
            answers[reference_source_threaded(source) + 1]);
    const char *separator = "";
    for (unsigned class = 0; class < REFERENCE_CLASSES; class ++) {
        if (totals->of[class].references == 0)
            continue;
        fprintf(output, "%s{\"class\": ", separator);
        print_class_name(output, class);
        fputs(", ", output);
        print_counts(output, totals->of[class]);
        fputs("}", output);
        separator = ", ";
    }
    fputs("]", output);
}

void print_sample_error(FILE *output, const struct sample_error *error)
{
    if (error->compared == 0) {
        fputs("\"error\": null", output);
        return;
    }
    fprintf(output, "\"error\": {\"references\": %" PRIu64 ", \"mean\": %.9g, \"largest\": %.9g}",
            error->references, error->mean, error->largest);
}
