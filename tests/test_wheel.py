"""The wheel: what it holds, and that it works where the repository is not."""

import subprocess
import sys
import sysconfig
import tomllib
import zipfile
from pathlib import Path

import pytest

from second_environments import PIP, REPOSITORY, clean_variables, run

pytestmark = pytest.mark.second_environment

SOURCE = REPOSITORY / "src"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    options = ("--no-deps", "--no-build-isolation", "--no-index", "--quiet", "--wheel-dir", folder)
    run(*PIP, "wheel", REPOSITORY, *options, env=clean_variables())
    [built] = folder.iterdir()
    return built


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory) -> Path:
    """The scripts of a new environment: the wheel, and the packages that it needs as this environment has them."""
    place = tmp_path_factory.mktemp("installed")
    run(sys.executable, "-m", "venv", "--without-pip", place)
    run(*PIP, "--python", place, "install", "--no-deps", "--no-index", "--quiet", wheel)
    packages = Path(sysconfig.get_path("purelib", vars={"base": str(place)}))
    # a path that comes from a .pth file: the .pth files found there, such as that of our editable install, are not read
    (packages / "needed.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return place / "bin"


def names_in(wheel):
    with zipfile.ZipFile(wheel) as archive:
        return {name for name in archive.namelist() if not name.endswith("/")}


def test_all_of_the_source_is_in_it_and_nothing_else(wheel):
    sources = {str(path.relative_to(SOURCE)) for path in (SOURCE / "selfguide").rglob("*") if path.is_file()}
    sources = {name for name in sources if "__pycache__" not in name}
    packed = {name for name in names_in(wheel) if ".dist-info/" not in name}
    assert packed == sources
    bundled = {"mini/config.json", "mini/model.safetensors", "mini/tokenizer.json", "mini/README.md", "sentences.txt"}
    assert {f"selfguide/bundled/{name}" for name in (*bundled, "pairs.dev.tsv", "pairs.test.tsv")} <= packed
    assert "selfguide/py.typed" in packed


def test_what_it_says_of_itself(wheel):
    with zipfile.ZipFile(wheel) as archive:
        texts = {
            name.rpartition("/")[2]: archive.read(name).decode() for name in archive.namelist() if ".dist-info/" in name
        }
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
    assert wheel.name == f"selfguide-{project['version']}-py3-none-any.whl"
    assert "selfguide = selfguide.cli.main:entry_point" in texts["entry_points.txt"]
    assert "Requires-Python: >=3.11" in texts["METADATA"] and "License-Expression: Apache-2.0" in texts["METADATA"]
    assert texts["METADATA"].count("Requires-Dist: ") >= len(project["dependencies"])
    assert "Apache License" in texts["LICENSE"]


def test_command_of_the_installed_wheel(installed, tmp_path):
    where = "import selfguide; print(selfguide.__file__)"
    found = run(installed / "python", "-c", where, cwd=tmp_path, env=clean_variables()).stdout
    assert Path(found.strip()).is_relative_to(installed.parent)
    version = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]["version"]
    assert run(installed / "selfguide", "--version", cwd=tmp_path, env=clean_variables()).stdout == f"selfguide {version}\n"


def test_bundled_encoder_is_trained_from_the_installed_wheel(installed, tmp_path):
    where = "from selfguide import bundled; print(bundled.SENTENCES)"
    sentences = run(installed / "python", "-c", where, cwd=tmp_path, env=clean_variables()).stdout.strip()
    assert Path(sentences).is_relative_to(installed.parent)
    size = ["--steps", "1", "--batch-size", "4", "--projection-width", "16", "--device", "cpu"]
    command = [installed / "selfguide", "train", "--model", "mini", "--data", sentences, "--output", "trained", *size]
    assert run(*command, cwd=tmp_path, env=clean_variables()).stdout == "encoder: trained\n"
    assert (tmp_path / "trained" / "model.safetensors").is_file()


def test_a_failing_command_fails_the_test(tmp_path):
    with pytest.raises(AssertionError, match="exit code 3"):
        run(sys.executable, "-c", "import sys; sys.exit(3)", cwd=tmp_path)
    with pytest.raises(subprocess.TimeoutExpired):
        run(sys.executable, "-c", "import time; time.sleep(9)", timeout=0.1)
