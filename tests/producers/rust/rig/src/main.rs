//! An agent of Rig, whose spans of `tracing` go to OpenTelemetry.

use std::env;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use opentelemetry::KeyValue;
use opentelemetry::trace::TracerProvider;
use opentelemetry_otlp::{Protocol, SpanExporter, WithExportConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::SdkTracerProvider;
use rig_agent::prelude::*;
use rig_agent::tool::ToolContext;
use rig_core::providers::openai::{OpenAI, OpenAIConfig};
use serde::Deserialize;
use serde_json::{Value, json};
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::prelude::*;

#[derive(Debug)]
struct Failure(&'static str);

impl std::fmt::Display for Failure {
    fn fmt(&self, formatter: &mut std::fmt::Formatter) -> std::fmt::Result {
        formatter.write_str(self.0)
    }
}

impl std::error::Error for Failure {}

#[derive(Deserialize)]
struct File {
    path: String,
}

/// The tests pass once a file was edited.
#[derive(Clone, Default)]
struct Mended(Arc<AtomicBool>);

struct ReadFile;
struct EditFile(Mended);
struct RunTests(Mended);

fn parameters(names: &[&str]) -> Value {
    let properties: serde_json::Map<_, _> =
        names.iter().map(|name| (name.to_string(), json!({"type": "string"}))).collect();
    json!({"type": "object", "properties": properties, "required": names})
}

impl Tool for ReadFile {
    const NAME: &'static str = "read_file";
    type Args = File;
    type Output = String;
    type Error = Failure;

    fn description(&self) -> String {
        "Read a file.".to_owned()
    }

    fn parameters(&self) -> Value {
        parameters(&["path"])
    }

    async fn call(&self, _: &mut ToolContext, file: File) -> Result<String, Failure> {
        Ok(format!("{}: total = sum(prices)", file.path))
    }
}

impl Tool for EditFile {
    const NAME: &'static str = "edit_file";
    type Args = File;
    type Output = String;
    type Error = Failure;

    fn description(&self) -> String {
        "Add a line to a file.".to_owned()
    }

    fn parameters(&self) -> Value {
        parameters(&["path", "text"])
    }

    async fn call(&self, _: &mut ToolContext, file: File) -> Result<String, Failure> {
        self.0.0.store(true, Ordering::Relaxed);
        Ok(format!("{} is written", file.path))
    }
}

impl Tool for RunTests {
    const NAME: &'static str = "run_tests";
    type Args = File;
    type Output = String;
    type Error = Failure;

    fn description(&self) -> String {
        "Run the tests of a file.".to_owned()
    }

    fn parameters(&self) -> Value {
        parameters(&["path"])
    }

    async fn call(&self, _: &mut ToolContext, _: File) -> Result<String, Failure> {
        if self.0.0.load(Ordering::Relaxed) {
            Ok("9 passed".to_owned())
        } else {
            Err(Failure("1 failed: test_total, expected 42, got 41"))
        }
    }
}

/// Return a provider whose spans go to the recorder.
fn provided() -> anyhow::Result<SdkTracerProvider> {
    let exporter = SpanExporter::builder()
        .with_http()
        .with_protocol(Protocol::HttpBinary)
        .with_endpoint(format!("{}/v1/traces", env::var("OTLP_URL")?))
        .build()?;
    let resource = Resource::builder().with_attribute(KeyValue::new("service.name", "fixer"));
    let provider = SdkTracerProvider::builder()
        .with_resource(resource.build())
        .with_batch_exporter(exporter)
        .build();
    // The HTTP client of the exporter has spans too.
    let targets = Targets::new().with_target("rig", LevelFilter::INFO);
    let layer = tracing_opentelemetry::layer().with_tracer(provider.tracer("rig"));
    tracing_subscriber::registry().with(layer.with_filter(targets)).init();
    Ok(provider)
}

async fn fix() -> anyhow::Result<()> {
    let mended = Mended::default();
    let config = OpenAIConfig::new("-").with_base_url(env::var("MODEL_URL")?);
    let client: OpenAI = config.client();
    AgentBuilder::new(client.chat(env::var("MODEL")?))
        .name("fixer")
        .preamble("You mend code.")
        .record_content_telemetry(true)
        .tool(ReadFile)
        .tool(EditFile(mended.clone()))
        .tool(RunTests(mended))
        .build()
        .prompt("Make the tests in tests/test_cart.py pass.")
        .max_turns(10)
        .await?;
    Ok(())
}

fn main() -> anyhow::Result<()> {
    // The exporter's client blocks, and so must not be made within the runtime.
    let provider = provided()?;
    tokio::runtime::Runtime::new()?.block_on(fix())?;
    provider.shutdown()?;
    Ok(())
}
