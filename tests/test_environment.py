"""What is noted about where a number comes from."""

import importlib.util
import shutil
import subprocess

from selfguide import environment


def test_the_commit_of_somebody_elses_repository_is_not_ours(tmp_path, monkeypatch):
    """As in a virtual environment inside a project."""
    monkeypatch.delenv("SELFGUIDE_COMMIT", raising=False)
    git = ["git", "-C", str(tmp_path), "-c", "user.name=a", "-c", "user.email=a@b.c"]
    subprocess.run([*git, "init", "--quiet"], check=True)
    subprocess.run([*git, "commit", "--quiet", "--allow-empty", "--message", "theirs"], check=True)
    package = tmp_path / ".venv" / "lib" / "site-packages" / "selfguide"
    package.mkdir(parents=True)
    shutil.copy(environment.__file__, package)
    spec = importlib.util.spec_from_file_location("installed", package / "environment.py")
    installed = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(installed)
    assert installed.current_commit() is None
    monkeypatch.setenv("SELFGUIDE_COMMIT", "abc")
    assert installed.current_commit() == "abc"
    assert installed.describe_environment("cpu")["commit"] == "abc"
