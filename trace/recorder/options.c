/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * options.c: see options.h.
 */
#include "trace/recorder/options.h"

#include "pub_tool_libcbase.h"
#include "pub_tool_libcprint.h"
#include "pub_tool_options.h"
#include "pub_tool_tooliface.h"

struct recorder_options options = {
    .ring_fd = -1,
    .socket_fd = -1,
    .native_layout = True,
    .follow_output = "",
    .follow_description = "{}",
    .follow_level = 1,
};

static Bool command_line_option(const HChar *argument)
{
    if (VG_INT_CLO(argument, "--ring-fd", options.ring_fd) ||
        VG_INT_CLO(argument, "--socket-fd", options.socket_fd) ||
        VG_STR_CLO(argument, "--follow", options.follow) ||
        VG_STR_CLO(argument, "--follow-output", options.follow_output) ||
        VG_STR_CLO(argument, "--follow-description", options.follow_description) ||
        VG_INT_CLO(argument, "--follow-level", options.follow_level) ||
        VG_BOOL_CLO(argument, "--native-layout", options.native_layout))
        return True;
    return False;
}

static void print_usage(void)
{
    VG_(printf)
    ("    --ring-fd=<number>         write the trace to the ring behind this file\n"
     "                               descriptor [none: record to nothing]\n"
     "    --socket-fd=<number>       its hang-up says that the consumer has ended\n"
     "    --follow=<program>         each process starts this program, which takes its trace\n"
     "    --follow-output=<name> --follow-description=<json> --follow-level=<number>\n"
     "                               what that program is told\n"
     "    --native-layout=no|yes     lift Valgrind's limit on the break [yes]\n");
}

static void print_debug_usage(void)
{
    VG_(printf)("    (none)\n");
}

void options_register(void)
{
    VG_(needs_command_line_options)(command_line_option, print_usage, print_debug_usage);
}
