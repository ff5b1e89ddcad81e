"""A certificate for tests, signed by itself."""

import subprocess
from pathlib import Path

from tests.support.programs import need_program


def make_certificate(directory: Path) -> tuple[str, str]:
    certificate, key = directory / "cert.pem", directory / "key.pem"
    subject = ["-subj", "/CN=localhost", "-days", "1", "-keyout", str(key), "-out", str(certificate)]
    openssl = need_program("openssl")
    subprocess.run([openssl, "req", "-x509", "-newkey", "rsa:2048", "-nodes", *subject], check=True, stderr=-3)
    return str(certificate), str(key)
