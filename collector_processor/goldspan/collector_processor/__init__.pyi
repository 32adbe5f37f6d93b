from goldspan.collector_processor.in_process.file_exporter import FileSpanExporter
from goldspan.collector_processor.in_process.session_scope import session_scope
from goldspan.collector_processor.in_process.span_exporter import ToolParameterMatchExporter
from goldspan.collector_processor.in_process.span_processor import (
    FlushAtShutdown,
    ToolParameterMatchLogRecordProcessor,
    ToolParameterMatchSpanProcessor,
    flush_at_worker_exit,
)

__all__ = [
    "FileSpanExporter",
    "FlushAtShutdown",
    "ToolParameterMatchExporter",
    "ToolParameterMatchLogRecordProcessor",
    "ToolParameterMatchSpanProcessor",
    "flush_at_worker_exit",
    "session_scope",
]
