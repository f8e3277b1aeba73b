/* SPDX-License-Identifier: MIT
 *
 * sample.c: see sample.h.
 */
#include "analysis/simulate/sample.h"

void sample_error_add(struct sample_error *error, double estimate, double exact, double touches)
{
    double difference = touches > 0 ? (estimate - exact) / touches : 0;
    difference = difference < 0 ? -difference : difference;
    error->compared++;
    error->mean += (difference - error->mean) / (double)error->compared;
    error->largest = difference > error->largest ? difference : error->largest;
}

void put_sample_error(struct json *json, const struct sample_error *error)
{
    if (error->compared == 0) {
        json_null(json, "error");
        return;
    }
    json_open(json, "error");
    json_number(json, "references", error->references);
    json_real(json, "mean", error->mean);
    json_real(json, "largest", error->largest);
    json_close(json);
}

bool sample_feed(void *argument, const struct references *references)
{
    struct sample *sample = argument;
    struct references rest = *references;
    if (sample->exact) {
        struct references first = rest;
        first.count = first.count < sample->left ? first.count : sample->left;
        if (!sample->feed(sample->sampled, &first) || !sample->feed(sample->exact, &first))
            return false;
        sample->left -= first.count;
        rest.count -= first.count;
        rest.reference += first.count;
        if (sample->left == 0 && !sample->compare(sample->job))
            return false;
    }
    return sample->feed(sample->sampled, &rest);
}
