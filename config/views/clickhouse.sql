-- The results that hold, one row each, of the events that the Collector's ClickHouse exporter wrote to otel_logs.
CREATE VIEW tool_parameter_match AS
SELECT * EXCEPT (withdrawn)
FROM (
    SELECT
        LogAttributes['tool_parameter_match.result_id'] AS result_id,
        toUInt32OrZero(LogAttributes['tool_parameter_match.revision']) AS revision,
        LogAttributes['tool_parameter_match.withdrawn'] AS withdrawn,
        LogAttributes['tool_parameter_match.level'] AS level,
        LogAttributes['gen_ai.conversation.id'] AS session,
        LogAttributes['gen_ai.tool.name'] AS tool,
        LogAttributes['gen_ai.evaluation.score.label'] AS label,
        toFloat64OrNull(LogAttributes['gen_ai.evaluation.score.value']) AS score,
        LogAttributes['tool_parameter_match.golden_set'] AS golden_set,
        LogAttributes['tool_parameter_match.golden_digest'] AS golden_digest,
        ServiceName AS service,
        Timestamp AS ended,
        TraceId AS trace_id,
        SpanId AS span_id
    FROM otel_logs
    WHERE LogAttributes['gen_ai.evaluation.name'] = 'tool_parameter_match'
    ORDER BY revision DESC
    LIMIT 1 BY result_id
)
WHERE withdrawn != 'true';
