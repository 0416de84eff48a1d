"""Connections to servers, with the certificates that OpenTelemetry's exporters use, too."""

import os
import ssl
from http.client import HTTPConnection, HTTPSConnection
from urllib.parse import SplitResult

AUTHORITY_VARIABLE = "OTEL_EXPORTER_OTLP_CERTIFICATE"


def connection_to(address: SplitResult, timeout_s: float) -> HTTPConnection:
    """Return a connection to the host of an http or https address, to be opened by a request.

    Raises:
        OSError: if a certificate that the environment names cannot be used.
    """
    host = address.hostname or ""
    if address.scheme != "https":
        return HTTPConnection(host, address.port, timeout=timeout_s)
    return HTTPSConnection(host, address.port, timeout=timeout_s, context=_context())


def distrust(error: ssl.SSLCertVerificationError) -> str:
    """Return why the certificate of a server is not trusted, and what to do."""
    return (
        f"its certificate is not trusted: {error.verify_message}; name the file of its "
        f"certificate, or of its authority, in {AUTHORITY_VARIABLE}"
    )


def _context() -> ssl.SSLContext:
    context = ssl.create_default_context()
    context.set_alpn_protocols(["http/1.1"])
    authority, certificate, key = map(_file, ("CERTIFICATE", "CLIENT_CERTIFICATE", "CLIENT_KEY"))
    try:
        file = authority
        if authority:
            context.load_verify_locations(authority)
        if certificate:
            file = certificate
            # The empty password avoids a prompt in the terminal for the password of a key.
            context.load_cert_chain(certificate, key, password="")
    except OSError as error:
        raise OSError(f"{file}: cannot be used ({error.strerror or error})") from error
    return context


def _file(name: str) -> str | None:
    """Return the file of a variable of the exporters; that of spans comes before that of all."""
    names = (f"OTEL_EXPORTER_OTLP_TRACES_{name}", f"OTEL_EXPORTER_OTLP_{name}")
    return next(filter(None, map(os.environ.get, names)), None)
