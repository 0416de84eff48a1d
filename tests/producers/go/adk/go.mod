module agent

go 1.26

require (
	go.opentelemetry.io/otel v1.40.0
	go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp v1.39.0
	go.opentelemetry.io/otel/sdk v1.40.0
	google.golang.org/adk v1.0.0
	google.golang.org/genai v1.40.0
)
