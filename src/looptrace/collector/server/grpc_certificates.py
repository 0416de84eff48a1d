"""The certificates of a gRPC server."""

from pathlib import Path

import grpc  # type: ignore[import-untyped]

from looptrace.collector.server.access import Access
from looptrace.collector.server.tokens.token_file import AccessError


class GrpcCertificates:
    """The certificates of a gRPC server, which can be read again while it runs.

    Raises:
        AccessError: by each method, if a file cannot be read.
    """

    def __init__(self, cert_file: Path, key_file: Path, client_ca_file: Path | None) -> None:
        self._files = (cert_file, key_file, client_ca_file)
        self._new: grpc.ServerCertificateConfiguration | None = None  # for the next connection

    def credentials(self) -> grpc.ServerCredentials:
        """Return the credentials of the server."""
        needs_client = self._files[2] is not None
        return grpc.dynamic_ssl_server_credentials(self._read(), self._take_new, needs_client)

    def renew(self) -> None:
        """Read the files again, for new connections."""
        self._new = self._read()

    def _take_new(self) -> grpc.ServerCertificateConfiguration | None:
        new, self._new = self._new, None
        return new

    def _read(self) -> grpc.ServerCertificateConfiguration:
        try:
            cert, key, roots = (file.read_bytes() if file else None for file in self._files)
        except OSError as error:
            raise AccessError(f"{error.filename}: cannot be read ({error.strerror}).") from error
        return grpc.ssl_server_certificate_configuration([(key, cert)], roots)


def grpc_certificates(access: Access) -> GrpcCertificates | None:
    """Return the certificates of a gRPC server; None where there is none."""
    if access.cert_file is None or access.key_file is None:
        return None
    return GrpcCertificates(access.cert_file, access.key_file, access.client_ca_file)
