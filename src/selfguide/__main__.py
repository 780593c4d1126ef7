"""``python -m selfguide``: the same as ``selfguide``."""

from selfguide.cli.main import entry_point

if __name__ == "__main__":
    entry_point()
