# SPDX-License-Identifier: MIT
"""What is installed can be found and used, and is gone again."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from under import BUILD, HANG, plain_environment


def make(target: str, folder: Path) -> None:
    line = ["make", "-s", "-C", str(BUILD), target, f"DESTDIR={folder}"]
    environment = {
        name: value for name, value in plain_environment().items() if not name.startswith("MAKE")
    }
    done = subprocess.run(line, env=environment, capture_output=True, text=True, timeout=HANG)
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("installed")
    make("install", folder)
    return folder


def one(folder: Path, name: str) -> Path:
    (found,) = folder.rglob(name)
    return found


def test_the_library_has_a_versioned_name(installed: Path) -> None:
    library = one(installed, "liballotrope.so.0")
    assert library.is_symlink() and library.resolve().name.startswith("liballotrope.so.0.")
    told = subprocess.run(["readelf", "-d", library], capture_output=True, text=True).stdout
    assert "soname: [liballotrope.so.0]" in told


@pytest.mark.skipif(shutil.which("pkg-config") is None, reason="pkg-config is not installed")
def test_pkg_config_finds_it(installed: Path) -> None:
    description = one(installed, "allotrope.pc")
    environment = os.environ | {"PKG_CONFIG_PATH": str(description.parent)}
    line = ["pkg-config", "--libs", "allotrope"]
    told = subprocess.run(line, env=environment, capture_output=True, text=True).stdout
    assert "-lallotrope" in told


def test_uninstall_leaves_nothing(installed: Path) -> None:
    """The command was used, so Python has left what it keeps beside the modules."""
    (program,) = installed.rglob("bin/allotrope")
    done = subprocess.run([program, "--help"], env=plain_environment(), capture_output=True)
    assert done.returncode == 0
    make("uninstall", installed)
    left = [path for path in installed.rglob("*") if not path.is_dir() or "allotrope" in path.name]
    assert left == []
