"""A certificate for tests, signed by itself, for localhost."""

import subprocess
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from tests.support.programs import need_program


def make_certificate(directory: Path, days: int = 365) -> tuple[str, str]:
    """A pair of files; one that is there is replaced."""
    certificate, key = directory / "cert.pem", directory / "key.pem"
    subject = ["-subj", "/CN=localhost", "-days", str(days), "-keyout", str(key), "-out", str(certificate)]
    subject += ["-addext", "subjectAltName=DNS:localhost"]
    openssl = need_program("openssl")
    subprocess.run([openssl, "req", "-x509", "-newkey", "rsa:2048", "-nodes", *subject], check=True, stderr=-3)
    return str(certificate), str(key)


def expire(certificate: Path, key: Path) -> None:
    """Make a certificate anew, as one that expired yesterday. openssl makes none that is over."""
    old = x509.load_pem_x509_certificate(certificate.read_bytes())
    signer = serialization.load_pem_private_key(key.read_bytes(), password=None)
    assert isinstance(signer, rsa.RSAPrivateKey)
    day = timedelta(days=1)
    made = x509.CertificateBuilder(old.issuer, old.subject, old.public_key(), old.serial_number)
    made = made.not_valid_before(datetime.now(UTC) - 2 * day).not_valid_after(datetime.now(UTC) - day)
    certificate.write_bytes(made.sign(signer, hashes.SHA256()).public_bytes(serialization.Encoding.PEM))
