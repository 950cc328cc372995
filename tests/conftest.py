"""How long the property tests run: RECAP_SOAK=1 asks for the long counts."""

import os

import pytest
from hypothesis import HealthCheck, settings

pytest.register_assert_rewrite("tests.scripted")

SOAK = os.environ.get("RECAP_SOAK") == "1"
SLOW_IS_FINE = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}

settings.register_profile("suite", max_examples=100, derandomize=True, **SLOW_IS_FINE)
settings.register_profile("soak", max_examples=1_000, print_blob=True, **SLOW_IS_FINE)
settings.load_profile("soak" if SOAK else "suite")


@pytest.fixture(scope="session")
def soak() -> int:
    """What to multiply a count by: 1 in the suite, 10 in a soak."""
    return 10 if SOAK else 1
