# SPDX-License-Identifier: MIT
# The peer of the collector's benchmarks; without it they are made without it.
AC_CHECK_HEADER([gc.h], [have_libgc=yes], [have_libgc=no])
AM_CONDITIONAL([HAVE_LIBGC], [test $have_libgc = yes])
