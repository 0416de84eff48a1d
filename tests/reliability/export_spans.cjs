// Sends spans as an agent in JavaScript does: node export_spans.cjs KIND URL COMPRESSION COUNT
const { BasicTracerProvider, BatchSpanProcessor } = require("@opentelemetry/sdk-trace-base");

const [kind, url, compression, count] = process.argv.slice(2);
const { OTLPTraceExporter } = require(`@opentelemetry/exporter-trace-otlp-${kind}`);
const { CompressionAlgorithm } = require("@opentelemetry/otlp-exporter-base");

const exporter = new OTLPTraceExporter({ url, compression: CompressionAlgorithm[compression] });
const provider = new BasicTracerProvider({ spanProcessors: [new BatchSpanProcessor(exporter)] });
const tracer = provider.getTracer("tests");
for (let number = 0; number < Number(count); number += 1) {
  const span = tracer.startSpan(`call ${number}`, { attributes: { number, list: ["a", "b"] } });
  span.setAttribute("half of an emoji", "\u{1F600}".slice(0, 1));
  span.recordException(new Error("failed"));
  span.setStatus({ code: 2, message: "failed" });
  span.end();
}
provider.shutdown();
