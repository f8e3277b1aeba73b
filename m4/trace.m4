# SPDX-License-Identifier: MIT
# What traces need: zstd, xxhash, and the parts of Valgrind that tools are made of.
AC_CHECK_HEADER([zstd.h], [], [ALLOTROPE_MISSING([zstd], [libzstd-dev])])
AC_CHECK_HEADER([xxhash.h], [], [ALLOTROPE_MISSING([xxhash], [libxxhash-dev])])

AC_MSG_CHECKING([for Valgrind's headers and static libraries])
VALGRIND_HEADERS=/usr/include/valgrind
VALGRIND_LIBRARIES=/usr/lib/x86_64-linux-gnu/valgrind
VALGRIND_SUPPORT=/usr/libexec/valgrind
AS_IF([test -f $VALGRIND_HEADERS/pub_tool_tooliface.h &&
       test -f $VALGRIND_LIBRARIES/libcoregrind-amd64-linux.a &&
       test -f $VALGRIND_SUPPORT/default.supp],
      [AC_MSG_RESULT([yes])],
      [AC_MSG_RESULT([no])
       ALLOTROPE_MISSING([Valgrind's headers and libraries for tools], [valgrind])])
# The recorder uses what Valgrind keeps to itself, which changes from release to release: these are
# the ones of Debian 12 and 13.
AS_IF([test -f $VALGRIND_HEADERS/config.h],
      [AC_MSG_CHECKING([for Valgrind 3.19 or 3.24])
       valgrind_found=`sed -n 's/^.define VERSION "\(.*\)"/\1/p' $VALGRIND_HEADERS/config.h`
       AC_MSG_RESULT([${valgrind_found:-unknown}])
       AS_CASE([$valgrind_found], [3.19.*|3.24.*], [],
               [ALLOTROPE_MISSING([Valgrind 3.19 or 3.24 (found ${valgrind_found:-another}; the recorder needs its internals)], [valgrind of Debian 12 or 13])])])
AC_SUBST([VALGRIND_HEADERS])
AC_SUBST([VALGRIND_LIBRARIES])
AC_SUBST([VALGRIND_SUPPORT])
