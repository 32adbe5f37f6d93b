from goldspan.collector_processor.pytest_plugin.fixture import GoldspanFixture

__all__ = [
    "GoldspanFixture",
]
