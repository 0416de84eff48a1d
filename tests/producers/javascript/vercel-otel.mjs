// Vercel AI SDK 7 with its own package for OpenTelemetry.

import { OpenTelemetry } from "@ai-sdk/otel";

import { agent } from "./vercel.mjs";

await agent(new OpenTelemetry({ runtimeContext: true }));
