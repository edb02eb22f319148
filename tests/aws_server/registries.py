"""The registries that base images come from: AWS's own, and the public one, behind a proxy.

A tag of the public registry is asked for at an address of the internet. `public_registry` is a
proxy that answers in its place, with a certificate that only those trust who are told to. Other
hosts are reached through it, since a deployment fetches data from the package index.
"""

from __future__ import annotations

import datetime
import hashlib
import json
import selectors
import socket
import socketserver
import ssl
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from compilegate.catalog.images import ecr_repository
from tests.aws_server.client import AwsServer

MANIFEST = "application/vnd.oci.image.manifest.v1+json"


def push_images(aws: AwsServer, uris: Iterable[str]) -> None:
    """Put images of AWS where they are asked for: moto looks in the caller's account alone."""
    ecr = aws.client("ecr")
    there = {each["repositoryName"] for each in ecr.describe_repositories()["repositories"]}
    for uri in uris:
        repository = ecr_repository(uri)
        if repository is None:
            continue
        if repository.name not in there:
            ecr.create_repository(repositoryName=repository.name)
            there.add(repository.name)
        manifest = json.dumps({"mediaType": MANIFEST, "content": uri})
        tag = uri.rpartition(":")[2]
        ecr.put_image(repositoryName=repository.name, imageManifest=manifest, imageTag=tag)


@contextmanager
def public_registry(host: str, folder: Path) -> Iterator[Mapping[str, str]]:
    """A registry that lets anybody pull any tag; yields what makes a process find it as `host`."""
    certificate, key = folder / "registry.pem", folder / "registry.key"
    _certify(host, certificate, key)
    trusted = folder / "trusted.pem"
    others = ssl.get_default_verify_paths().cafile  # SSL_CERT_FILE, or what the system has
    trusted.write_bytes(certificate.read_bytes() + (Path(others).read_bytes() if others else b""))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)

    class Proxy(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            wanted, _, port = self._head().split(" ")[1].rpartition(":")
            if wanted != host:
                with socket.create_connection((wanted, int(port))) as other:
                    self.wfile.write(b"HTTP/1.1 200 OK\r\n\r\n")
                    _connect(self.connection, other)
                return
            self.wfile.write(b"HTTP/1.1 200 OK\r\n\r\n")
            with context.wrap_socket(self.connection, server_side=True) as connection:
                request = connection.recv(65536).decode().split(" ")[1]
                digest = hashlib.sha256(request.encode()).hexdigest()
                answer = f"HTTP/1.1 200 OK\r\nDocker-Content-Digest: sha256:{digest}\r\n"
                connection.sendall(f"{answer}Content-Length: 0\r\n\r\n".encode())

        def _head(self) -> str:
            lines = iter(self.rfile.readline, b"\r\n")
            return b"".join(lines).decode()

    with socketserver.ThreadingTCPServer(("localhost", 0), Proxy) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield {
                "https_proxy": f"http://localhost:{server.server_address[1]}",
                "no_proxy": "localhost,127.0.0.1",
                "SSL_CERT_FILE": str(trusted),
            }
        finally:
            server.shutdown()
            thread.join()


def _connect(one: socket.socket, other: socket.socket) -> None:
    """Pass on what either sends, until one of them ends."""
    with selectors.DefaultSelector() as ready:
        ready.register(one, selectors.EVENT_READ, other)
        ready.register(other, selectors.EVENT_READ, one)
        while True:
            for key, _ in ready.select():
                sent = key.fileobj.recv(65536)
                if not sent:
                    return
                key.data.sendall(sent)


def _certify(host: str, certificate: Path, key: Path) -> None:
    """A certificate of that name, signed by itself, for three hours."""
    private = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, host)])
    now = datetime.datetime.now(datetime.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(private.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(minutes=5))
        .not_valid_after(now + datetime.timedelta(hours=3))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(host)]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(private, hashes.SHA256())
    )
    certificate.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    key.write_bytes(
        private.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
