-- The results that hold, one row each, of events.jsonl, which the Collector's file exporter wrote.
CREATE VIEW events AS
SELECT
    record->>'traceId' AS trace_id,
    record->>'spanId' AS span_id,
    make_timestamp_ns((record->>'timeUnixNano')::BIGINT) AS ended,
    map_from_entries(list_transform(
        (record->'attributes')::JSON[],
        lambda one: (one->>'key', coalesce(
            one->'value'->>'stringValue', one->'value'->>'intValue',
            one->'value'->>'doubleValue', one->'value'->>'boolValue'))
    )) AS said
FROM (
    SELECT unnest(json_extract(line, '$.resourceLogs[*].scopeLogs[*].logRecords[*]')) AS record
    FROM read_json_objects('events.jsonl', format = 'newline_delimited') AS lines (line)
);

CREATE VIEW tool_parameter_match AS
SELECT
    said['tool_parameter_match.result_id'] AS result_id,
    said['tool_parameter_match.revision']::INTEGER AS revision,
    said['tool_parameter_match.level'] AS level,
    said['gen_ai.conversation.id'] AS session,
    said['gen_ai.tool.name'] AS tool,
    said['gen_ai.evaluation.score.label'] AS label,
    said['gen_ai.evaluation.score.value']::DOUBLE AS score,
    said['tool_parameter_match.golden_set'] AS golden_set,
    said['tool_parameter_match.golden_digest'] AS golden_digest,
    ended, trace_id, span_id
FROM events
WHERE said['gen_ai.evaluation.name'] = 'tool_parameter_match'
QUALIFY row_number() OVER (PARTITION BY result_id ORDER BY revision DESC) = 1
    AND coalesce(said['tool_parameter_match.withdrawn'], 'false') != 'true';
