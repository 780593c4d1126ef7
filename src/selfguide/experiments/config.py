"""The settings of ``selfguide reproduce``; imports nothing heavy, so that ``--help`` is quick."""

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import final

from selfguide import choices
from selfguide.errors import InputError
from selfguide.settings import check_values, setting


@final
@dataclass(frozen=True)
class ReproduceConfig:
    """What is run, and with what."""

    data: str | None = setting(None, "folder with texts and evaluation sets (sts, nli, senteval, glue, ...)", metavar="DIR")
    results: str = setting("results", "folder of result files", metavar="DIR")
    encoder: tuple[str, ...] = setting((), "only these encoders of the tables, such as BERT-base or mini", metavar="LABEL")
    method: tuple[str, ...] = setting((), "only these methods, such as sg-opt", metavar="NAME")
    model: tuple[str, ...] = setting(
        (),
        "only the systems of these models; a folder or file, or NAME=PATH, is taken in the place of the hub's",
        metavar="M",
    )
    seeds: str | None = setting(None, "seeds in the place of the spec's, with commas", metavar="N,N")
    jobs: int = setting(1, "runs at a time, side by side on the same device")
    device: str = setting("auto", "where to run", choices=choices.DEVICES)
    rerun: bool = setting(False, "run also what has a result")
    dry_run: bool = setting(False, "say what would run, and how long it took before")

    def __post_init__(self) -> None:
        problems = list(check_values(self).values())
        if not problems and self.jobs < 1:
            problems.append(f"--jobs is {self.jobs}; it must be 1 or more")
        if not problems and self.seeds is not None and not all(part.strip().isdecimal() for part in self.seeds.split(",")):
            problems.append(f"--seeds is '{self.seeds}'; give whole numbers with commas, such as 1,2,3")
        if problems:
            raise InputError("; ".join(problems))

    @property
    def seed_numbers(self) -> tuple[int, ...] | None:
        """The seeds, where they were given."""
        return None if self.seeds is None else tuple(dict.fromkeys(int(part) for part in self.seeds.split(",")))

    def models(self, known: Collection[str]) -> dict[str, str]:
        """Model of each name that was given -> its folder or file, or the name itself.

        Args:
            known: The models of the tables; a folder or file stands for the one of the same last name.

        Raises:
            InputError: when the tables have no such model.
        """
        found = {}
        for text in self.model:
            name, equals, folder = text.partition("=")
            wanted = Path(name).name
            model = next((model for model in known if Path(model).name == wanted), None)
            if model is None:
                raise InputError(f"the tables have no model '{wanted}'; there are: {', '.join(known)}")
            found[model] = folder if equals else text if Path(text).expanduser().exists() else model
        return found
