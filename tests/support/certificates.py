"""A certificate for tests, signed by itself, for localhost."""

import subprocess
from pathlib import Path

from tests.support.programs import need_program


def make_certificate(directory: Path, days: int = 365) -> tuple[str, str]:
    """A pair of files; one that is there is replaced."""
    certificate, key = directory / "cert.pem", directory / "key.pem"
    subject = ["-subj", "/CN=localhost", "-days", str(days), "-keyout", str(key), "-out", str(certificate)]
    subject += ["-addext", "subjectAltName=DNS:localhost"]
    openssl = need_program("openssl")
    subprocess.run([openssl, "req", "-x509", "-newkey", "rsa:2048", "-nodes", *subject], check=True, stderr=-3)
    return str(certificate), str(key)
