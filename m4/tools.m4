# SPDX-License-Identifier: MIT
AC_CHECK_HEADER([cmocka.h], [], [ALLOTROPE_MISSING([cmocka], [libcmocka-dev])],
                [[#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>]])
AC_CHECK_PROG([HAVE_PYTEST], [pytest-3], [yes])
AC_CHECK_PROGS([CLANG], [clang clang-14])
AC_CHECK_PROGS([CLANG_FORMAT], [clang-format clang-format-14])
AC_CHECK_PROGS([CLANG_TIDY], [clang-tidy clang-tidy-14])
