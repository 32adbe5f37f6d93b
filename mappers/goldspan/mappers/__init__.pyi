from goldspan.mappers.session_reader import TelemetryWarning, read_sessions

__all__ = [
    "TelemetryWarning",
    "read_sessions",
]
