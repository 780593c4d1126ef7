"""Which of SICK's 9,927 pairs are its test split: mteb's copy on the hub holds all of them, unsplit.

A bit for each pair, 1 for test, packed and written in base64; the pairs are in the order of their lines
(:func:`selfguide.data.digests.letters_line`), so that it does not matter in which order a source has them.
"""

import base64
from collections.abc import Sequence

import numpy as np

from selfguide.data.digests import Pair, letters_line


def chosen_pairs(pairs: Sequence[Pair], bits: str) -> list[Pair]:
    """The pairs whose bit is 1; empty where the number of pairs is not the one that the bits are for."""
    packed = np.frombuffer(base64.b64decode(bits), dtype=np.uint8)
    flags = np.unpackbits(packed)
    if not len(flags) - 8 < len(pairs) <= len(flags):
        return []
    return [pair for pair, is_chosen in zip(sorted(pairs, key=letters_line), flags, strict=False) if is_chosen]


TEST_PAIRS = (
    "M5DTT3FisFxHpP3cchEFM47+aR8bZND+xJ9QtZ7hfDfgrYBTta82zgXRaBV4ALEuHBe04TOcEwtzeWAVqKCM18B6qFNGfdK7LSr3LpBD6gCh5M80nBad"
    "d2tcmrGRLhz8EeoGBV37zQNInxHRZJpxC0uK73xwSF5MkRsDh/dk83xPq4anekKkv7c05BhafSfaCSBEmFrPneMQj5hqsKmAPpO+S1tEIw3F7LpEtfKS"
    "4QGUFyGuzo1+vaXiNiEA8wbYbR0lRBSNbP54Qov8cU8hfTYv9KLs6GHN7Hs1HGIHaIkzK0yAtPQ522uJuwjO/k/emg+j73DfnR1FVyVR6mfwbMzmCbna"
    "K3Z1VDQATFKMKJobuCkjOsIp8CntwtI8LOgnzaXZnXeVnSMps12adCYIwfrXgY2R9QIWRpee5qOISqfMDkmmXbSHV8drOcRBIrW+6n+H4OxPwll4WdFw"
    "+CqiPm0wTVh9Kkb/Ir37PTYLbl4y0PErGKw1NEh9cyOcHm4a6THMnnkRu8VWmdeGfrGZMcv9hZ24HXFI7aa26iQ0AyoPWKIg68W3u+QVN3thmCk/2/ZE"
    "xo/S6YoAacH5SKHgNByeurRGXMAu0BJ3iCpZlX+ovyWKDaniVR0subNev2OdlCwJVYymZylx6bKMy/nCvzPwAU34mr8/ZwXNf2Df6wSVH8Qb+skyxS4n"
    "wrJogWWFUP6BXL1uGy8kcB0R5zHnyLFkJptymzI/zvA3kVwRcDPSCpr9OilB+ZwHYC6ltyO2Yg4OT1hAzASE+W638yoyYJ2Zz3vbEz3fWaL/mhENhP8d"
    "fPtfjXbdiwDR8+z5b1gnBXFzMor7Rpg9NZQcFqQb8INTktyte7NESCJOYJeKYaTDpuSIVOBCj4Qu7wNDRrVRbbngr8IR74PLp1D/nc9iEptzY6Qqyu2B"
    "v8tFQV7eNVop1zKIAKPp1bLzbGa9iJgeSnkQdZ5/LHlcHrON5s3hVdhYO0V349uM0TnvATIZ7O11oRk6ZQT7wETH+O30CiBIdpQVW6Uw/psxcXTRSEjr"
    "2C8a1r4JdSljmQruEjhkg/+y1ox8S5Yl+RGPO5JtioKI3tgiNgK3u2HMrDCHB6hMLzXnbsFUDIw1daA9d33FpTiRaz2kM8sLvu0Ro3E6YK9jjAR7PNP+"
    "xjoos7YwotAEjYp20o+hGG30EqK18HQ6W84IY1V+evE7N7tKmreEZfygoUUl1aTo8HfNQPUiFm4kRGdrTxEIm0yrWIfeuOhxrLDCpeIoesnzi+t1cs+S"
    "qGqhHM3WCFrhpCPrXwT+H+IQHPGW+4Pv3gZsylEQuhRGja3v3tuDxzIgxWP5GfE300SwhVf/h12UtkzVZhYxhbsVUiMYIoVsxhqMKQeqZ3kj703BebsC"
    "PK3OcCDzHoBy908cLehFz5f1Pxt4ESru7epcdtD5hzXVlvjkF50Ta0OMW9nNpvWuYn0D2gOXtE5dqOlWln/ZWxopeSTLNwCTJDW4eyt1N58kLSsY1LLQ"
    "dBkyhrThmeiIy0NfMB6h2dc975LYLSg+S9gegcHn1Aw7FBRSERpt5qKiDwX0qSWv4RaGxr8lcsr7DyNmppyyRuopv+HqHmNOJJjeP52pjyEiFTvwfMAs"
    "JWPQ85EOryBmJqVEBBsQA7qp41JRRIY="
)
