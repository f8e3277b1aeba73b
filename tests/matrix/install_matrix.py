#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Lists the Debian packages of the program matrix that are missing; --install installs them."""

import subprocess
import sys

from test_matrix import is_installed, programs


def main() -> int:
    if sys.argv[1:] not in ([], ["--install"]):
        print(f"install_matrix: unknown argument '{sys.argv[1]}'; valid is --install, or nothing")
        return 2
    packages = sorted({package for program in programs() for package in program.packages})
    missing = [package for package in packages if not is_installed(package)]
    if not missing:
        print("all packages of the program matrix are installed")
        return 0
    print("missing:", *missing)
    if not sys.argv[1:]:
        return 0
    command = ["apt-get", "install", "-y", "--no-install-recommends", *missing]
    return subprocess.run(command, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
