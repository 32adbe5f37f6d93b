// Writes recorded spans again, by OpenTelemetry's SDK and one of its exporters, with gzip and the ids they had:
// replay PROTOCOL URL FILE...
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"log"
	"os"
	"strconv"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

type value struct {
	String *string      `json:"stringValue"`
	Int    *json.Number `json:"intValue"`
	Double *float64     `json:"doubleValue"`
	Bool   *bool        `json:"boolValue"`
	Array  *struct {
		Values []value `json:"values"`
	} `json:"arrayValue"`
}

type attributes []struct {
	Key   string `json:"key"`
	Value value  `json:"value"`
}

type span struct {
	TraceID    string     `json:"traceId"`
	SpanID     string     `json:"spanId"`
	ParentID   string     `json:"parentSpanId"`
	Name       string     `json:"name"`
	Kind       int        `json:"kind"`
	Start      string     `json:"startTimeUnixNano"`
	End        string     `json:"endTimeUnixNano"`
	Attributes attributes `json:"attributes"`
	Events     []struct {
		Name       string     `json:"name"`
		Time       string     `json:"timeUnixNano"`
		Attributes attributes `json:"attributes"`
	} `json:"events"`
	Status struct {
		Code    int    `json:"code"`
		Message string `json:"message"`
	} `json:"status"`
}

type request struct {
	ResourceSpans []struct {
		Resource   struct{ Attributes attributes } `json:"resource"`
		ScopeSpans []struct {
			Scope struct{ Name, Version string } `json:"scope"`
			Spans []span                         `json:"spans"`
		} `json:"scopeSpans"`
	} `json:"resourceSpans"`
}

func (pairs attributes) keyValues() []attribute.KeyValue {
	var found []attribute.KeyValue
	for _, pair := range pairs {
		switch one := pair.Value; {
		case one.Int != nil:
			number, err := one.Int.Int64()
			check(err)
			found = append(found, attribute.Int64(pair.Key, number))
		case one.Double != nil:
			found = append(found, attribute.Float64(pair.Key, *one.Double))
		case one.Bool != nil:
			found = append(found, attribute.Bool(pair.Key, *one.Bool))
		case one.Array != nil:
			texts := []string{}
			for _, inner := range one.Array.Values {
				texts = append(texts, *inner.String)
			}
			found = append(found, attribute.StringSlice(pair.Key, texts))
		case one.String != nil:
			found = append(found, attribute.String(pair.Key, *one.String))
		}
	}
	return found
}

type recordedIDs struct{ current span }

func (ids *recordedIDs) NewIDs(ctx context.Context) (trace.TraceID, trace.SpanID) {
	id, err := trace.TraceIDFromHex(ids.current.TraceID)
	check(err)
	return id, ids.NewSpanID(ctx, id)
}

func (ids *recordedIDs) NewSpanID(context.Context, trace.TraceID) trace.SpanID {
	id, err := trace.SpanIDFromHex(ids.current.SpanID)
	check(err)
	return id
}

func (one span) write(tracer trace.Tracer) {
	ctx := context.Background()
	if one.ParentID != "" {
		id, err := trace.TraceIDFromHex(one.TraceID)
		check(err)
		parent, err := trace.SpanIDFromHex(one.ParentID)
		check(err)
		within := trace.SpanContextConfig{TraceID: id, SpanID: parent, TraceFlags: trace.FlagsSampled}
		ctx = trace.ContextWithSpanContext(ctx, trace.NewSpanContext(within))
	}
	_, written := tracer.Start(ctx, one.Name, trace.WithTimestamp(at(one.Start)),
		trace.WithSpanKind(trace.SpanKind(one.Kind)), trace.WithAttributes(one.Attributes.keyValues()...))
	for _, event := range one.Events {
		written.AddEvent(event.Name, trace.WithTimestamp(at(event.Time)), trace.WithAttributes(event.Attributes.keyValues()...))
	}
	// OTLP counts "ok" before "error", the SDK the other way round.
	written.SetStatus([]codes.Code{codes.Unset, codes.Ok, codes.Error}[one.Status.Code], one.Status.Message)
	written.End(trace.WithTimestamp(at(one.End)))
}

func at(nanoseconds string) time.Time {
	number, err := strconv.ParseInt(nanoseconds, 10, 64)
	check(err)
	return time.Unix(0, number)
}

func exporter(protocol, url string) sdk.SpanExporter {
	var client otlptrace.Client
	if protocol == "grpc" {
		client = otlptracegrpc.NewClient(otlptracegrpc.WithEndpointURL(url), otlptracegrpc.WithCompressor("gzip"))
	} else {
		client = otlptracehttp.NewClient(
			otlptracehttp.WithEndpointURL(url), otlptracehttp.WithCompression(otlptracehttp.GzipCompression))
	}
	made, err := otlptrace.New(context.Background(), client)
	check(err)
	return made
}

func replay(protocol, url, file string) {
	opened, err := os.Open(file)
	check(err)
	defer opened.Close()
	var requests []request
	lines := bufio.NewScanner(opened)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var one request
		check(json.Unmarshal(lines.Bytes(), &one))
		requests = append(requests, one)
	}
	check(lines.Err())
	ids := &recordedIDs{}
	provider := sdk.NewTracerProvider(
		sdk.WithIDGenerator(ids),
		sdk.WithResource(resource.NewSchemaless(requests[0].ResourceSpans[0].Resource.Attributes.keyValues()...)),
		sdk.WithBatcher(exporter(protocol, url)))
	for _, one := range requests {
		for _, scoped := range one.ResourceSpans[0].ScopeSpans {
			tracer := provider.Tracer(scoped.Scope.Name, trace.WithInstrumentationVersion(scoped.Scope.Version))
			for _, ids.current = range scoped.Spans {
				ids.current.write(tracer)
			}
		}
	}
	check(provider.Shutdown(context.Background()))
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func main() {
	for _, file := range os.Args[3:] {
		replay(os.Args[1], os.Args[2], file)
	}
}
