"""Answers to clients: OTLP's response messages, and `google.rpc.Status`, in both encodings."""

from google.protobuf.json_format import MessageToJson  # type: ignore[import-untyped]
from google.protobuf.message import Message  # type: ignore[import-untyped]
from google.rpc.error_details_pb2 import BadRequest, RetryInfo  # type: ignore[import-untyped]
from google.rpc.status_pb2 import Status  # type: ignore[import-untyped]
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import (
    ExportLogsPartialSuccess,
    ExportLogsServiceResponse,
)
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceResponse,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTracePartialSuccess,
    ExportTraceServiceResponse,
)

from looptrace.collector.server.receiver.decoding import (
    DecodedRequest,
    RefusalError,
    Signal,
    WireFormat,
)
from looptrace.collector.server.receiver.receiver_metrics import Reason


def response(signal: Signal, decoded: DecodedRequest) -> Message:
    """Return the response to a request; without rejected spans it has no partial success."""
    is_whole = not decoded.rejected and not decoded.message
    if signal is Signal.METRICS:
        return ExportMetricsServiceResponse()
    if signal is Signal.LOGS:
        logs = ExportLogsPartialSuccess(
            rejected_log_records=decoded.rejected, error_message=decoded.message
        )
        return ExportLogsServiceResponse(partial_success=None if is_whole else logs)
    spans = ExportTracePartialSuccess(
        rejected_spans=decoded.rejected, error_message=decoded.message
    )
    return ExportTraceServiceResponse(partial_success=None if is_whole else spans)


def status(refusal: RefusalError) -> Status:
    """Return the status of a refused request: the error, or when to try again."""
    result = Status(code=refusal.reason.code, message=str(refusal))
    if refusal.reason is Reason.UNDECODABLE:
        violation = BadRequest.FieldViolation(description=str(refusal))
        result.details.add().Pack(BadRequest(field_violations=[violation]))
    if refusal.retry_after_s is not None:
        result.details.add().Pack(retry_info(refusal.retry_after_s))
    return result


def retry_info(retry_after_s: int) -> RetryInfo:
    """Return the time of the next try in the form of gRPC."""
    info = RetryInfo()
    info.retry_delay.seconds = retry_after_s
    return info


def written(message: Message, form: WireFormat) -> bytes:
    """Write a message in the form of the request that it answers."""
    data: bytes
    if form is WireFormat.PROTO:
        data = message.SerializeToString()
    else:
        data = MessageToJson(message, indent=None).encode()
    return data
