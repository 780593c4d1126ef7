"""Uploading a trained folder to the Hugging Face hub, but for the files that hold sentences of the training text."""

from pathlib import Path

from selfguide.errors import SelfguideError

KEPT_HERE = ("selfguide/neighbours.json", "selfguide/map.json", "selfguide/report.html")
"""Sentences that somebody trained on are theirs alone."""


def push(folder: Path, name: str, *, private: bool = False) -> str:
    """Create the repository where it is not there yet and upload the folder; gives its address.

    Raises:
        SelfguideError: when the hub refuses or cannot be reached; the folder is kept.
    """
    from huggingface_hub import HfApi

    # what all its errors of the network are: of httpx in huggingface_hub 1, of httpx2 since
    from huggingface_hub.errors import HTTPError  # type: ignore[attr-defined]

    api = HfApi()
    try:
        repository = api.create_repo(name, private=private, exist_ok=True)
        api.upload_folder(
            folder_path=folder,
            repo_id=repository.repo_id,
            commit_message="Add encoder trained with selfguide",
            ignore_patterns=list(KEPT_HERE),
        )
    except (HTTPError, OSError, ValueError, RuntimeError) as error:
        # a RuntimeError only names the file that did not get through, and keeps the reason as its cause
        told = f"{error} {error.__cause__}" if isinstance(error, RuntimeError) else str(error)
        reason = " ".join(told.split())[:300] or type(error).__name__
        raise SelfguideError(f"'{folder}' was trained but not uploaded to '{name}': {reason}") from error
    return str(repository)
