"""The errors that a user can cause or meet; the command line turns each into one line and an exit code."""


class SelfguideError(Exception):
    """Something failed that was not the user's doing: exit code 1."""

    exit_code = 1


class StorageError(SelfguideError):
    """The disk is full, or a file reached a size limit: exit code 1."""


class IncompleteError(SelfguideError):
    """A part of what was asked for is done, and what is not is said: exit code 1."""


class InputError(SelfguideError, ValueError):
    """Wrong input or use: says what was wrong, the value got, what is allowed and what to do. Exit code 2."""

    exit_code = 2


class MissingExtraError(InputError):
    """An optional package is asked for and not installed; the message names the install command."""


class MissingDataError(InputError):
    """A data set is not where it was looked for; others may be."""
