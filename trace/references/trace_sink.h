/* SPDX-License-Identifier: MIT
 *
 * trace_sink.h: a sink that writes a trace.
 */
#ifndef ALLOTROPE_TRACE_REFERENCES_TRACE_SINK_H
#define ALLOTROPE_TRACE_REFERENCES_TRACE_SINK_H

#include "trace/format/writer.h"
#include "trace/references/raw.h"

struct raw_sink trace_sink(struct trace_writer *writer);

#endif
