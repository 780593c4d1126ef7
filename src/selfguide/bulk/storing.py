"""What is stored of float32 vectors: themselves, codes of int8, or bits."""

from pathlib import Path

import numpy as np
import numpy.typing as npt

from selfguide.bulk.config import EncodeConfig
from selfguide.bulk.formats import Vectors
from selfguide.bulk.shards import ShardFolder
from selfguide.compact import Scale, bits
from selfguide.errors import InputError
from selfguide.files import read_json


def as_stored(
    vectors: npt.NDArray[np.float32], config: EncodeConfig, folder: ShardFolder, given: Scale | None = None
) -> Vectors:
    """Vectors as the settings ask for them.

    int8 vectors have the scale that was given, else that of the folder; the first vectors ever stored there set it.
    """
    if config.vectors == "binary":
        return bits(vectors)
    if config.vectors == "float32":
        return vectors
    scale = folder.scale
    if scale is None:
        scale = given or Scale.of(vectors)
        folder.set_scale(scale)
    return scale.codes(vectors)


def read_scale(path: str | None) -> Scale | None:
    """The scale of an earlier encoding, by the name of its vectors or of the record beside them; None for no name.

    Raises:
        InputError: when there is none.
    """
    if path is None:
        return None
    record = Path(path if path.endswith(".json") else f"{path}.json").expanduser()
    try:
        return Scale(float(read_json(record)["int8_step"]))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(
            f"--scale-of: '{record}' is not the record of an encoding with --vectors int8 ({type(error).__name__} {error}); "
            "give the file of its vectors, or the .json beside it"
        ) from error
