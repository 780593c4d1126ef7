"""What the tests of pages share."""

import random

import pytest


@pytest.fixture
def draws() -> random.Random:
    return random.Random(0)
