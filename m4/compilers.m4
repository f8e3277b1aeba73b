# SPDX-License-Identifier: MIT
# Without a compiler nothing else can be tried. So that is looked for before autoconf's own macros
# give up, and the headers then by their usual place, so that all that is missing is named at once.
AC_CHECK_PROGS([C_COMPILER], [$CC gcc cc clang])
AS_IF([test -z "$C_COMPILER"], [ALLOTROPE_MISSING([a C compiler], [gcc])])
AC_CHECK_PROGS([CXX_COMPILER], [$CXX g++ c++ clang++])
AS_IF([test -z "$CXX_COMPILER"], [ALLOTROPE_MISSING([a C++ compiler], [g++])])
AC_CHECK_PROGS([MAKE_PROGRAM], [$MAKE make gmake])
AS_IF([test -z "$MAKE_PROGRAM"], [ALLOTROPE_MISSING([make], [make])])
AS_IF([test -z "$C_COMPILER" || test -z "$CXX_COMPILER"],
      [AS_IF([test ! -f /usr/include/stdio.h], [ALLOTROPE_MISSING([the C library's headers], [libc6-dev])])
       AS_IF([test ! -f /usr/include/cmocka.h], [ALLOTROPE_MISSING([cmocka], [libcmocka-dev])])
       AS_IF([test ! -f /usr/include/zstd.h], [ALLOTROPE_MISSING([zstd], [libzstd-dev])])
       AS_IF([test ! -f /usr/include/xxhash.h], [ALLOTROPE_MISSING([xxhash], [libxxhash-dev])])
       AS_IF([test ! -f /usr/include/valgrind/pub_tool_tooliface.h],
             [ALLOTROPE_MISSING([Valgrind's headers and libraries for tools], [valgrind])])
       ALLOTROPE_STOP_IF_MISSING])
