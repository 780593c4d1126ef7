"""What training needs of its sentences: how many there are, and each by its position."""

from typing import Protocol


class Texts(Protocol):
    """Sentences by position; a list, a tuple, or sentences that lie on disk."""

    def __len__(self) -> int: ...

    def __getitem__(self, position: int, /) -> str: ...
