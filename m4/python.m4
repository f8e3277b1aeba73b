# SPDX-License-Identifier: MIT
# The python3 that has the command's modules. Debian's own interpreter is tried first: a
# python3 that comes earlier on PATH often lacks Debian's python3-* packages.
AC_ARG_VAR([PYTHON], [the Python interpreter])
AC_MSG_CHECKING([for a python3 with click, rich, numpy, scipy, pandas, elftools, jinja2, plotly, matplotlib])
python_modules="import sys, click, rich, numpy, scipy, pandas, elftools, jinja2, plotly, matplotlib; assert sys.version_info >= (3, 11)"
found_python=
for candidate in $PYTHON /usr/bin/python3 python3; do
    AS_IF([$candidate -c "$python_modules" >/dev/null 2>&1], [found_python=$candidate; break])
done
AC_MSG_RESULT([${found_python:-no}])
AS_IF([test -n "$found_python"], [PYTHON=$found_python],
      [ALLOTROPE_MISSING([python3 >= 3.11 with click rich numpy scipy pandas elftools jinja2 plotly matplotlib],
                         [python3 python3-click python3-rich python3-numpy python3-scipy python3-pandas python3-pyelftools python3-jinja2 python3-plotly python3-matplotlib])
       PYTHON=/usr/bin/python3])
AC_SUBST([PYTHON])
pythondir='${datadir}/allotrope/python'
AC_SUBST([pythondir])
