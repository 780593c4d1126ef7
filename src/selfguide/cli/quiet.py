"""Keeps the libraries below from talking over our own output."""


def quiet_libraries() -> None:
    """No progress bars and load reports of transformers: the command line has its own."""
    from transformers.utils import logging as transformers_logging

    transformers_logging.set_verbosity_error()  # type: ignore[no-untyped-call]
    transformers_logging.disable_progress_bar()  # type: ignore[no-untyped-call]
