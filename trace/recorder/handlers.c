/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * handlers.c: see handlers.h.
 *
 * Valgrind keeps the registers up to date at the ends of superblocks, and at references to memory
 * those alone that a stack trace needs. A handler that returns to the faulting instruction then
 * goes on with stale ones: a write barrier's loop begins anew, or never ends. With all registers up
 * to date that is not so, but every program would pay for it. So it begins with the first handler
 * for a fault, and everything is translated anew; instrument.c then also delays what an instruction
 * writes to registers before it refers to memory.
 */
#include "trace/recorder/handlers.h"

#include "libvex.h"
#include "pub_tool_vki.h"
#include "pub_tool_vkiscnums.h"

#include "trace/recorder/coregrind.h"

/* What a handler for a signal may find stale, and must not. */
static VexRegisterUpdates needed_for(UWord signal)
{
    switch (signal) {
    case VKI_SIGSEGV:
    case VKI_SIGBUS:
        return VexRegUpdAllregsAtMemAccess;
    case VKI_SIGFPE:
        return VexRegUpdAllregsAtEachInsn;
    default: /* SIGILL and SIGTRAP come at ends of superblocks */
        return VexRegUpd_INVALID;
    }
}

Bool handlers_need_registers(void)
{
    return vex_control.iropt_register_updates_default >= VexRegUpdAllregsAtMemAccess;
}

void handlers_after_syscall(UInt number, const UWord *arguments)
{
    if (number != __NR_rt_sigaction || !arguments[1])
        return;
    Addr handler = *(const Addr *)arguments[1];
    VexRegisterUpdates needed = needed_for(arguments[0]);
    if (handler == (Addr)VKI_SIG_DFL || handler == (Addr)VKI_SIG_IGN ||
        needed <= vex_control.iropt_register_updates_default)
        return;
    vex_control.iropt_register_updates_default = needed;
    VG_(discard_translations)(0x1000, 0x7ffffffff000, "handler");
}
