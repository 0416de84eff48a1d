"""What holds for all tests."""

from __future__ import annotations

from hypothesis import settings

# A loaded machine is slow now and then; speed is measured in benchmarks, not here.
settings.register_profile("looptrace", deadline=None)
settings.load_profile("looptrace")
