// Vercel AI SDK 7 with the spans of older versions, which its package for OpenTelemetry still writes.

import { LegacyOpenTelemetry } from "@ai-sdk/otel";

import { agent } from "./vercel.mjs";

await agent(new LegacyOpenTelemetry());
