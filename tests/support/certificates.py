"""A certificate for tests, signed by itself, for localhost."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa

LOCALHOST = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])


def make_certificate(directory: Path, days: int = 365) -> tuple[str, str]:
    """A pair of files; one that is there is replaced."""
    certificate, key = directory / "cert.pem", directory / "key.pem"
    signer = rsa.generate_private_key(public_exponent=65_537, key_size=2_048)
    now = datetime.now(UTC)
    key.touch(mode=0o600)
    key.write_bytes(
        signer.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
    )
    _write(certificate, signer, now, now + timedelta(days=days))
    return str(certificate), str(key)


def expire(certificate: Path, key: Path) -> None:
    """Make a certificate anew, as one that expired yesterday."""
    signer = serialization.load_pem_private_key(key.read_bytes(), password=None)
    assert isinstance(signer, rsa.RSAPrivateKey)
    now, day = datetime.now(UTC), timedelta(days=1)
    _write(certificate, signer, now - 2 * day, now - day)


def _write(certificate: Path, signer: rsa.RSAPrivateKey, begins: datetime, ends: datetime) -> None:
    made = x509.CertificateBuilder(LOCALHOST, LOCALHOST, signer.public_key(), x509.random_serial_number())
    made = made.not_valid_before(begins).not_valid_after(ends)
    # As one that openssl signs by itself: OpenSSL trusts it where it is named as an authority.
    made = made.add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
    made = made.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
    certificate.write_bytes(made.sign(signer, hashes.SHA256()).public_bytes(serialization.Encoding.PEM))
